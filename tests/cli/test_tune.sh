#!/usr/bin/env bash
# zero tune: the best of a few trials, what fails and what is killed meanwhile, budgets, and that its file reruns to the same choice.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$WORK/cache

tune() { expect 0 "$ZERO" tune --new $TINY --data "$TEXT" --ranks 1 --threads 1 "$@"; }

# A small search: some trials, one best, and its files.
tune --stage 0 --seconds 20 --trials 3 # into ./tuned, as --out tuned
[ "$(ls -d */ | grep -v cache)" = tuned/ ] || fail "more than one directory: $(ls -d */)"
grep -q ' best$' out.txt || fail "no best: $(cat out.txt)"
grep -q '3 trials' out.txt || fail "trials: $(cat out.txt)"
for file in tuned.json ds_config_optimal.json cmd_optimal.txt summary.txt summary.json experiments/exp_002.json; do
    [ -s tuned/$file ] || fail "no $file"
done
[ ! -e tuned/experiments/exp_003.json ] || fail "more experiments than trials"
cmp -s tuned/tuned.json tuned/ds_config_optimal.json || fail "two files of one choice"
python3 - <<'PY' || fail "the experiments"
import json
summary = json.load(open("tuned/summary.json"))
best, = [r for r in summary["rows"] if r["best"]]
assert best["measured"] > 0 and best["predicted"] > 0 and best["held"] == best["memory"], best
measured = [r for r in summary["rows"] if r["trials"] and "failed" not in r]
assert len(measured) < 2 or summary["second"]["costs_more"] >= 0, summary
assert summary["left_out"] >= 0, summary
tuned = json.load(open("tuned/tuned.json"))
assert tuned["train_micro_batch_size_per_gpu"] == best["micro_batch"], (tuned, best)
assert tuned["train_batch_size"] == best["micro_batch"] * best["accumulation"], tuned
one = json.load(open("tuned/experiments/exp_000.json"))
assert one["seconds"] > 0 and one["predicted_seconds"] > 0 and one["memory"] == one["predicted_memory"], one
PY

# The command that it prints trains so, and tuned again the choice stays.
command=$(cat tuned/cmd_optimal.txt)
case $command in "zero train --new $TINY --data $TEXT --config tuned/tuned.json --ranks 1 --threads 1 --out run") ;; *) fail "the command: $command" ;; esac
(PATH=$(dirname "$ZERO"):$PATH timeout 100 $command --steps 2 --val none --quiet) || fail "the command does not run: $command"
mkdir -p again/experiments
touch again/experiments/exp_1_notes.json again/experiments/exp_007.json
tune --config tuned/tuned.json --seconds 20 --trials 1 --out again --json
[ -e again/experiments/exp_1_notes.json ] || fail "a file of somebody else is gone"
[ ! -e again/experiments/exp_007.json ] || fail "an experiment of an earlier search is left"
python3 - <<'PY' || fail "tuned again: $(cat out.txt)"
import json
first, again = json.load(open("tuned/summary.json")), json.load(open("out.txt"))
best, = [r for r in first["rows"] if r["best"]]
assert again["candidates"] == 1 and again["rows"][0]["name"] == best["name"], again["rows"]
PY

# DeepSpeed's section: lists, its directories, the order of a grid, the steps of a trial.
cat >grid.json <<JSON
{"train_batch_size": 8, "train_micro_batch_size_per_gpu": [2, 8], "zero_optimization": {"stage": [0]},
 "autotuning": {"enabled": true, "tuner_type": "gridsearch", "start_profile_step": 2, "end_profile_step": 3, "tuner_num_trials": 2,
                "results_dir": "results", "exps_dir": "exps", "overwrite": false}}
