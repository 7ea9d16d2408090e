#!/usr/bin/env bash
# Adafactor as a user meets it: the same bits on every grid of ranks, in every mode; checkpoints from any grid to any other; what is refused.
. "$(dirname "$0")/lib.sh"
GPT=gpt2:layers=2,heads=4,width=32,context=32,dropout=0.1
LLAMA=llama:layers=2,heads=4,kv_heads=2,width=32,inner=64,context=32,tied=0,vocab=257
SLICES='"train_batch_size": 4, "libzero": {"exact_tensor": 4, "exact_world": true'
ADAFACTOR='"optimizer": {"type": "Adafactor", "params": {"lr": 0.02, "weight_decay": 0.01}}'
config() { echo "{$SLICES${2:-}}, $ADAFACTOR${3:-}}" >"$1.json"; } # config NAME MORE_OF_LIBZERO MORE
run() { # run NAME CONFIG OPTION...
    expect 0 "$ZERO" train --data "$TEXT" --threads 1 --micro-batch 1 --quiet --config "$2.json" --out "$1" "${@:3}"
}
same() { # same NAME NAME: these runs have equal losses, norms and weights
    [ "$(fingerprint "$1")" = "$(fingerprint "$2")" ] || fail "$2 differs from $1"
}
mkdir nvme
DISK='{"device": "nvme", "nvme_path": "nvme"}'
config plain
config fp16 "" ', "fp16": {"enabled": true, "initial_scale_power": 18, "hysteresis": 1}'
config host "" ', "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}'
config nvme "" ", \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 3, \"sub_group_size\": 4096, \"offload_optimizer\": $DISK, \"offload_param\": $DISK}"
config tiles ', "tiling": {"embedding": 4, "attention": 4, "mlp": 4}'

# One to four ranks, of which one, two or four compute a model, or a pipeline of two stages: not of a model that has a tensor in both stages,
# whose gradient would be summed otherwise.
for model in $(sample "$GPT $LLAMA" "$LLAMA"); do
    run one plain --new "$model" --steps 5 --eval-every 0
    grids=$(sample "2,--stage,1 2,--stage,2 4,--stage,3 4,--tensor,2,--stage,2 4,--tensor,4" "4,--tensor,2,--stage,2")
    [ "$model" = $GPT ] || grids="$grids 2,--pipeline,2,--stage,0 4,--pipeline,2,--stage,1"
    for grid in $grids; do
        # shellcheck disable=SC2086 # words
        run other plain --new "$model" --steps 5 --eval-every 0 --ranks ${grid//,/ }
        same one other
        rm -r other
    done
    rm -r one
done
for mode in $(sample "fp16 host nvme" "nvme"); do
    run alone $mode --new $GPT --steps 4 --eval-every 0 --ranks 1 --stage "$([ $mode = fp16 ] && echo 1 || echo 3)"
    run grid $mode --new $GPT --steps 4 --eval-every 0 --ranks 4 --tensor 2
    same alone grid
    python3 - <<'PY' || fail "memory of $mode: $(head -1 grid/metrics.jsonl)"
import json
line = json.loads(open("grid/metrics.jsonl").readline())
assert all(m["planned"] == m["held"] for m in line["mem"].values()), line["mem"]
PY
    rm -r alone grid
done

# What is kept is small: with AdamW a state is as large as the weights, and here all of it is less than a tenth.
expect 0 "$ZERO" plan --new gpt2 --config plain.json --micro-batch 1 --json
mv out.txt adafactor.json
echo "{$SLICES}, \"optimizer\": {\"type\": \"SGD\"}}" >sgd.json
expect 0 "$ZERO" plan --new gpt2 --config sgd.json --micro-batch 1 --json
python3 - <<'PY' || fail "planned bytes"
import json
a, b = (json.load(open(f))["rows"][0]["bytes"] for f in ("adafactor.json", "out.txt"))
more = a["optimizer"] - b["optimizer"]
assert 0 < more < 0.1 * a["parameters"], (a, b)
PY

# Saved while training goes on, then continued on other grids.
run whole plain --new $LLAMA --steps 4 --eval-every 0 --save-every 2 --keep 0
run saved plain --new $LLAMA --steps 4 --eval-every 0 --save-every 2 --keep 0 --ranks 4 --tensor 2 --stage 2
same whole saved
for file in row_var col_var weights; do
    cmp -s {whole,saved}/checkpoints/step-00000002/$file.safetensors || fail "$file differs"
done
expect 0 "$ZERO" verify saved
grep -q 'confirmed: steps 3 to 4, replayed on 4 ranks' out.txt || fail "zero verify: $(cat out.txt err.txt)"
expect 0 "$ZERO" diff whole/checkpoints/step-00000002 saved/checkpoints/step-00000002
expect 0 "$ZERO" inspect saved/checkpoints/step-00000002
expect 0 "$ZERO" convert --from saved/checkpoints/step-00000002 --to hf
rm -r saved/checkpoints/step-00000004 saved/checkpoints/latest
for grid in $(sample "1 4,--tensor,4 4,--stage,3 2,--pipeline,2" "4,--stage,3"); do
    cp -r saved next
    # shellcheck disable=SC2086 # words
    run next plain --new $LLAMA --steps 4 --eval-every 0 --resume --ranks ${grid//,/ }
    same whole next
    rm -r next
done
# The averages matter: with those of another step the run goes on otherwise, and a damaged file is found.
cp -r saved next
flip next/checkpoints/step-00000002/col_var.safetensors 4000
expect 65 "$ZERO" train --data "$TEXT" --threads 1 --micro-batch 1 --quiet --config plain.json --out next --new $LLAMA --steps 4 --eval-every 0 --resume
grep -q 'col_var.safetensors' err.txt || fail "a damaged file: $(cat err.txt)"

# Adapters; an asynchronous pipeline, whose stages have averages of their own.
run lora plain --model whole/model --steps 3 --eval-every 0 --lora r=4
run adapters plain --model whole/model --steps 3 --eval-every 0 --lora r=4 --ranks 2 --stage 3
cmp -s {lora,adapters}/adapter/adapter_model.safetensors || fail "adapters differ"
echo "{\"train_batch_size\": 4, \"gradient_clipping\": 0, \"libzero\": {\"pipeline\": {\"flush_every\": 4}}, $ADAFACTOR}" >free.json
for schedule in $(sample "2bw pipedream" "2bw"); do
    run a free --new $LLAMA --steps 8 --eval-every 0 --ranks 2 --pipeline 2 --schedule "$schedule" --save-every 4 --keep 0
    cp -r a b && rm -r b/checkpoints/step-00000008 b/checkpoints/latest
    run b free --new $LLAMA --steps 8 --eval-every 0 --ranks 2 --pipeline 2 --schedule "$schedule" --save-every 4 --keep 0 --resume
    same a b
    rm -r a b
done

config delayed ', "delayed_update": {"start_step": 2}' ', "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}'
config coded ', "optimizer_states": "8bit"'
config bf16 ', "optimizer_states": "bf16"'
refused 78 'the optimizer is Adafactor: its update waits for parts of tensors' "$ZERO" train --new $GPT --data "$TEXT" --config delayed.json --out out --quiet
refused 78 'Adafactor, whose states are small and stay fp32' "$ZERO" train --new $GPT --data "$TEXT" --config coded.json --out out --quiet
refused 78 'Adafactor, whose states are small and stay fp32' "$ZERO" train --new $GPT --data "$TEXT" --config bf16.json --out out --quiet
echo PASS
