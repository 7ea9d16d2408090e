#!/usr/bin/env bash
# Calls of the driver that fail, one after another: the probe's answer names the call, what was taken is given back, and the other
# probes go on.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A call that one probe alone makes.
EMULATED_FAIL=cuMemHostRegister_v2:2 ask facts copies limbs host_memory words
[ ! -s err.txt ] || fail "$(cat err.txt)"
answers "[name for name in lines if not one(name)['ok']] == ['host_memory']"
answers "one('host_memory')['call'] == 'cuMemHostRegister_v2' and one('host_memory')['status'] == 999"
answers "one('host_memory')['why'] == 'cuMemHostRegister_v2: 999 unknown error'"
answers "'memfd_up_GBs' in one('host_memory') and 'huge_up_GBs' not in one('host_memory')" # the kind after it was tried

# An allocation of each probe that makes three.
EMULATED_FAIL=cuMemAlloc_v2:3 ask
[ ! -s err.txt ] || fail "$(cat err.txt)"
answers "[name for name in lines if one(name).get('call') == 'cuMemAlloc_v2'] == ['attention', 'products']"
answers "one('limbs')['ok'] and one('copies')['ok'] and one('host_memory')['ok']"

# One combination that cuBLASLt refuses costs its line alone.
EMULATED_FAIL=cublasLtMatmulAlgoGetHeuristic:5 ask products
answers "[p['ok'] for p in lines['product']] == [True] * 4 + [False] + [True] * 22"
answers "one('products')['ok'] and one('products')['computed'] == 26"

# What was begun before a call that fails is brought to an end: a stream's wait, a capture.
EMULATED_FAIL=cuStreamWriteValue64_v2:1 ask words
[ ! -s err.txt ] || fail "$(cat err.txt)"
EMULATED_FAIL=cuLaunchKernel:16 ask launches # the first of the capture
[ ! -s err.txt ] || fail "$(cat err.txt)"

# A call that never returns, and one that ends the process: the probe's time is over, and the next begins.
EMULATED_FAIL=cuMemHostAlloc:2:hang ask --limit 5 facts host_memory
answers "one('facts')['ok'] and 'took longer than' in one('host_memory')['why'] and 'pin_s_per_GiB' in one('host_memory')"
answers "one('host_memory')['seconds'] < 9" # it was killed, and not waited for in vain
EMULATED_FAIL=cuMemHostAlloc:2:abort ask host_memory words
answers "'died of signal 6' in one('host_memory')['why'] and 'pin_s_per_GiB' in one('host_memory') and one('words')['ok']"

# Every call of every probe, or every so many where it makes more than that.
if [ "${ZERO_TEST_SAMPLE:-no}" = yes ]; then most=6; else most=30; fi
printf '\120\355\125\272\1\0\20\0\0\0\0\0\0\0\0\0' >image
fail_in_turn() # fail_in_turn PROBE: in out.txt a line {"probe": "run"} and the answers for each call that failed
{
    local calls number
    ask "$1"
    calls=$(EMULATED_COUNT=$WORK/count LD_LIBRARY_PATH=$EMULATED "$PROBE" --small --image image "$1" >/dev/null && cat count)
    [ "$calls" -gt 20 ] || fail "$1 makes $calls calls"
    for ((number = 1; number <= calls; number += (calls + most - 1) / most)); do
        echo '{"probe": "run"}'
        EMULATED_FAIL="*:$number" LD_LIBRARY_PATH=$EMULATED timeout 60 "$PROBE" --small --image image "$1" 2>err.txt ||
            fail "$1, call $number: exit code $?"
        [ ! -s err.txt ] || fail "$1, call $number: $(cat err.txt)"
    done >all.txt
    mv all.txt out.txt
}
for probe in facts copies launches words limbs attention products host_memory; do
    fail_in_turn "$probe"
    answers "all(a.get('ok', True) or (a['status'] in (15, 999) and a['call'] in a['why']) for a in sum(lines.values(), []))"
    # One of two algorithms of a product may fail, and the other is taken.
    [ "$probe" = products ] || answers "sum(not a.get('ok', True) for a in sum(lines.values(), [])) == len(lines['run'])"
done
