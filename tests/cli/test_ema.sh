#!/usr/bin/env bash
# An average of the weights (--ema): the values of its formula, one set of them however the run is divided, wherever vectors are, and resumed as
# any other of these; exports of it; and that it changes nothing of the run itself.
. "$(dirname "$0")/lib.sh"

# config STAGE [LIBZERO [ZERO [MORE]]]: writes config.json; MORE goes to its top level.
config() {
    cat >config.json <<END
{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": $1${3:-}},
    "libzero": {"exact_world": true${2-, \"exact_tensor\": 2\}}${4:-}}
END
}
run() { train --config config.json --val none --steps 5 --lr 1e-2 --ema 0.75 "$@"; }
is() { # is DIR KEY: its weights and their average are those of the first run with that key
    local sum
    sum=$(cd "$1" && find model adapter ema -name '*model.safetensors' -exec sha256sum {} + 2>/dev/null | sort)
    grep -q ' ema/' <<<"$sum" || fail "no average in $1: $sum"
    [ -e "sum-$2" ] || echo "$sum" >"sum-$2"
    [ "$sum" = "$(cat "sum-$2")" ] || fail "others ($2): $(tr '\n' ' ' <config.json)"
    runs=$((runs + 1))
}
runs=0

# The values: e = w after the first update, then e + (1 - 0.75) (w - e). Checkpoints of all steps have the weights and the average.
config 0
run --out whole --save-every 1 --keep 0
is whole fp32
python3 - <<'PY' || fail "the average is another one"
import array, json, struct

def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {n: t["data_offsets"] for n, t in json.loads(data[8:8 + size]).items() if n != "__metadata__"}
    return {n: array.array("f", data[8 + size + a:8 + size + b]) for n, (a, b) in tensors.items()}

average = {}
for step in range(1, 6):
    place = "whole/checkpoints/step-%08d/" % step
    weights, kept = read(place + "weights.safetensors"), read(place + "average.safetensors")
    assert weights.keys() == kept.keys() and weights
    for name, w in weights.items():
        e = average[name] = [b + 0.25 * (a - b) for a, b in zip(w, average[name])] if step > 1 else list(w)
        assert all(abs(a - b) <= 3e-7 * (1 + abs(b)) for a, b in zip(kept[name], e)), (step, name)
        assert step == 1 or any(a != b for a, b in zip(kept[name], w)) or not any(w), (step, name)
exported = read("whole/ema/model.safetensors")
assert all(exported[n].tobytes() == kept[n].tobytes() for n in exported if n in kept) and exported
PY
train --config config.json --val none --steps 5 --lr 1e-2 --out run
cmp whole/model/model.safetensors run/model/model.safetensors || fail "--ema changes the weights"
[ ! -e run/ema ] || fail "an average that nobody asked for"
expect 0 "$ZERO" eval --model whole/ema --data "$TEXT" --threads 1
echo "values"

# Stages, ranks, tensor ranks.
for grid in $(sample "1:2:1 2:2:1 3:2:1 0:2:2 3:4:1 1:4:2 3:4:2" "3:4:2"); do
    IFS=: read -r stage ranks tensor <<<"$grid"
    config "$stage"
    run --ranks "$ranks" --tensor "$tensor" --out run --overwrite
    is run fp32
done
echo "grids"

# Types, and states of other types.
for type in "--dtype bf16" "--dtype fp16" "--optimizer-states bf16"; do
    config 0
    run $type --out run --overwrite
    is run "$type"
    config 3
    run $type --ranks 4 --tensor 2 --out run --overwrite
    is run "$type"
done
for stage in 1 3; do
    config $stage "}"
    run --ranks 2 --optimizer-states 8bit --out run --overwrite
    is run 8bit
done
echo "types"

# Tiers, also with an update that overlaps the next step.
mkdir nvme
NVME='{"device": "nvme", "nvme_path": "'$WORK'/nvme"}'
CPU='{"device": "cpu"}'
for tiers in "2|\"offload_optimizer\": $CPU" "1|\"offload_optimizer\": $NVME" "3|\"offload_optimizer\": $NVME, \"offload_param\": $NVME" \
    '3|"offload_optimizer": {"device": "cpu", "ratio": 0.5}'; do
    config "${tiers%%|*}" ', "exact_tensor": 2}' ", ${tiers#*|}"
    run --ranks 2 --out run --overwrite
    is run fp32
done
for tiers in "2|\"offload_optimizer\": $CPU" "3|\"offload_optimizer\": $NVME"; do
    config "${tiers%%|*}" ', "exact_tensor": 2, "delayed_update": {"start_step": 2}}' ", ${tiers#*|}"
    run --ranks 2 --out run --overwrite
    is run delayed
done
for stage in 0 3; do
    config $stage ', "exact_tensor": 2}' "" ', "optimizer": {"type": "LAMB"}'
    run --ranks 2 --out run --overwrite
    is run lamb
done
echo "tiers"

PIPED=', "exact_pipeline": true, "exact_tensor": 2}'
config 0 "$PIPED"
run --out run --overwrite
is run pipeline
for grid in $(sample "0:2:1:1f1b 1:4:1:zb-h1 3:4:2:1f1b 0:2:1:2bw 1:4:1:2bw" "3:4:2:1f1b"); do
    IFS=: read -r stage ranks tensor schedule <<<"$grid"
    config "$stage" "$PIPED"
    run --pipeline 2 --ranks "$ranks" --tensor "$tensor" --schedule "$schedule" --out run --overwrite
    [ "$schedule" = 2bw ] && is run 2bw || is run pipeline
done
echo "pipelines"

adapters() { expect 0 "$ZERO" train --model whole/model --lora r=4,alpha=8 --data "$TEXT" --threads 1 --quiet --config config.json --val none --steps 5 --ema 0.75 --out run --overwrite "$@"; }
config 0
adapters
is run lora
config 3
adapters --ranks 4 --tensor 2
is run lora
[ "$(ls run/ema/adapter_config.json)" ] || fail "the average of adapters is no adapter"
echo "adapters"

# Saved by two ranks of stage 2 in step 4, resumed in other grids: the average of what was never interrupted.
config 2
run --ranks 2 --save-every 4 --keep 0 --out saved
is saved fp32
rm -r saved/checkpoints/step-00000005 saved/model saved/ema
for grid in $(sample "0:1:1 1:2:1 2:4:1 3:4:2" "3:4:2"); do
    IFS=: read -r stage ranks tensor <<<"$grid"
    cp -r saved resumed
    config "$stage"
    run --ranks "$ranks" --tensor "$tensor" --out resumed --resume
    is resumed fp32
    rm -r resumed
done
# Without --ema it goes on without an average, which cannot begin again.
NO_EMA="--config config.json --val none --lr 1e-2 --out saved --resume --save-every 4 --keep 0"
train $NO_EMA --steps 5
[ ! -e saved/ema ] || fail "an average that nobody asked for"
cmp saved/model/model.safetensors whole/model/model.safetensors || fail "other weights without the average"
rm -r saved/model saved/checkpoints/step-00000004 # which has one
expect 65 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $NO_EMA --steps 6 --ema 0.75
grep -qF 'has no average, which this training keeps: it was made without libzero.ema_decay (--ema)' err.txt || fail "$(cat err.txt)"
echo "resumed"
echo "$runs runs with an average"
