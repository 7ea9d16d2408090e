#!/usr/bin/env bash
# Mistakes planted in a copy of the kernels, each of which has to be noticed when they run on the CPU (planted.cpp): barriers that are
# missing, lanes and masks that are wrong, places past the end, sums in another order.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernels=$(cd "$here/../../src/cuda/kernels" && pwd)
WORK=$(mktemp -d) && cd "$WORK" || exit 99
trap 'cd /; rm -rf "$WORK"' EXIT

fail() { echo "FAIL: $*" >&2; exit 1; }

read -ra compile <<<"${CXX:-g++}" # which may be several words
compile+=(-std=c++17 -O0 -w -I "$here" -I copy -I .)
"${compile[@]}" -x c++-header "$here/simt.h" -o simt.h.gch || fail 'simt.h does not compile' # once for all

# build FILE: the program that checks kernels of FILE.cu as they lie in copy/.
build()
{
    "${compile[@]}" -include simt.h -DPLANTED_"$1" -DPLANTED_TEXT="\"copy/$1.cu\"" "$here/planted.cpp" -o planted 2>log ||
        fail "$1 does not compile: $(head -20 log)"
}

fresh() { rm -rf copy; cp -r "$kernels" copy; }

# plant WHAT FILE TEXT BEFORE AFTER: in TEXT, the first BEFORE becomes AFTER, which FILE's check has to notice.
plant()
{
    fresh
    python3 - "copy/$3" "$4" "$5" <<'PY' || fail "$1: there is no place for it"
import sys
path, before, after = sys.argv[1:]
before, after = (text.encode().decode("unicode_escape") for text in (before, after))
text = open(path).read()
open(path, "w").write(text.replace(before, after, 1))
sys.exit(before not in text)
PY
    build "$2"
    got=0
    { timeout 60 ./planted >out.txt; } 2>/dev/null || got=$?
    [ "$got" -ne 0 ] || fail "nobody noticed: $1"
    [ "$got" -ne 124 ] || fail "it hung: $1"
    echo "$1: $(head -1 out.txt | cut -c1-100) (exit code $got)"
}

for file in elements rows columns; do
    fresh
    build $file
    timeout 60 ./planted >out.txt 2>&1 || fail "$file is wrong without a mistake: exit code $?, $(cat out.txt)"
done

plant 'no barrier before parts are read' rows block_sums.h \
    '= values[n];\n    __syncthreads();' '= values[n];'
plant 'a mask without a lane' rows block_sums.h '0xffffffffu, value, by' '0x7fffffffu, value, by'
plant 'half of the lanes are left out' rows block_sums.h 'by = WARP / 2; by; by /= 2)\n        value +=' 'by = WARP / 4; by; by /= 2)\n        value +='
plant 'no barrier before what was loaded is overwritten' rows rows.cu \
    'sum += loaded[i];\n        __syncthreads();' 'sum += loaded[i];'
plant 'no barrier after loading' rows rows.cu 'loaded[i] = a.x[first + i];\n        __syncthreads();' 'loaded[i] = a.x[first + i];'
plant 'a larger element does not make the sum smaller' rows rows.cu 'sum *= expf(largest - most);' ''
plant 'elements past the end of a row are read' rows eights.h 'k < left ? get(array, type, i + k) : 0' 'get(array, type, i + k)'
plant 'elements past the end of a row are stored' rows eights.h '        if (k < left)\n            put' '            put'
plant 'a barrier that some threads miss' rows rows.cu '    block_sums(sums);' '    if (threadIdx.x != 5) block_sums(sums);'
plant 'no barrier before sums of warps are joined' columns columns.cu \
    '    __syncthreads();\n    if (warp != 0' '    if (warp != 0'
plant 'a part of rows goes past the end' columns columns.cu '(part + 1) * part_rows < rows ? (part + 1) * part_rows : rows' '(part + 1) * part_rows'
plant 'columns past the end' columns columns.cu 'if (warp != 0 || column >= width)' 'if (warp != 0)'
plant 'rows of a token are listed in another order' elements block_sums.h \
    '__popc(of_warp & ((1u << lane) - 1))' '__popc(of_warp >> lane) - 1'
plant 'no barrier before a list is read' elements block_sums.h 'threadIdx.x;\n    __syncthreads();\n    return all;' 'threadIdx.x;\n    return all;'
plant 'each row of a token adds all of them' elements elements.cu 'id < 0 || stands_before(a.ids, row)' 'id < 0'

# Host and card agree on a structure because compilers can lay it out in one way alone, which each of them is asked: gaps, and more than a
# launch takes, are refused by those of the host, of the emulated driver and of the card, where there is one.
alike()
{
    local what=$1 change=$2 words=$3
    fresh
    sed -i "$change" copy/args_elements.h
    ! cmp -s copy/args_elements.h "$kernels/args_elements.h" || fail "$what: there is no place for it"
    echo '#include "copy/args_elements.h"' >layout.c
    cp layout.c layout.cpp
    cp layout.c layout.cu
    for compiler in "${CC:-cc} -std=c11 -fsyntax-only layout.c" "${CXX:-g++} -std=c++17 -fsyntax-only layout.cpp" \
        ${nvcc:+"$nvcc -std=c++17 -arch=sm_80 --cubin -o layout.cubin layout.cu"}; do
        got=0
        timeout 60 $compiler >log 2>&1 || got=$?
        if [ -z "$words" ]; then [ $got -eq 0 ] || fail "$what, $compiler: $(head -5 log)"
        elif [ $got -eq 0 ] || ! grep -q "$words" log; then fail "$what, not refused by $compiler: exit code $got, $(head -5 log)"; fi
    done
    echo "$what: ${words:-right}"
}

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
alike 'a structure without a change' 's/$/ /' ''
alike 'a number of four bytes alone' '0,/V(int32_t, by)/s/ *V(int32_t, by)//; 0,/V(int32_t, type) *\\/s/V(int32_t, type) *\\/V(int32_t, type)/' 'the structure of gelu has gaps'
alike 'four bytes before eight' '0,/P(const void, pre)/s/P(const void, pre)/V(int32_t, first) P(const void, pre)/' 'the structure of gelu has gaps'
alike 'more than a launch takes' '0,/P(const void, pre)/s/P(const void, pre)/P(const void, pre) R(int64_t, many, 600)/' 'the structure of gelu is too large'
