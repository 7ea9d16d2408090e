#!/usr/bin/env bash
# zero simulate: machines by name and file, grids that cannot be, runs described by a file, failures; zero doctor writes a machine.
. "$(dirname "$0")/lib.sh"

H100=(simulate --new llama-3.1-405b --machine h100-hgx --ranks 16384 --tensor 8 --pipeline 16 --seq 8192)

# A step in words, and the same in JSON: parts add up to it, and every axis says what it crosses.
expect 0 "$ZERO" "${H100[@]}" --global-batch 2048 --stage 1
for words in '405.9 billion parameters' '16,384 H100-80GB, 8 a node' 'tensor 8 x context 1 x data 128 x pipeline 16 (1f1b)' 'tokens/s' 'MFU' 'constants h100-hgx: '; do
    grep -qF -- "$words" out.txt || fail "no \"$words\": $(cat out.txt)"
done
expect 0 "$ZERO" "${H100[@]}" --global-batch 2048 --stage 1 --mtbf 6300 --checkpoint-rate 500 --json
python3 - <<'PY' || fail "JSON: $(cat out.txt)"
import json, math
a = json.load(open("out.txt"))
assert abs(sum(a["parts_s"].values()) / a["step_s"] - 1) < 1e-6, a
assert a["low_s"] < a["step_s"] < a["high_s"] and 0.05 < a["mfu"] < 0.8, a
assert abs(a["tokens_per_s"] * a["step_s"] - 2048 * 8192) < 1, a
assert a["data"] == 128 and a["accumulation"] == 16, a
assert {x["axis"]: x["crosses"] for x in a["axes"]}["tensor"] == "node", a
f = a["failures"]
assert f["nodes"] == 2048 and abs(f["checkpoint_bytes"] / a["parameters"] - 12) < 1e-6, f
assert abs(f["blocked_s"] - f["checkpoint_bytes"] / 500e9) < 1e-6 and f["behind_s"] == 0, f
assert abs(f["interval_s"] / (f["interval_steps"] * a["step_s"]) - 1) < 1e-9, f
assert 0.8 < f["goodput"] < 1 and abs(f["interval_s"] / f["young_s"] - 1) < 0.1, f
PY

# Placement: the best order is no worse than the others, and tensor ranks next to each other are best.
step() { expect 0 "$ZERO" "${H100[@]}" --global-batch 2048 --json "$@"; python3 -c 'import json; print(json.load(open("out.txt"))["step_s"])'; }
best=$(step --order best); usual=$(step); spread=$(step --order data)
python3 -c "assert $best <= $usual < $spread" || fail "orders: best $best, usual $usual, data first $spread"

# 100,000 devices within a second (a sanitizer's build has more time).
begin=$(date +%s%N)
expect 0 "$ZERO" simulate --new llama-3.1-70b --machine h100-hgx --ranks 131072 --tensor 8 --pipeline 8 --accumulation 64 --stage 1 --order best
took=$((($(date +%s%N) - begin) / 1000000))
[ $took -lt "$(sample 1000 20000)" ] || fail "131,072 devices took $took ms"

# A run's directory, its model, or a config.json: the parameters are those of its plan.
train --steps 1 --val none --out run
expect 0 "$ZERO" plan --model run --ranks 1 --json
parameters=$(grep -o '"parameters":[0-9]*' out.txt)
for model in run run/model run/model/config.json; do
    expect 0 "$ZERO" simulate --model $model --machine a100-dgx --ranks 8 --json
    grep -qF "$parameters," out.txt || fail "--model $model: not $parameters"
done

# A run that does not fit is an answer.
expect 0 "$ZERO" simulate --new llama-3.1-70b --machine a100-dgx --ranks 8 --seq 2048
grep -q 'it does NOT fit' out.txt || fail "70B on 8 devices: $(cat out.txt)"

