#!/usr/bin/env bash
# TensorBoard's own reader opens the event files: tags, steps and values; and after a run was resumed, one curve without steps back.
# Needs the Python package tensorboard in python3, or in $ZERO_TEST_PYTHON.
. "$(dirname "$0")/lib.sh"

PYTHON=${ZERO_TEST_PYTHON:-python3}
"$PYTHON" -c "import tensorboard.backend.event_processing.event_accumulator" 2>/dev/null ||
    { echo "SKIPPED: $PYTHON has no package tensorboard (ZERO_TEST_PYTHON names another Python)"; exit 77; }
RUN="--micro-batch 2 --seed 5 --ranks 2 --save-every 3 --config tb.json"
echo '{"tensorboard": {"enabled": true, "output_path": "tb/", "job_name": "one run"}, "wall_clock_breakdown": true, "steps_per_print": 100,
       "fp16": {"enabled": true, "initial_scale_power": 4}}' >tb.json

train $RUN --steps 9 --out run
rm -r run/checkpoints/step-00000009
mv run/metrics.jsonl first.jsonl
cp first.jsonl run/metrics.jsonl
sleep 1 # names of event files are ordered by seconds
train $RUN --steps 9 --out run --resume
[ "$(ls "tb/one run" | wc -l)" -eq 2 ] || fail "event files: $(ls "tb/one run")"

"$PYTHON" - <<'PY' || fail "TensorBoard reads something else"
import json, struct
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
reader = EventAccumulator("tb/one run", size_guidance={"scalars": 0})
reader.Reload()
def curve(name):
    return [(event.step, event.value) for event in reader.Scalars("Train/Samples/" + name)]
def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]
lines = [l for l in map(json.loads, open("run/metrics.jsonl")) if "loss" in l]
steps = [4 * l["step"] for l in lines]
assert steps == [4 * (i + 1) for i in range(9)], steps
times = ["elapsed_time_ms_" + name for name in ("forward", "backward", "backward_inner", "backward_allreduce", "step")]
assert sorted(reader.Tags()["scalars"]) == sorted("Train/Samples/" + n for n in ["train_loss", "lr", "loss_scale", "eval_loss"] + times), reader.Tags()
assert curve("train_loss") == [(4 * l["step"], single(l["loss"])) for l in lines], curve("train_loss")
assert curve("lr")[:-1] == [(4 * l["step"], single(n["lr"])) for l, n in zip(lines, lines[1:])], curve("lr")
assert curve("loss_scale") == [(s, 16.0) for s in steps], curve("loss_scale")
for name in times:
    assert [s for s, v in curve(name)] == steps and all(v > 0 for s, v in curve(name)), (name, curve(name))
PY
echo "TensorBoard reads what was written"
