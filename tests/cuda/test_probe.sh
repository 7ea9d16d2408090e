#!/usr/bin/env bash
# The probe over the emulated driver: every answer is there and right, in every order of threads; without a driver or a device it says so.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

names='["device", "facts", "attention", "limbs", "copies", "launches", "words", "products", "host_memory"]'
for order in forward backward drawn; do
    EMULATED_ORDER=$order ask
    [ ! -s err.txt ] || fail "order $order: $(cat err.txt)"
    answers "all(one(name)['ok'] for name in $names)"
    answers "one('compile')['ok'] or 'libnvrtc' in one('compile')['why']"
    answers "one('attention')['error'] < 4e-3 and one('attention')['same'] == 1"
    answers "one('limbs')['same'] == 1 and one('limbs')['right'] == 1"
    answers "one('words')['early'] == 0 and one('words')['after'] == 9"
    answers "len(lines['product']) == 27 and all(product['ok'] for product in lines['product'])"
    answers "sum('sums_error' in product for product in lines['product']) == 3"
    answers "all(value is not None for answer in sum(lines.values(), []) for value in answer.values())"
done

# CUDA 12, in which a function has another name.
EMULATED=$EMULATED/cuda12 ask facts launches copies products
answers "all(a['ok'] for a in sum(lines.values(), [])) and one('facts')['driver'] == 12040"
answers "one('products')['library'].endswith('/cuda12/libcublasLt.so.12')"

# What was asked for, in a file, too.
ask --out "some answers.jsonl" words facts
cmp -s out.txt "some answers.jsonl" || fail "--out has other answers than stdout"
answers "list(lines) == ['device', 'facts', 'words']"

# A time that is over before the first probe begins, and one that ends in the middle.
ask --limit 0.02
answers "all(a['ok'] or 'took longer' in a['why'] or 'left out' in a['why'] for a in sum(lines.values(), []))"
answers "not one('device')['ok'] or any('left out' in a.get('why', '') for a in sum(lines.values(), []))"

# A driver without a device, and none: one line, and all is well.
EMULATED_DEVICES=0 ask
answers "list(lines) == ['device'] and not one('device')['ok'] and one('device')['call'] == 'cuInit' and one('device')['status'] == 100"
mkdir none
echo "no library" >none/libcuda.so.1
LD_LIBRARY_PATH=none timeout 60 "$GPU/run" --probe "$PROBE" >out.txt 2>err.txt || fail "without a driver: exit code $? ($(cat err.txt))"
answers "list(lines) == ['device'] and not one('device')['ok'] and 'no driver' in one('device')['why']"

# A device that has too little, and one that another program has filled.
EMULATED_MEMORY=4096 ask copies attention limbs products host_memory
answers "all(not a['ok'] and a['why'] for name, list in lines.items() if name != 'device' for a in list)"
[ ! -s err.txt ] || fail "a small device: $(cat err.txt)"
EMULATED_MEMORY=28672 ask copies
answers "one('copies')['ok'] and one('copies')['copied_bytes'] == 4096"

# An image that is none.
ask --image "$GPU/kernels.h" copies words
answers "one('copies')['call'] == 'cuModuleLoadData' and one('copies')['status'] == 200 and one('words')['ok']"

# A folder with a blank, from which the probe is built with what a machine has.
mkdir -p "some where/tools/gpu" "some where/src/cuda"
cp "$GPU"/* "some where/tools/gpu/"
cp "$GPU"/../../src/cuda/*_api.h "some where/src/cuda/"
(cd / && LD_LIBRARY_PATH="$WORK/none" timeout 100 "$WORK/some where/tools/gpu/run" --out "$WORK/some where/out") >out.txt 2>err.txt || fail "it cannot be built: $(cat err.txt)"
[ ! -s err.txt ] || fail "the compiler warns: $(cat err.txt)"
answers "list(lines) == ['device'] and 'no driver' in one('device')['why']"

for wrong in --limit=3 "--limit nothing" --nonsense nonsense "--emulated /nowhere" "--out"; do
    got=0
    # shellcheck disable=SC2086 # words
    "$GPU/run" --probe "$PROBE" $wrong >out.txt 2>err.txt || got=$?
    [ "$got" -eq 64 ] && [ -s err.txt ] || fail "exit code $got, not 64, of: $wrong"
done
"$GPU/run" --help | grep -q -- --emulated || fail "--help does not say what there is"
