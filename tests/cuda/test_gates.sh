#!/usr/bin/env bash
# What a compiler makes of the kernels, without a card: NVRTC compiles each file for sm_80 and sm_90, in seconds; no kernel has local
# memory; kernels of tensor cores have their products (HMMA), element kernels loads and stores of sixteen bytes; and registers are those
# in registers.txt, where NVRTC is of the version that wrote it. Kernels that are planted are refused.
#   --update   writes registers.txt
# Skipped without NVRTC. Without cuobjdump (CUDA's, or the package nvidia-cuda-cuobjdump in the environment of python3, or CUOBJDUMP)
# nothing but the first of these is looked at. MAKE_IMAGES and PLANTED_IMAGES are programs of this build.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../../build/tests/cuda
MAKE_IMAGES=${MAKE_IMAGES:-$build/make_images} PLANTED_IMAGES=${PLANTED_IMAGES:-$build/planted_images}
capabilities=(80 90)
most_seconds=60 # of a processor, for all: four times what is meant, since processors differ; what else runs does not count
update=no
[ "${1:-}" != --update ] || update=yes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "FAIL: $*" >&2; exit 1; }

# Kernels that move memory: those that load sixteen bytes (LDG.E.128, or LDGSTS.E.128 into shared memory), and store sixteen (STG.E.128).
both='add add_bias add_positions convert copy_rows dropout embedding_rows gelu gelu_slope position_sums scale silu_gate silu_gate_slopes
    token_sums product_slope norm_forward norm_backward scale_columns average subtract_scaled update update_blocks tree_sum rotate'
wide_loads="$both attention_forward_128 attention_forward_64 attention_keys_128 attention_keys_64 attention_queries_128 attention_queries_64"
wide_stores="$both product_bias"
# Kernels of tensor cores, by a pattern of their names.
tensor_cores='^(attention_forward|attention_keys|attention_queries|planted_mma)_(64|128)$'

folders() # where CUDA's programs may lie
{
    local root
    for root in ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda /usr/local/cuda-* \
        $(timeout 10 python3 -c 'import nvidia; print(*(p + "/*" for p in nvidia.__path__), sep="\n")' 2>/dev/null); do
        [ ! -d "$root/bin" ] || printf '%s\n' "$root/bin"
    done
}

find_cuobjdump()
{
    local folder
    if [ -n "${CUOBJDUMP:-}" ]; then echo "$CUOBJDUMP"; return; fi
    command -v cuobjdump && return
    for folder in $(folders); do
        if [ -x "$folder/cuobjdump" ]; then echo "$folder/cuobjdump"; return; fi
    done
}