# A DeepSpeed file: stage, batch, offload, checkpoints; flags win.
cat >ds.json <<'J'
{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "activation_checkpointing": {"number_checkpoints": 24},
 "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
J
expect 0 "$ZERO" simulate --new llama-3.1-8b --machine a100-dgx --ranks 16 --seq 4096 --config ds.json --json
python3 - <<'PY' || fail "the configuration: $(cat out.txt)"
import json
a = json.load(open("out.txt"))
assert (a["stage"], a["global_batch"], a["micro_batch"], a["accumulation"]) == (3, 64, 2, 2), a
assert a["parts_s"]["computed again"] > 0 and a["parts_s"]["offload"] > 0, a
PY
expect 0 "$ZERO" simulate --new llama-3.1-8b --machine a100-dgx --ranks 16 --seq 4096 --config ds.json --stage 1 --micro-batch 1 --recompute none --json
grep -q '"stage":1' out.txt && grep -q '"micro_batch":1,"accumulation":4' out.txt || fail "flags do not win: $(head -c 600 out.txt)"

# How often an asynchronous schedule drains.
drained() { echo "{\"libzero\": {\"pipeline\": {\"flush_every\": $1}}}" >window.json
    expect 0 "$ZERO" simulate --new llama-3.1-8b --machine a100-dgx --ranks 16 --pipeline 4 --tensor 4 --accumulation 8 --schedule 2bw --config window.json --json
    python3 -c 'import json; print(json.load(open("out.txt"))["step_s"])'; }
often=$(drained 2); usual=$(drained 8); seldom=$(drained 100)
python3 -c "assert $often > 1.01 * $usual > $usual > $seldom" || fail "drained every 2, 8 and 100 steps: $often, $usual, $seldom"

# Failures: checkpoints that are written beside training cost less.
goodput() { expect 0 "$ZERO" "${H100[@]}" --json --mtbf 6300 --checkpoint-rate 100 "$@"; python3 -c 'import json; print(json.load(open("out.txt"))["failures"]["goodput"])'; }
plain=$(goodput); beside=$(goodput --checkpoint-async)
python3 -c "assert 0 < $plain < $beside < 1" || fail "goodput: $plain, asynchronous $beside"
python3 - <<'PY' || fail "an asynchronous checkpoint: $(tail -3 out.txt)"
import json
a = json.load(open("out.txt"))
f = a["failures"]
assert abs(f["behind_s"] / (f["checkpoint_bytes"] / 100e9) - 1) < 1e-9 and f["blocked_s"] < f["behind_s"] / 100, f
assert f["interval_s"] + f["blocked_s"] >= f["behind_s"] * 0.999999, f
PY
refused 64 'no step would ever last' "$ZERO" "${H100[@]}" --mtbf 1 --checkpoint-rate 0.001
refused 64 'and a step takes' "$ZERO" "${H100[@]}" --mtbf 0.1 --checkpoint-rate 1e9 --restart-time 0
refused 64 '--checkpoint-rate is about failures, and --mtbf is missing' "$ZERO" "${H100[@]}" --checkpoint-rate 1

# Bad input: the machines that there are, and numbers.
refused 64 'no machine "dgx"; there are v100-dgx2, ' "$ZERO" simulate --new gpt2 --machine dgx --ranks 8
refused 64 'no file "./dgx.json"; there are v100-dgx2, ' "$ZERO" simulate --new gpt2 --machine ./dgx.json --ranks 8
refused 64 'no framework "abacus"; there are ' "$ZERO" simulate --new gpt2 --machine h100-hgx --ranks 8 --framework abacus
refused 64 '100 devices cannot be divided into tensor 8' "$ZERO" simulate --new gpt2 --machine h100-hgx --ranks 100 --tensor 8
refused 64 '64 pipeline stages' "$ZERO" simulate --new gpt2 --machine h100-hgx --ranks 64 --pipeline 64
refused 64 '100' "$ZERO" simulate --new gpt2 --machine h100-hgx --ranks 16 --global-batch 100 --micro-batch 8
refused 64 'tensor, context, data and pipeline' "$ZERO" simulate --new gpt2 --machine h100-hgx --ranks 8 --order tensor,rail
refused 64 'V100-32GB of v100-dgx2 has none' "$ZERO" simulate --new gpt2 --machine v100-dgx2 --ranks 8 --products fp8
refused 64 'none of --new, --model and --run;' "$ZERO" simulate --machine h100-hgx --ranks 8
refused 64 '--machine is missing' "$ZERO" simulate --new gpt2 --ranks 8
refused 64 '--ranks is missing' "$ZERO" simulate --new gpt2 --machine h100-hgx
refused 64 'unknown option --runs; tools/score-runs reads tables of published runs' "$ZERO" simulate --runs runs.csv
refused 64 '--tensor does not go with --run: the file says it' "$ZERO" simulate --run run.json --machine h100 --tensor 2
refused 64 'more than one of --new, --model and --run;' "$ZERO" simulate --run run.json --new gpt2 --machine h100
refused 64 '--machine is missing' "$ZERO" simulate --run run.json
refused 64 '--checkpoint-rate is about failures, and --mtbf is missing' "$ZERO" simulate --run run.json --machine h100 --checkpoint-rate 1
refused 74 'cannot open "run.json"' "$ZERO" simulate --run run.json --machine h100

expect 0 "$ZERO" simulate --machine list
grep -qE '^h100-hgx +8 x H100-80GB +80 GB +989 +1979 +3350 +450 +50.0 +2000 GB$' out.txt && ! grep -q reached out.txt && ! grep -q '^frameworks' out.txt || fail "the list: $(cat out.txt)"

expect 0 "$ZERO" simulate --machine list --explain
reached=$(sed -n 's/.*"reached": \([0-9.]*\).*/\1/p' "$HERE/../../machines/h100-hgx.json")
grep -q " reached $reached half [0-9]" out.txt || fail "no constants: $(cat out.txt)"
expect 0 "$ZERO" simulate --machine list --json
python3 -c '
import json
assert {m["name"]: m for m in json.load(open("out.txt"))}["h100-hgx"]["machine"]["memory_GB"] == 80' || fail "the list as JSON: $(cat out.txt)"
expect 0 "$ZERO" simulate --new gpt2 --machine H100 --ranks 8
grep -q '^machine   h100-hgx: 8 H100-80GB' out.txt || fail "H100: $(cat out.txt)"

# The length of a training: steps, days, device hours; as tokens or steps.
expect 0 "$ZERO" simulate --new llama-3.1-8b --machine h100 --ranks 64 --stage 3 --global-batch 512 --tokens 15T --json
python3 - <<'PY' || fail "a training of 15T tokens: $(cat out.txt)"
import json, math
a = json.load(open("out.txt"))
t = a["training"]
assert t["steps"] == math.ceil(15e12 / (512 * 4096)) and abs(t["seconds"] / (t["steps"] * a["step_s"]) - 1) < 1e-9, t
assert abs(t["device_hours"] / (t["seconds"] * 64 / 3600) - 1) < 1e-9 and t["low_s"] < t["seconds"] < t["high_s"], t
PY
grep -q '^--seq 4096: ' err.txt || fail "no word of the window: $(cat err.txt)"
expect 0 "$ZERO" simulate --new gpt2 --machine h100 --ranks 8 --steps 1000
grep -qE '^training  8.19 million tokens in 1,000 steps: [0-9.]+ [a-z]+ \(80%: ' out.txt || fail "1,000 steps: $(cat out.txt)"
refused 64 '--tokens and --steps are both given' "$ZERO" simulate --new gpt2 --machine h100 --ranks 8 --steps 1 --tokens 1B

# What the schedule of a training refuses is not predicted.
refused 64 'a step has 3 micro-batches, no multiple of 4 pipeline stages' "$ZERO" simulate --new gpt2 --machine h100 --ranks 4 --pipeline 4 --schedule interleaved:2 --accumulation 3
refused 64 'keeps whole versions of the parameters' "$ZERO" simulate --new gpt2 --machine h100 --ranks 2 --pipeline 2 --schedule pipedream --stage 3

# A run that does not fit is told with what it would, and then it does.
expect 0 "$ZERO" simulate --new llama-3.1-70b --machine h100 --ranks 1024 --tensor 8 --pipeline 4 --stage 1 --seq 131072
with=$(sed -n 's/^fits      with \(--[^(]*\) (.*/\1/p' out.txt)
expect 0 "$ZERO" simulate --new llama-3.1-70b --machine h100 --ranks 1024 --tensor 8 --pipeline 4 --stage 1 $with
grep -q ': it fits$' out.txt || fail "with $with: $(cat out.txt)"

# A machine's file wins over what is built in, and its keys are checked.
expect 0 "$ZERO" doctor --write-machine this.json
expect 0 "$ZERO" simulate --new $TINY --machine this.json --ranks 2 --micro-batch 4 --dtype fp32
grep -q '^machine   this: 2 CPU core' out.txt || fail "this machine: $(cat out.txt)"
mkdir machines
sed 's/"devices": [0-9]*/"devices": 3/' this.json >machines/h100-hgx.json
expect 0 "$ZERO" simulate --new $TINY --machine h100-hgx --ranks 2
grep -q '^machine   h100-hgx: 2 CPU core.*, 3 a node' out.txt || fail "a file does not win: $(cat out.txt)"
sed 's/"devices"/"gpus"/' this.json >machines/h100-hgx.json
refused 78 'machines/h100-hgx.json:3:' "$ZERO" simulate --new $TINY --machine h100-hgx --ranks 2
grep -qF '"gpus" is no key of a machine' err.txt || fail "a wrong key: $(cat err.txt)"
rm -r machines

# A run that a file describes is the same as one that options describe, and takes what goes with both.
cat >run.json <<'J'
{"layers": 126, "width": 16384, "heads": 128, "kv_heads": 8, "ffn": 53248, "vocab": 128256, "seq": 8192, "gated": true,
 "devices": 16384, "tensor": 8, "pipeline": 16, "global_batch": 2048, "stage": 1}
J
with=(--machine h100-hgx --framework megatron --order best --mtbf 6300 --checkpoint-rate 2000 --tokens 15T --json)
expect 0 "$ZERO" "${H100[@]:0:3}" --ranks 16384 --tensor 8 --pipeline 16 --seq 8192 --global-batch 2048 --stage 1 "${with[@]}"
sed 's/"parameters":[0-9]*/"parameters":N/; s/"model":"[^"]*"/"model":"M"/' out.txt >options.json
parameters=$(sed -n 's/.*"parameters":\([0-9]*\).*/\1/p' out.txt)
sed -i "s/\"layers\"/\"parameters\": $parameters, &/" run.json
expect 0 "$ZERO" simulate --run run.json "${with[@]}"
sed 's/"parameters":[0-9]*/"parameters":N/; s/"model":"run.json"/"model":"M"/' out.txt | cmp - options.json || fail "a run of a file: $(cat out.txt)"
expect 0 "$ZERO" simulate --run run.json --machine h100
grep -q '^model     run.json: 405.9 billion parameters' out.txt || fail "a run of a file in words: $(cat out.txt)"
sed -i 's/"stage"/"zero"/' run.json
refused 78 'run.json:2:' "$ZERO" simulate --run run.json --machine h100
grep -qF '"zero" is no key of a run: docs/scale.md lists them' err.txt || fail "a wrong key of a run: $(cat err.txt)"
