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

# Every call of every probe, or every so many where it makes more than that.
if [ "${ZERO_TEST_SAMPLE:-no}" = yes ]; then most=5; else most=15; fi
for probe in facts copies launches words limbs attention products host_memory; do
    EMULATED_COUNT=$WORK/count ask "$probe"
    calls=$(cat count)
    [ "$calls" -gt 20 ] || fail "$probe makes $calls calls"
    for ((number = 1; number <= calls; number += 1 + calls / most)); do
        EMULATED_FAIL="*:$number" ask "$probe"
        [ ! -s err.txt ] || fail "$probe, call $number: $(cat err.txt)"
        answers "all(a['ok'] or a['call'] in a['why'] for a in sum(lines.values(), []))"
        # One of two algorithms of a product may fail, and the other is taken.
        [ "$probe" = products ] || answers "sum(not a['ok'] and a['status'] == 999 for a in sum(lines.values(), [])) == 1"
    done
done