JSON
tune --config grid.json --seconds 20
python3 - <<'PY' || fail "a grid"
import json
one, two = (json.load(open(f"exps/exp_00{i}.json")) for i in range(2))
assert [e["ds_config"]["train_micro_batch_size_per_gpu"] for e in (one, two)] == [2, 8], (one, two)
assert one["steps"] == 2, one
PY
# A flag wins over a list of the file: one stage is left, and the answer says it.
echo '{"train_batch_size": 4, "train_micro_batch_size_per_gpu": [2], "zero_optimization": {"stage": [0, 1, 2]}}' >list.json
expect 0 "$ZERO" tune --new $TINY --data "$TEXT" --ranks 2 --threads 1 --tensor 1 --pipeline 1 --config list.json --stage 2 --seconds 20 --trials 1 --out flag --json
python3 - <<'PY' || fail "a flag and a list: $(cat out.txt)"
import json
rows = json.load(open("out.txt"))["rows"]
assert rows and all(r["stage"] == 2 for r in rows), rows
assert json.load(open("flag/tuned.json"))["zero_optimization"]["stage"] == 2
PY
refused 64 'autotuning.overwrite is false' "$ZERO" tune --new $TINY --data "$TEXT" --ranks 1 --config grid.json
refused 78 'zero tune does, with this file' "$ZERO" train --new $TINY --data "$TEXT" --out out --config <(echo '{"autotuning": {"enabled": true}}')

# Nothing runs that does not fit: the trials hold what was planned, and what would be faster may be told.
tune --stage 0 --seconds 20 --trials 2 --device-memory 1200KB --out small
python3 - <<'PY' || fail "a budget: $(cat out.txt)"
import json
small = json.load(open("small/summary.json"))
assert small["too_large"] > 0 and all(r["held"] <= 1200000 for r in small["rows"] if r["trials"] and "held" in r), small
assert not any("failed" in r for r in small["rows"]), small
faster, best = small.get("too_large_but_faster"), next(r for r in small["rows"] if r["best"])
if faster: # it is told if it was predicted to be faster than what was measured, which time decides
    assert faster["memory"] > 1200000 and "budget of 1.20 MB" in faster["excess"] and 0 <= faster["guessed"] <= 1, faster
    assert faster["predicted"] / faster["tokens"] < best["measured"] / best["tokens"], (faster, best)
PY
refused 78 'fits; the smallest' "$ZERO" tune --new $TINY --data "$TEXT" --ranks 1 --device-memory 1KB --host-memory 1KB --out none

# A program that fails in some trials, is killed in others, and trains in the rest.
mkdir bin
cat >bin/zero <<SH
#!/usr/bin/env bash
count=\$(ls "$WORK/bin" | wc -l)
touch "$WORK/bin/\$count"
case \$count in
    1) echo 'zero train: a made-up failure' >&2; exit 65 ;;
    2) kill -KILL \$\$ ;;
    *) exec "$ZERO" "\$@" ;;
esac
SH
chmod +x bin/zero
cp "$ZERO" tuner # a program of another name looks for zero in PATH
expect 0 env PATH="$WORK/bin:$PATH" ./tuner tune --new $TINY --data "$TEXT" --ranks 1 --threads 1 --stage 0 --seconds 30 --trials 4 --out torn
grep -q 'failed: exit code 65: zero train: a made-up failure' out.txt || fail "a failed trial: $(cat out.txt)"
grep -q 'failed: killed by signal 9' out.txt || fail "a killed trial: $(cat out.txt)"
grep -q ' best$' out.txt || fail "nothing is left: $(cat out.txt)"

# Ctrl-C ends it, with everything that it has started and made.
mkdir scratch
TMPDIR=$WORK/scratch "$ZERO" tune --new $TINY --data "$TEXT" --ranks 1 --threads 1 --stage 0 --seconds 60 --out stopped >out.txt 2>err.txt &
pid=$!
for ((i = 0; i < 1000; i++)); do
    [ -z "$(ls scratch)" ] || break
    sleep 0.02
done
kill -INT $pid
wait $pid
[ $? -eq 75 ] || fail "stopped: $(cat err.txt)"
[ -z "$(ls scratch)" ] || fail "left behind: $(ls scratch)"

refused 78 '3 ranks cannot be divided into 2 tensor ranks' "$ZERO" tune --new $TINY --data "$TEXT" --ranks 3 --tensor 2
refused 78 'autotuning.mp_size' "$ZERO" tune --new $TINY --data "$TEXT" --config <(echo '{"autotuning": {"mp_size": 4294967296}}')
refused 64 'a launcher has started' env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "$ZERO" tune --new $TINY --data "$TEXT"
refused 64 'neither --new nor --model' "$ZERO" tune --data "$TEXT"
refused 64 'no text' "$ZERO" tune --new $TINY
refused 78 'unknown key' "$ZERO" tune --new $TINY --data "$TEXT" --config <(echo '{"autotuning": {"fats": true}}')
exit 0
