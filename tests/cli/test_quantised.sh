#!/usr/bin/env bash
# A base in nf4 or int8 as a user meets it: adapters have the same bits at every stage and on every grid of ranks, with everything else that a
# training can have; weights that transformers has saved; checkpoints; what is refused.
. "$(dirname "$0")/lib.sh"
. "$HERE/adapters.sh"
LLAMA=llama:layers=3,heads=4,kv_heads=2,width=256,inner=512,context=32,tied=0,vocab=257
run() { # run NAME CONFIG OPTION...: trains adapters of the base
    expect 0 "$ZERO" train --lora r=3,alpha=5 --model base/model --data "$TEXT" --threads 1 --micro-batch 1 --quiet --config "$2.json" --out "$1" \
        --seed 7 --steps "${STEPS:-3}" --lr 0.01 --val none "${@:3}"
}

expect 0 "$ZERO" train --new "$LLAMA" --data "$TEXT" --threads 1 --quiet --steps 10 --lr 0.01 --out base
sha256sum <base/model/model.safetensors >base.sum

# Pairs: each row is a configuration (all rows of it have one set of bits) and the options of a run that is compared with one rank's at stage 0.
HOST='"offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}'
DISK='{"device": "nvme", "nvme_path": "nvme"}'
mkdir nvme
config plain
config lamb "" ', "optimizer": {"type": "Lamb", "params": {"lr": 0.01}}'
config host "" ", \"zero_optimization\": {\"stage\": 3, $HOST}"
config nvme "" ", \"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": $DISK, \"offload_param\": $DISK}"
config fp16 "" ', "fp16": {"enabled": true}'
config bf16 "" ', "bf16": {"enabled": true}'
config nvme16 "" ", \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": $DISK, \"offload_param\": $DISK}"
config again "" ', "activation_checkpointing": {"number_checkpoints": 2}'
config pipe ', "exact_pipeline": true'
cat >rows <<'ROWS'
plain --ranks 4 --stage 3
plain --ranks 2 --stage 1
plain --ranks 4 --tensor 4 --stage 2
plain --ranks 4 --tensor 2 --stage 3 --sequence-parallel
pipe --ranks 2 --pipeline 2 --schedule 1f1b
pipe --ranks 4 --pipeline 2 --schedule zb-h1 --stage 1
pipe --ranks 2 --pipeline 2 --schedule interleaved:2
pipe --ranks 4 --pipeline 2 --tensor 2
lamb --ranks 4 --stage 3 --tensor 2
host --ranks 2
nvme --ranks 2
nvme --ranks 4 --tensor 2
fp16 --ranks 4 --stage 3
bf16 --ranks 4 --tensor 2 --stage 3
nvme16 --ranks 2
again --ranks 4 --stage 3
ROWS
turn=0
while read -r config options; do
    for base in nf4 int8; do
        # Without --all, each row in one of the formats.
        [ "${1:-}" = --all ] || [ $((turn++ % 2)) = 0 ] || continue
        [ -d "$config.$base" ] || run "$config.$base" "$config" --base $base --stage "$(case $config in host | nvme*) echo 3 ;; *) echo 0 ;; esac)"
        # shellcheck disable=SC2086 # options are words
        run trial "$config" --base $base $options
        same "$config.$base" trial "$config, $base, $options"
        rm -r trial
    done
    turn=$((turn + 1))
done <rows
sha256sum <base/model/model.safetensors | cmp - base.sum || fail "a training changed its base"

# The base costs little: the first loss is near to that of plain weights, and not the same.
run whole plain
for base in nf4 int8; do
    [ -d plain.$base ] || run plain.$base plain --base $base
    python3 - whole plain.$base <<'PY' || fail "$base: another first loss"
import json, sys
a, b = (json.loads(next(line for line in open(run + "/metrics.jsonl") if '"loss"' in line))["loss"] for run in sys.argv[1:])
sys.exit(not 0 < abs(a - b) < 0.05)
PY
done

# What trains is what is evaluated and generated from; a checkpoint goes on with the same bits, and not on another base.
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 0.01}}}' >rate.json # one rate, however long the run
going=("$ZERO" train --data "$TEXT" --config rate.json --threads 1 --quiet --micro-batch 1 --model base/model --lora r=3,alpha=5 --save-every 2 --keep 0)
expect 0 "${going[@]}" --base nf4 --out part --steps 4
expect 0 "${going[@]}" --base nf4 --out long --steps 5
refused 78 'of adapters of a base in nf4, this training has one in int8' "${going[@]}" --base int8 --out part --steps 5 --resume
refused 78 'of adapters of a base in nf4, this training has one in plain weights' "${going[@]}" --out part --steps 5 --resume
expect 0 "${going[@]}" --base nf4 --out part --steps 5 --resume
cmp part/adapter/adapter_model.safetensors long/adapter/adapter_model.safetensors || fail "4 steps and one more are not 5"
expect 0 "$ZERO" verify part
head -c 2000 "$TEXT" >some.txt
plain=$("$ZERO" eval --model base/model --adapter part --data some.txt --json)
coded=$("$ZERO" eval --model base/model --adapter part --base nf4 --data some.txt --json)
[ "$plain" != "$coded" ] || fail "--base changes nothing in an evaluation"
[ "$coded" = "$("$ZERO" eval --model base/model --adapter part --base nf4 --data some.txt --json --ranks 2)" ] || fail "two ranks evaluate otherwise"
expect 0 "$ZERO" generate --model base/model --adapter part --base nf4 --prompt ROMEO --tokens 8 --temperature 0
expect 0 "$ZERO" generate --model base/model --adapter part --base int8 --prompt ROMEO --tokens 8 --temperature 0

# The plan says what a base takes: codes, scales, and tables and norms as they are.
expect 0 "$ZERO" plan --new llama-2-7b --lora r=16 --base nf4 --dtype bf16 --ranks 1 --stage 0 --seq 64 --micro-batch 1
grep -qE '^ +0 +1 +1 +3\.95 GB' out.txt || fail "7B in nf4: $(cat out.txt)"

# What is refused.
refused 78 'weights in nf4 do not train: --lora' "$ZERO" train --model base/model --base nf4 --data "$TEXT" --steps 2 --out x
refused 64 'found fp4, expected one of auto, nf4, int8' "$ZERO" eval --model base/model --base fp4 --data some.txt
refused 78 'weights that lie as (in, out)' "$ZERO" train --new gpt2:layers=2,heads=2,width=64,context=32 --base nf4 --lora r=2 --dry-run --data "$TEXT"
refused 78 'a linear of 96 inputs' "$ZERO" train --new llama:layers=2,heads=2,width=96,context=32 --base nf4 --lora r=2 --dry-run --data "$TEXT"
refused 78 'which cannot be cut' "$ZERO" train --new llama:layers=2,heads=4,width=128,inner=256,context=32 --base nf4 --lora r=2 --dry-run --data "$TEXT" \
    --ranks 4 --tensor 4
exit 0
