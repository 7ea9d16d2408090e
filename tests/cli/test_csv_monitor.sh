#!/usr/bin/env bash
# csv_monitor of the configuration: one row a step on rank 0, and the same files where a run is killed and goes on.
. "$(dirname "$0")/lib.sh"

RUN="--micro-batch 2 --seed 5 --ranks 2 --steps 12 --save-every 3 --keep 0"
config() { # config NAME: the files of a run go to that directory
    echo "{\"csv_monitor\": {\"enabled\": true, \"output_path\": \"csv\", \"job_name\": \"$1\"}}" >"$1.json"
}
rows() { wc -l <"csv/$1/Train_Samples_$2.csv"; }

config whole
train $RUN --out whole --config whole.json
[ "$(ls csv/whole | tr '\n' ' ')" = "Train_Samples_eval_loss.csv Train_Samples_lr.csv Train_Samples_train_loss.csv " ] || fail "files: $(ls csv/whole)"
[ "$(rows whole train_loss)" -eq 13 ] || fail "not a row for each of 12 steps: $(cat csv/whole/Train_Samples_train_loss.csv)"
sed -n 3p csv/whole/Train_Samples_train_loss.csv | grep -q "^8,[0-9.]*$(printf '\r')\$" || fail "the second row is not that of 8 samples"
python3 - <<'PY' || fail "other losses than metrics.jsonl has"
import csv, json
rows = list(csv.DictReader(open("csv/whole/Train_Samples_train_loss.csv")))
lines = [l for l in map(json.loads, open("whole/metrics.jsonl")) if "loss" in l]
assert [(int(r["step"]), float(r["train_loss"])) for r in rows] == [(4 * l["step"], l["loss"]) for l in lines]
rates = list(csv.DictReader(open("csv/whole/Train_Samples_lr.csv")))
assert [float(r["lr"]) for r in rates[:-1]] == [l["lr"] for l in lines[1:]]  # of the update after
points = [int(r["step"]) for r in csv.DictReader(open("csv/whole/Train_Samples_eval_loss.csv"))]
assert points == sorted(set(points)) and points[-1] == 48, points  # one value at each place, the last one's too
PY

# Killed after its checkpoint of step 6 or later, it goes on to the same files.
config broken
"$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $RUN --out broken --config broken.json >out.txt 2>err.txt &
parent=$!
for i in $(seq 600); do
    { [ -e broken/checkpoints/step-00000006 ] || ! kill -0 $parent; } 2>/dev/null && break
    sleep 0.05
done
[ -e broken/checkpoints/step-00000006 ] || fail "no checkpoint of step 6: $(cat err.txt)"
kill -KILL $parent $(children_of $parent) 2>/dev/null
{ wait $parent; } 2>/dev/null
printf '40,9.0\r\n48,9' >>csv/broken/Train_Samples_lr.csv # as if it had come further
rm -rf broken/checkpoints/step-00000009 broken/checkpoints/step-00000012
train $RUN --out broken --config broken.json --resume
for name in train_loss lr; do
    cmp csv/whole/Train_Samples_$name.csv csv/broken/Train_Samples_$name.csv || fail "another $name after it went on: $(cat csv/broken/Train_Samples_$name.csv)"
done

# A second run writes behind the first one's rows; a dry run writes nothing.
train $RUN --out again --config whole.json
[ "$(rows whole lr)" -eq 26 ] && [ "$(grep -c step csv/whole/Train_Samples_lr.csv)" -eq 2 ] || fail "a second run: $(cat csv/whole/Train_Samples_lr.csv)"
config dry
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --dry-run --config dry.json
[ ! -e csv/dry ] || fail "a dry run left $(ls csv/dry)"

# Where nothing can be written the run is refused before its first step.
config refused
mkdir -p csv && echo >csv/refused
refused 74 'csv_monitor: cannot create the directory "csv/refused"' "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --steps 2 --out out --config refused.json
echo "CSV files of a run that was killed are those of one that was not"
