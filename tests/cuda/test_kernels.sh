#!/usr/bin/env bash
# The text of the kernels compiles for the cards that it is for: by nvcc, where that is installed, and by NVRTC as the probe calls it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
tried=''
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
for capability in 80 90; do
    if [ -n "$nvcc" ]; then
        timeout 200 "$nvcc" -std=c++17 --cubin -arch=sm_$capability --Werror all-warnings -Xptxas -v "$GPU/kernels.cu" -o kernels.cubin >log 2>&1 ||
            fail "nvcc, sm_$capability: $(cat log)"
        spilled=$(grep -c ' [1-9][0-9]* bytes spill' log)
        [ "$spilled" -eq 0 ] || fail "sm_$capability: registers are spilled: $(cat log)"
        ask --image "$WORK/kernels.cubin" attention
        answers "one('attention')['ok']"
        tried=yes
    fi
    EMULATED_CAPABILITY=$capability ask compile
    grep -q 'there is no libnvrtc' out.txt && continue
    answers "one('compile')['ok'] and one('compile')['architecture'] == $capability and one('compile')['image_bytes'] > 1000"
    tried=yes
done
[ -n "$tried" ] || { echo "skipped: there is neither nvcc nor NVRTC here, so nothing compiled the kernels for a GPU"; exit 77; }

# What is no CUDA is refused, with the compiler's words.
if ! grep -q 'there is no libnvrtc' out.txt; then
    mkdir broken
    cp "$GPU"/* broken/
    echo "__device__ int nonsense = missing;" >>broken/kernels.cu
    timeout 100 broken/run --probe "$PROBE" --emulated "$EMULATED" compile >out.txt 2>err.txt || fail "exit code $?"
    answers "not one('compile')['ok'] and 'missing' in one('compile')['why']"
fi
