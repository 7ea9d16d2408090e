#!/usr/bin/env bash
# Our declarations of CUDA's functions, types and constants agree with CUDA's own headers, where these are installed.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
gpu=$(cd "$here/../../src/cuda" && pwd)
fail() { echo "FAIL: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

headers() # the first folder that has all three
{
    local folder
    for folder in "${CUDA_HOME:-/nowhere}/include" /usr/local/cuda*/include /usr/include; do
        if [ -e "$folder/cuda.h" ] && [ -e "$folder/cublasLt.h" ] && [ -e "$folder/nvrtc.h" ]; then echo "$folder"; return; fi
    done
    return 1
}
include=$(headers) || { echo "skipped: CUDA's headers are not installed (cuda.h, cublasLt.h, nvrtc.h)"; exit 77; }

compiles() # compiles FOLDER: with our headers of that folder
{
    ${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I "$1" -isystem "$include" "$here/api_prototypes.c" &&
        ${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I "$1" -isystem "$include" "$here/api_sizes.c"
} >"$work/log" 2>&1

compiles "$gpu" || fail "they differ from those of $include: $(cat "$work/log")"

# changed FILE SED: that such a mistake would be found.
changed()
{
    rm -rf "$work/gpu"
    cp -r "$gpu" "$work/gpu"
    sed -i "$2" "$work/gpu/$1"
    cmp -s "$gpu/$1" "$work/gpu/$1" && fail "$2 changes nothing in $1"
    compiles "$work/gpu" && fail "nobody sees $2 in $1"
}
changed driver_api.h 's/CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13/CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 14/'
changed driver_api.h 's/size_t \* *unused/int *unused/'
changed cublaslt_api.h 's/CUBLASLT_EPILOGUE_BGRADA, 256/CUBLASLT_EPILOGUE_BGRADA, 257/'
changed cublaslt_api.h 's/uint64_t rows, uint64_t columns/uint64_t rows, int columns/'
changed cublaslt_api.h 's/uint64_t data\[8\]/uint64_t data[9]/'
changed nvrtc_api.h 's/int \*major, int \*minor/int *major, long *minor/'
echo "as those of $include"
