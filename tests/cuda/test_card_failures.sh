#!/usr/bin/env bash
# Calls of the driver, cuBLASLt and NVRTC that fail in a training, one after another: the program ends with one message that names the
# card, has given back what it took, and has not hung; or it has not needed the call. $EMULATED is the folder of the emulated libraries.
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
: "${EMULATED:?the folder of the emulated libraries}"
export EMULATED_LEAKS=1 LD_LIBRARY_PATH=$EMULATED
try=(train --new gpt2:layers=1,heads=1,width=64,context=16 --data "$TEXT" --val none --dtype bf16 --steps 2 --micro-batch 1 --threads 1 --quiet
    --no-final-checkpoint --backend cuda --out out)
echo '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}' >host.json

# fails HOW OPTION...: the training with EMULATED_FAIL=HOW. What it said is in err.txt; $failed: yes or no.
fails()
{
    local got=0 how=$1
    shift
    rm -rf out
    EMULATED_FAIL=$how within 60 "$ZERO" "${try[@]}" "$@" >out.txt 2>err.txt || got=$?
    failed=no
    case $got in 124 | 137) fail "$how: it hangs" ;; esac
    [ $got -eq 0 ] || failed=yes
    case $got in 0 | 70 | 74 | 78) ;; *) fail "$how: exit code $got ($(cat err.txt))" ;; esac
    [ $got -eq 0 ] || [ "$(grep -c '^zero train: ' err.txt)" -eq 1 ] || fail "$how: not one message: $(cat err.txt)"
    ! grep -q '^emulated driver: ' err.txt || fail "$how: $(cat err.txt)"
}

# A launch that never ends: --timeout does.
rm -rf out
got=0
EMULATED_LEAKS=0 EMULATED_STUCK=80 timeout -k 5 60 "$ZERO" "${try[@]}" --timeout 1 >out.txt 2>err.txt || got=$?
[ $got -eq 74 ] && grep -q 'has not ended what it was given within 1 s' err.txt || fail "stuck: exit code $got ($(cat err.txt))"

# Each function, when it is first called, and later.
functions=$(sed -n 's/^ *X(\(cu[A-Za-z0-9_]*\), .*/\1/p' "$HERE/../../src/cuda/driver_api.h"; sed -n 's/.* \(cublasLt[A-Za-z]*\),.*/\1/p' \
    "$HERE/../../src/cuda/cublaslt_api.h"; sed -n 's/.* \(nvrtc[A-Za-z]*\),.*/\1/p' "$HERE/../../src/cuda/nvrtc_api.h")
tried=0 met=0
for name in $functions; do
    for number in $(sample "1 2 40" 1); do
        XDG_CACHE_HOME=$WORK/none/$name$number fails "$name:$number"
        tried=$((tried + 1))
        [ $failed = no ] || met=$((met + 1))
        [ $failed = no ] || grep -q "$name\|cuda:0\|NVIDIA\|compiling" err.txt || fail "$name:$number: $(cat err.txt)"
    done
done
[ $met -ge 15 ] || fail "only $met of $tried failures ended the training"

# Every so many of all calls, with states on the device and on the host.
for config in "" "--config host.json"; do
    # shellcheck disable=SC2086 # words
    EMULATED_COUNT=$WORK/count fails none:1 $config
    calls=$(cat count)
    [ "$calls" -gt 300 ] || fail "a training makes $calls calls"
    for ((number = 1; number <= calls; number += calls / $(sample 25 6))); do
        # shellcheck disable=SC2086
        fails "*:$number" $config
    done
done
# A call that never returns cannot be ended by the program: it says what SIGTERM asks of it, and does nothing else.
for name in $(sample "cuMemAlloc_v2 cuLaunchKernel cuEventQuery" cuLaunchKernel); do
    rm -rf out
    got=0
    { EMULATED_FAIL=$name:1:hang timeout -k 1 3 "$ZERO" "${try[@]}" >out.txt 2>err.txt || got=$?; } 2>/dev/null
    [ $got -eq 137 ] || fail "$name hangs: exit code $got ($(cat err.txt))"
    [ "$(cat err.txt)" = "asked to end: ending after this step, then saving (in the start-up: before the first step); a second signal stops at once, without saving" ] ||
        fail "$name hangs, and it says: $(cat err.txt)"
done
echo "$tried functions and numbers, $met of them met; each of some calls of $calls"
