#!/usr/bin/env bash
# elasticity of the configuration: the numbers of ranks that can share its batch, in zero plan and in zero train; a run goes on with other ranks.
. "$(dirname "$0")/lib.sh"

echo '{"elasticity": {"enabled": true, "max_train_batch_size": 12, "micro_batch_sizes": [1, 2, 3], "version": 0.1}}' >elastic.json
COMMON="--config elastic.json --seed 5 --steps 6 --save-every 3"

expect 0 "$ZERO" plan --new $TINY --config elastic.json
grep -q "^elasticity: batches of 12 samples; 6 numbers of ranks can share them: 1, 2, 3, 4, 6, 12\$" out.txt || fail "zero plan: $(cat out.txt)"
grep -q -- "--micro-batch" out.txt && fail "zero plan gives a command that is refused: $(tail -1 out.txt)"
expect 0 "$ZERO" plan --new $TINY --config elastic.json --json
python3 - <<'PY' || fail "zero plan --json: $(cat out.txt)"
import json
plan = json.load(open("out.txt"))
assert plan["elasticity"] == {"batch": 12, "ranks": [1, 2, 3, 4, 6, 12]}, plan["elasticity"]
assert sorted({(row["ranks"], row["micro_batch"]) for row in plan["rows"]}) == [(1, 3), (2, 3), (3, 2), (4, 3)], plan["rows"]
PY

train $COMMON --ranks 2 --out run
rm -r run/checkpoints/step-00000006
cp -r run moved
train $COMMON --ranks 3 --out moved --resume
python3 - <<'PY' || fail "another curve with three ranks"
import json
runs = [[l["loss"] for l in map(json.loads, open(d + "/metrics.jsonl")) if "loss" in l] for d in ("run", "moved")]
assert len(runs[0]) == len(runs[1]) == 6 and runs[0][:3] == runs[1][:3]
assert all(abs(a - b) < 1e-3 for a, b in zip(*runs)), runs
PY

refused 78 "a batch of 12 samples cannot be shared by 5 ranks; numbers of ranks that can: 1, 2, 3, 4, 6, 12" \
    "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $COMMON --ranks 5 --out out
refused 78 "cannot be shared by 5 ranks" "$ZERO" plan --new $TINY --config elastic.json --ranks 5
refused 64 "--micro-batch: train_micro_batch_size_per_gpu 2 is given together with elasticity" \
    "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $COMMON --ranks 1 --micro-batch 2 --out out
echo "ranks come and go, the batch stays"
