#!/usr/bin/env bash
# Optimizer states in bf16 and in 8 bits from the command line: the same bits at every stage and place, and from a checkpoint on; what
# they take, and what has none. (The engine compares what is planned with what is held, at each step.)
. "$(dirname "$0")/lib.sh"

run() { train --steps 6 --lr 1e-2 --seed 3 --val none --overwrite --config place.json "$@"; }
weights() { sha256sum <"$1/model/model.safetensors"; }
same() { [ "$(fingerprint "$2")" = "$(fingerprint "$3")" ] || fail "$1: other bits"; } # same WHAT A B
differ() { [ "$(weights "$2")" != "$(weights "$3")" ] || fail "$1: the same bits"; }
place() { # place STAGE DEVICE [OURS]: states lie there; OURS: keys of "libzero"
    echo "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": {\"stage\": $1, \"sub_group_size\": 5000,
        \"offload_optimizer\": {\"device\": \"$2\", \"nvme_path\": \"$WORK\"}}, \"libzero\": {${3:-}}}" >place.json
}
held() { # held RUN: bytes of its optimizer states on a rank
    python3 - "$1/metrics.jsonl" <<'P' || fail "what is planned is not held by $1"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
optimizer = [row["mem"]["optimizer"] for row in rows if "mem" in row]
assert optimizer and all(row["planned"] == row["held"] for row in optimizer), optimizer
print(optimizer[-1]["held"])
P
}

place 0 none
run --ranks 2 --out fp32
for states in 8bit bf16; do
    for dtype in fp32 $([ $states = 8bit ] && echo fp16 || echo bf16); do
        place 0 none
        run --ranks 2 --optimizer-states $states --dtype $dtype --out $states-$dtype
        for stage in $(sample "1 2 3" 3); do
            place "$stage" none
            run --ranks 2 --optimizer-states $states --dtype $dtype --out other
            same "$states, $dtype, stage $stage" $states-$dtype other
        done
    done
    differ "$states and fp32" $states-fp32 fp32
    [ "$(held $states-fp32)" -lt "$(held fp32)" ] || fail "$states: $(held $states-fp32) bytes are held, of fp32 $(held fp32)"
    for device in cpu nvme; do
        place 3 $device
        run --ranks 2 --optimizer-states $states --out other
        same "$states on $device" $states-fp32 other
        held other >/dev/null
    done
    for stage in 0 1; do
        place $stage none
        run --ranks 4 --pipeline 2 --optimizer-states $states --out pipeline$stage
    done
    same "$states in two pipeline stages" pipeline0 pipeline1
    for stage in 1 3; do
        place $stage cpu '"delayed_update": {"start_step": 2}'
        run --ranks 2 --optimizer-states $states --out late$stage
    done
    same "$states, late" late1 late3
    differ "$states, late and in time" $states-fp32 late1
done
echo "the same bits at each stage and place"

# Checkpoints have fp32 numbers: a run goes on from step 4 with the bits of one that never stopped, at another stage and place, and with
# exact_world on other ranks.
go_on() { # go_on STATES RANKS STAGE DEVICE OURS
    rm -rf resumed && cp -r long resumed && rm -r resumed/checkpoints/step-00000006 resumed/model
    place "$3" "$4" "$5"
    train --steps 6 --lr 1e-2 --seed 3 --val none --ranks "$2" --config place.json --optimizer-states "$1" --save-every 4 --keep 0 --resume --out resumed
}
for states in 8bit bf16; do
    for exact in "" '"exact_world": true'; do
        place 1 none "$exact"
        run --ranks 2 --optimizer-states $states --save-every 4 --keep 0 --out long
        for way in "${exact:+4} 0 none" "${exact:+1} 3 nvme"; do
            [ -n "$exact" ] || way="2$way"
            go_on $states $way "$exact"
            [ "$(weights long)" = "$(weights resumed)" ] || fail "$states {$exact}: other bits after a resume ($way)"
        done
    done
    for other in 8bit bf16 fp32; do # another type goes on from the same numbers, with bits of its own
        [ $other != $states ] || continue
        go_on $other 2 1 none "$exact"
        differ "$states that goes on as $other" long resumed
    done
done
echo "runs that go on"

TRAIN="train --new $TINY --data $TEXT --threads 1 --quiet --steps 1"
for type in Lion SGD Adagrad Lamb Muon; do
    echo "{\"optimizer\": {\"type\": \"$type\", \"params\": {\"lr\": 1e-3}}}" >kind.json
    refused 78 'libzero.optimizer_states is "8bit", but the optimizer is' "$ZERO" $TRAIN --out out --config kind.json --optimizer-states 8bit
    expect 0 "$ZERO" $TRAIN --out other --overwrite --config kind.json --optimizer-states bf16
done
refused 78 'libzero.optimizer_states is "bf16", but training is in fp16' "$ZERO" $TRAIN --out out --optimizer-states bf16 --dtype fp16
echo '{"libzero": {"exact_tensor": 2}}' >tensor.json
refused 78 'libzero.optimizer_states is "8bit", but libzero.exact_tensor promises the same bits' "$ZERO" $TRAIN --out out --config tensor.json --optimizer-states 8bit
echo '{"bf16": {"enabled": true, "bf16_optimizer_states": true}, "libzero": {"optimizer_states": "fp32"}}' >both.json
refused 78 'bf16.bf16_optimizer_states is true, but libzero.optimizer_states says another type' "$ZERO" $TRAIN --out out --config both.json
echo "refusals"

# Codes take a quarter of fp32's bytes, and a scale each 256 of them.
for states in fp32 bf16 8bit; do
    echo "{\"libzero\": {\"optimizer_states\": \"$states\"}}" >type.json
    "$ZERO" plan --new gpt2 --ranks 1 --config type.json --json >plan-$states.json || fail "zero plan"
done
python3 - <<'P' || fail "states take other bytes"
import json
plans = {name: json.load(open("plan-" + name + ".json")) for name in ("fp32", "bf16", "8bit")}
bytes = {name: plan["rows"][0]["bytes"]["optimizer"] / plan["parameters"] for name, plan in plans.items()}
print("bytes a parameter:", bytes)
assert abs(bytes["fp32"] - 8) < 0.01 and abs(bytes["bf16"] - 4) < 0.01 and bytes["8bit"] <= 2.1, bytes
P
