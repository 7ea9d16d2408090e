#!/usr/bin/env bash
# Whole examples in windows, as a user meets them: conversations are packed and texts are not; every grid, tier and precision has the same
# bits; the loss is that of each example alone; what is cut is said; --attention.
. "$(dirname "$0")/lib.sh"
python3 - >chat.jsonl <<'PY'
import json
for i in range(90):
    print(json.dumps({"messages": [{"role": "user", "content": f"what is {i}?"}, {"role": "assistant", "content": f"it is {i * i}" + "!" * (i % 23)}]}))
PY
MODEL=llama:layers=3,heads=4,kv_heads=2,width=32,inner=64,context=96
SLICES='"train_batch_size": 4, "libzero": {"exact_tensor": 4, "exact_world": true, "exact_pipeline": true'
config() { echo "{$SLICES${2:-}}${3:-}}" >"$1.json"; } # config NAME MORE_OF_LIBZERO MORE
run() { expect 0 "$ZERO" train --data chat.jsonl --chat chatml --threads 1 --micro-batch 1 --quiet --steps 3 --config "$2.json" --out "$1" "${@:3}"; }
same() { [ "$(fingerprint "$1")" = "$(fingerprint "$2")" ] || fail "$3: $2 differs from $1"; }
DISK='{"device": "nvme", "nvme_path": "nvme"}'
mkdir nvme
config plain
config delayed ', "delayed_update": {"start_step": 2}' ', "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}'
config fp16 "" ', "fp16": {"enabled": true}'
config bf16 "" ', "bf16": {"enabled": true}'
config nvme "" ", \"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": $DISK, \"offload_param\": $DISK}"
config again "" ', "activation_checkpointing": {"number_checkpoints": 2}'
cat >rows <<'ROWS'
plain --ranks 4 --stage 3
plain --ranks 2 --stage 1
plain --ranks 4 --tensor 2 --stage 2 --sequence-parallel
plain --ranks 4 --pipeline 2 --tensor 2
plain --ranks 2 --pipeline 2 --schedule zb-h1
plain --ranks 2 --pipeline 2 --schedule interleaved:2
bf16 --ranks 4 --tensor 2
fp16 --ranks 2 --stage 3
nvme --ranks 2
delayed --ranks 2
again --ranks 2 --stage 3
ROWS
n=0
for model in $(sample "$MODEL gpt2:layers=3,heads=4,width=32,context=96,dropout=0.1" "$MODEL"); do
    while read -r name options; do
        case $(sample all few) in few) [ $((n++ % 4)) -eq 0 ] || continue ;; esac
        [ -e "one-$name" ] || run "one-$name" "$name" --new $model --ranks 1
        # shellcheck disable=SC2086 # words
        run other "$name" --new $model $options
        same "one-$name" other "$name $options of $model"
        rm -r other
    done <rows
    rm -rf one-*
done

# One file at a time holds one example: the loss of all is their mean, and windows of another length change nothing.
run base plain --new $MODEL --ranks 1
loss() { expect 0 "$ZERO" eval --model base/model --data "$1" --seq "$2" --threads 1; sed -n 's/^loss //p' out.txt; }
head -3 chat.jsonl >three.jsonl
all=$(loss three.jsonl 96)
[ "$(loss three.jsonl 95)" = "$all" ] || fail "windows of 95 tokens have another loss than $all"
for i in 1 2 3; do sed -n "${i}p" chat.jsonl >one.jsonl; echo "$(loss one.jsonl 96) $((10 + i))"; done >losses
# The answers "it is 0<|im_end|>", "it is 1!<|im_end|>", "it is 4!!<|im_end|>" have 17, 18 and 19 bytes.
awk -v all="$all" '{ n = $2 + 6; sum += $1 * n; count += n } END { d = sum / count - all; exit !(d < 2e-6 && d > -2e-6) }' losses ||
    fail "each alone: $(cat losses), together $all"

# What is longer than a window is cut, counted and said; a text is a stream, unless it is asked to be examples.
expect 0 "$ZERO" train --new $MODEL --data chat.jsonl --chat chatml --threads 1 --seq 60 --steps 1 --dry-run --out no
grep -qE '[0-9]+ of [0-9]+ examples are longer than a window of 60 tokens, and their ends are left out' out.txt err.txt || fail "of what is cut: $(cat err.txt)"
expect 0 "$ZERO" data show --data chat.jsonl --chat chatml --tokenizer bytes --seq 96 --json
grep -q '"windows":.*"examples":1,"empty":' out.txt || fail "data show: $(head -c 200 out.txt)"
expect 0 "$ZERO" data show --data "$TEXT" --tokenizer bytes --seq 96
grep -q ', tokens .* to .* of ' out.txt || fail "a text is packed: $(head -3 out.txt)"
run causal plain --new $MODEL --ranks 1 --attention causal
[ "$(fingerprint causal)" != "$(fingerprint base)" ] || fail "--attention causal changes nothing"
expect 0 "$ZERO" train --new $MODEL --data "$TEXT" --threads 1 --seq 60 --steps 1 --attention document --quiet --out text
refused 64 "it must be one of auto|causal|document" "$ZERO" train --new $MODEL --data "$TEXT" --out out --attention both
# A run is continued with the same windows, or not at all.
run half plain --new $MODEL --ranks 1 --save-every 2
refused 78 "it would go on with other text" "$ZERO" train --data chat.jsonl --chat chatml --threads 1 --micro-batch 1 --quiet --steps 4 --config plain.json \
    --new $MODEL --out half --resume --attention causal