# dump FOLDER: FOLDER/resources and FOLDER/counts of all images: KERNEL SM REGISTERS STACK LOCAL, and KERNEL SM LOADS STORES HMMA.
dump()
{
    local image capability
    : >"$1/resources" && : >"$1/counts"
    for image in "$1"/*.cubin; do
        capability=${image##*-sm} && capability=${capability%.cubin}
        "$cuobjdump" -res-usage "$image" >"$work/usage" 2>&1 || fail "cuobjdump -res-usage $image: $(tail -3 "$work/usage")"
        awk -v sm="$capability" '
            / Function / { name = $2; sub(/^zr_/, "", name); sub(/:$/, "", name) }
            /REG:/ {
                for (i = 1; i <= NF; i++) { split($i, part, ":"); of[part[1]] = part[2] }
                print name, sm, of["REG"], of["STACK"], of["LOCAL"]
            }' "$work/usage" >>"$1/resources"
        PATH="$(dirname "$cuobjdump"):$PATH" "$cuobjdump" -sass "$image" >"$work/code" 2>&1 || fail "cuobjdump -sass $image: $(tail -3 "$work/code")"
        awk -v sm="$capability" '
            function tell() { if (name) print name, sm, loads + 0, stores + 0, products + 0 }
            /Function :/ { tell(); name = $NF; sub(/^zr_/, "", name); loads = stores = products = 0 }
            / (LDG|LDGSTS)[.]E([.][A-Z0-9_]+)*[.]128[ .]/ { loads++ }
            / STG[.]E([.][A-Z0-9_]+)*[.]128[ .]/ { stores++ }
            / HMMA[.]/ { products++ }
            END { tell() }' "$work/code" >>"$1/counts"
    done
    sort -o "$1/resources" "$1/resources"
    sort -o "$1/counts" "$1/counts"
    local kernels code
    kernels=$(wc -l <"$1/resources") code=$(wc -l <"$1/counts")
    if [ "$kernels" -eq 0 ] || [ "$kernels" -ne "$code" ]; then fail "cuobjdump tells of $kernels kernels, and of the code of $code"; fi
}

# judge FOLDER: a line for each kernel that is not as it should be.
judge()
{
    awk '$4 + $5 > 0 { print $1 ", sm_" $2 ": local memory, " $4 + $5 " bytes" }' "$1/resources"
    awk -v loads=" ${wide_loads//$'\n'/ } " -v stores=" ${wide_stores//$'\n'/ } " -v tensor="$tensor_cores" '
        index(loads, " " $1 " ") && $3 == 0 { print $1 ", sm_" $2 ": no loads of sixteen bytes" }
        index(stores, " " $1 " ") && $4 == 0 { print $1 ", sm_" $2 ": no stores of sixteen bytes" }
        $1 ~ tensor && $5 == 0 { print $1 ", sm_" $2 ": no products of tensor cores" }
        { seen[$1] = 1 }
        END {
            count = split(loads stores, name, " ")
            for (i = 1; i <= count; i++)
                if (!(name[i] in seen)) print name[i] ": there is no such kernel"
        }' "$1/counts"
}

export XDG_CACHE_HOME=$work/cache
mkdir "$work/cache" "$work/images" "$work/planted"

got=0
timeout 240 "$MAKE_IMAGES" "$work/images" "${capabilities[@]}" >"$work/made" 2>"$work/log" || got=$?
if [ "$got" -eq 77 ]; then echo "skipped: $(cat "$work/log")"; exit 77; fi
[ "$got" -eq 0 ] || fail "$(cat "$work/log")"
version=$(head -1 "$work/made")
cat "$work/made"
for capability in "${capabilities[@]}"; do
    awk -v sm="$capability" 'NR > 1 && $2 == sm { all += $3 } END { printf "sm_%s: %.1f s\n", sm, all }' "$work/made"
done
seconds=$(awk 'NR > 1 { all += $3 } END { printf "%.1f", all }' "$work/made")
echo "all files: $seconds s"
[ "$(awk -v s="$seconds" -v most=$most_seconds 'BEGIN { print s <= most }')" = 1 ] || fail "compiling took $seconds s, at most $most_seconds"
awk 'NR > 1 && $5 != "compiled" { bad = 1 } END { exit bad }' "$work/made" || fail "an image came from a cache that was empty"

cuobjdump=$(find_cuobjdump)
if [ -z "$cuobjdump" ]; then echo "there is no cuobjdump: the code was not looked at"; [ "$update" = no ] || fail "--update needs it"; exit 0; fi
dump "$work/images"
if [ "$update" = yes ]; then
    { echo "# $version: kernel, sm, registers (tests/cuda/test_gates.sh --update)"; cut -d' ' -f1-3 "$work/images/resources"; } >"$here/registers.txt"
fi
judge "$work/images" >"$work/faults"
[ ! -s "$work/faults" ] || fail "$(cat "$work/faults")"
if [ "$(head -1 "$here/registers.txt" | sed 's/^# //; s/:.*//')" = "$version" ]; then
    tail -n +2 "$here/registers.txt" | diff - <(cut -d' ' -f1-3 "$work/images/resources") >"$work/other" ||
        fail "registers are not those of registers.txt (<): $(cat "$work/other"); where that is meant: tests/cuda/test_gates.sh --update"
else
    echo "registers.txt is of $(head -1 "$here/registers.txt" | sed 's/^# //; s/:.*//'), not of $version: not compared"
fi

# What is planted is refused, each for its own reason.
timeout 100 "$PLANTED_IMAGES" "$work/planted" "${capabilities[@]}" >"$work/made" 2>"$work/log" || fail "$(cat "$work/log")"
dump "$work/planted"
wide_loads=add wide_stores=add
judge "$work/planted" >"$work/faults"
for fault in 'add, sm_%d: no loads of sixteen bytes' 'add, sm_%d: no stores of sixteen bytes' 'planted_local, sm_%d: local memory' \
    'planted_mma_64, sm_%d: no products of tensor cores'; do
    for capability in "${capabilities[@]}"; do
        # shellcheck disable=SC2059 # the pattern is the format
        grep -q "$(printf "$fault" "$capability")" "$work/faults" || fail "not found where it is planted: $fault ($capability); found: $(cat "$work/faults")"
    done
done
[ "$(grep -c . "$work/faults")" -eq 8 ] || fail "found beside what is planted: $(cat "$work/faults")"
