#!/usr/bin/env bash
# Mistakes planted in a copy of the kernels of attention on tensor cores: fragments, barriers, waits for copies. Each has to be noticed in
# each kernel that has it (planted_attention.cpp).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernels=$(cd "$here/../../src/cuda/kernels" && pwd)
WORK=$(mktemp -d) && cd "$WORK" || exit 99
trap 'cd /; rm -rf "$WORK"' EXIT

fail() { echo "FAIL: $*" >&2; exit 1; }

read -ra compile <<<"${CXX:-g++}"
compile+=(-std=c++17 -O0 -w -I "$here" -I copy -I .) # compiling takes longer than running
"${compile[@]}" -x c++-header "$here/simt.h" -o simt.h.gch || fail 'simt.h does not compile' # once for all

# wrong WHAT FILE SED KERNEL...: the kernels that are wrong when SED has changed FILE.
wrong()
{
    local what=$1 file=$2 change=$3
    shift 3
    rm -rf copy && cp -r "$kernels" copy
    [ -z "$change" ] || sed -i "$change" "copy/$file"
    [ -z "$change" ] || ! cmp -s "copy/$file" "$kernels/$file" || fail "$what: there is no place for it"
    "${compile[@]}" -include simt.h "$here/planted_attention.cpp" -o planted 2>log || fail "$what does not compile: $(head -20 log)"
    timeout 60 ./planted >out.txt || fail "$what: exit code $?"
    [ "$(sed 's/ *$//' out.txt)" = "$*" ] || fail "$what: wrong are '$(cat out.txt)', not '$*'"
    echo "$what: $*"
}

wrong 'no mistake' '' ''
wrong 'words of a right factor in another order' attention_tiles.h \
    's/2 \* c + matrix % 2/2 * c + (matrix + 1) % 2/' forward keys queries
wrong 'pieces of another row' attention_tiles.h 's/piece ^ (row & 7)/piece ^ (row + (threadIdx.x \& 1) \& 7)/' forward keys queries
wrong 'rows of a left factor in another order' attention_tiles.h \
    's/16 \* at.warp + 8 \* (matrix % 2)/16 * at.warp + 8 * (matrix \/ 2)/' keys queries
for file in attention_mma attention_backward; do
    names=forward
    [ $file = attention_mma ] || names='keys queries'
    # shellcheck disable=SC2086 # names are words
    {
        wrong "no wait for copies, $file" $file.cu 's/zr_copy_wait(1);/zr_copy_wait(2);/' $names
        wrong "no barrier after copies, $file" $file.cu '/zr_copy_wait(1);/{n;d}' $names
        wrong "no barrier before a tile is overwritten, $file" $file.cu \
            '/multiply_columns<TYPE, WIDTH, [A-Z]*>(\(state.out\|sums\|dk\), /{n;d}' $names
        wrong "the diagonal is not seen, $file" $file.cu 's/key <= first + at.row/key < first + at.row/; s/j <= own.row/j < own.row/; s/own <= row;/own < row;/' \
            $names
    }
done
wrong 'sums are not scaled when a larger score comes' attention_mma.cu '/state.sum\[r\] \*= factor;/d' forward
