#!/usr/bin/env bash
# What a run says of its own time: parts that add up, one object for each start; what it teaches, and what is never learnt.
. "$(dirname "$0")/lib.sh"

CACHE=$(rates_file)
run() { expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --micro-batch 4 "$@"; }

# The last start of a run: what adds up to what; FIRST STEPS: where it began, and what it made.
check() {
    python3 - "$@" <<'PY' || fail "times.json of $1"
import json, sys
run, count, first, steps, known = sys.argv[1], *map(int, sys.argv[2:6])
starts = json.load(open(run + "/times.json"))
assert len(starts) == count, starts
last = starts[-1]
parts = {name: part["measured"] for name, part in last["parts"].items()}
assert list(parts) == ["compute", "exchange", "update", "disk", "data", "evaluation", "saving", "generation"], parts
assert (last["first_step"], last["steps"]) == (first, steps), last
assert all(part >= 0 for part in parts.values()) and parts["compute"] > 0 and parts["update"] > 0 and parts["saving"] > 0, parts
step = last["step"]["measured"]
assert abs(sum(parts[name] for name in ("compute", "exchange", "update", "disk")) / step - 1) < 1e-6, last
of_steps = steps * step + last["start"]
whole = of_steps + sum(parts[name] for name in ("data", "evaluation", "saving", "generation")) + last["rest"]
assert abs(whole / last["seconds"] - 1) < 1e-6 and last["rest"] < last["seconds"], last
ms = sum(json.loads(l).get("ms", 0) for l in list(open(run + "/metrics.jsonl")) if '"loss"' in l and json.loads(l)["step"] > first)
assert 0.95 * ms - 2 < 1e3 * (of_steps + parts["data"]) < ms + 1, (ms, of_steps, parts)
libzero = json.load(open(run + "/config.json"))["libzero"]["run"]
layers, channels, seq, batch = 2, 32, 32, json.load(open(run + "/config.json"))["train_batch_size"]
assert last["flops"] == batch * seq * (6 * libzero["parameters"] + 12 * layers * channels * seq), last
assert abs(last["flops_per_second"] * step / last["flops"] - 1) < 1e-6
assert (last["share"] is not None) == bool(known) and (not known or 0 < last["share"] < 1), last
assert last["setting"]["ranks"] == libzero["ranks"] == last["setting"]["together"]
assert last["setting"]["path"] == libzero["instructions"] and last["setting"]["threads"] == 1
PY
}

# A short run is told, and teaches what it took besides its steps alone, which the next one is predicted with.
run --out short --steps 3 --no-final-checkpoint
check short 1 0 3 1
python3 - "$CACHE" short/times.json <<'PY' || fail "what three steps have taught: $(cat "$CACHE")"
import json, sys
book, (run,) = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
tasks = book["tasks"]
assert book["settings"] == [] and list(tasks) == ["begin", "read", "reserve", "share", "draw", "arrange", "model"], book
first = sum(tasks[name][0]["seconds"] for name in ("begin", "read", "reserve", "share", "draw"))
assert abs(first / run["to_first_step"]["measured"] - 1) < 1e-6 and run["to_first_step"]["predicted"] is None, (tasks, run)
PY
for line in '^took  *[0-9.]* m\?s: 3 steps .*; before the first step [0-9.]* m\?s$' '^         a step [0-9.]* ms.*; compute [0-9.]* ms' '^spent  *[0-9.]* GFLOP a step, .*(6N + 12LCT a token, causal attention counted whole)$'; do
    [ "$(grep -c "$line" out.txt)" = 1 ] || fail "no line $line: $(tail -5 out.txt)"
done

run --out short --overwrite --steps 3 --sample-every 2 --save-every 2 --no-learn --explain
python3 - short/times.json <<'PY' || fail "what is predicted from one run: $(cat short/times.json)"
import json, sys
(run,) = json.load(open(sys.argv[1]))
parts = run["parts"]
assert run["to_first_step"]["predicted"] > 0 and parts["data"]["predicted"] > 0 and parts["generation"]["measured"] > 0, run
assert parts["saving"]["predicted"] is None, "nothing is known of checkpoints"
PY

# What is known of the rest is said before the steps, by zero plan in the same words.
said='besides steps: [0-9.]* m\?s before the first one, .*[0-9.]* m\?s a model'
grep -q "^predict  $said" err.txt || fail "no word of what comes besides steps: $(cat out.txt)"
expect 0 "$ZERO" plan --new $TINY --ranks 1
grep -q "^Predicted $said" out.txt || fail "zero plan has no word of it: $(cat out.txt)"

# Samples are predicted once a generation has taught how long its operations take.
tokens=200 # of a sample
expect 0 "$ZERO" generate --model short/model --prompt abc --tokens $tokens --ignore-end --threads 1
run --out short --overwrite --steps 3 --sample-every 2 --no-learn --explain
python3 - short/times.json <<'PY' || fail "samples are not predicted: $(cat short/times.json)"
import json, sys
generation = json.load(open(sys.argv[1]))[0]["parts"]["generation"]
assert 0.1 < generation["predicted"] / generation["measured"] < 10, generation
PY
grep -q '^predict .* a generated token' err.txt || fail "no word of a token: $(cat out.txt)"
grep -q '^took .*, generation [0-9.]* m\?s (predicted [0-9.]* m\?s)' out.txt || fail "no prediction of samples: $(grep ^took out.txt)"
rm "$CACHE"

# A longer one teaches, what it has measured with its setting, unless it is told not to.
run --out none --steps 12 --no-learn
[ ! -e "$CACHE" ] || fail "--no-learn has taught $(cat "$CACHE")"
run --out long --ranks 2 --steps 12 --save-every 4 --eval-every 6
check long 1 0 12 1
python3 - "$CACHE" <<'PY' || fail "what two ranks have taught: $(head -20 "$CACHE")"
import json, sys
(setting,) = json.load(open(sys.argv[1]))["settings"]
assert (setting["threads"], setting["together"], setting["dtype"]) == (1, 2, "f32"), setting
for what in "product", "attention", "norm", "optimizer", "reduce_scatter", "forward", "backward":
    assert setting["samples"][what] and all(0 < s["seconds"] < 10 for s in setting["samples"][what]), what
PY
"$ZERO" doctor | grep -A1 "^rates .*$CACHE" | grep -q 'f32, 1 thread, 2 ranks at once' || fail "doctor does not show the rates"
"$ZERO" doctor >doctor.txt && "$ZERO" doctor --json >doctor.json || fail "doctor with rates"
python3 - doctor.txt doctor.json <<'PY' || fail "zero doctor --json has other rates than zero doctor: $(cat doctor.json)"
import json, re, sys
text, rates = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))["rates"]
(setting,) = rates["settings"]
assert (setting["threads"], setting["ranks"], setting["dtype"]) == (1, 2, "f32") and f'last measured {setting["last_measured"]}\n' in text, setting
shown = re.findall(r" (\d+) sizes?(?:, (\S+) to (\S+) (Gflop|GB)/s)?$", text, re.M)
assert len(shown) == len(setting["activities"]) > 7, shown
for (sizes, low, high, unit), row in zip(shown, setting["activities"]):
    kind = "flops" if unit == "Gflop" else "bytes"
    ends = [row.get(f"{end}_{kind}_per_second") for end in ("least", "most")]
    assert row["sizes"] == int(sizes) and ["%.4g" % (rate / 1e9) for rate in ends if rate] == [end for end in (low, high) if end], (row, low, high)
named = re.findall(r" by (\d+) ranks?, (\d+) (\w+); (\d+) amounts?$", text, re.M)
assert named == [tuple(str(row[key]) for key in ("ranks", "amount", "of", "amounts")) for row in rates["tasks"]], rates["tasks"]
PY
before=$(md5sum <"$CACHE")
run --out none --overwrite --steps 12 --no-learn
check none 1 0 12 1
[ "$(md5sum <"$CACHE")" = "$before" ] || fail "--no-learn has changed the rates"

# The next one is predicted, and teaches what the prediction was off by, unless its steps were disturbed.
run --out again --ranks 2 --steps 30
check again 1 0 30 1
grep -q '^predict  the whole run: about ' out.txt || fail "no length of the run: $(grep ^predict out.txt)"
grep -q '^         a step [0-9.]* m\?s, predicted [0-9.]* m\?s (' out.txt || fail "nothing was predicted: $(grep -A1 ^took out.txt)"
python3 - "$CACHE" again/times.json <<'PY' || fail "what a predicted run has taught: $(tail -12 "$CACHE")"
import json, sys
corrections, (run,) = json.load(open(sys.argv[1]))["corrections"], json.load(open(sys.argv[2]))
step, parts = run["step"], ("compute", "exchange", "update", "disk")
assert step["low"] < step["predicted"] < step["high"], step
assert abs(sum(run["parts"][p]["predicted"] for p in parts) / step["predicted"] - 1) < 1e-6, run
steady = step["spread"] <= 0.25 and step["interrupted"] <= 0.25 and step["quiet"] >= 0.85
assert (corrections.get("step", {}).get("runs", 0) == 1) == steady == ("evaluation" in corrections), (step, corrections)
assert run["parts"]["evaluation"]["predicted"] > 0, run
PY

# A run that goes on adds to its times; one that is replaced begins anew, and nobody else's file is taken for a run's.
run --out long --ranks 2 --steps 15 --resume
check long 2 12 3 1
run --out long --overwrite --steps 2
check long 1 0 2 0
mkdir mine && echo '{"my": "times"}' >mine/times.json
refused 64 '"mine/times.json" is there, which no run of libzero has written' "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --steps 2 --out mine

# Rates that are damaged or cannot be kept are one warning, and no bit of a run depends on them.
weights() { md5sum <"$1/model/model.safetensors"; }
for state in damaged nowhere; do
    if [ $state = damaged ]; then echo '{"format": ' >"$CACHE"; else export XDG_CACHE_HOME=/proc/nowhere; fi
    run --out $state --steps 12
    [ "$(wc -l <err.txt)" -eq 1 ] || fail "$state rates, and not one warning: $(cat err.txt)"
    [ "$(weights $state)" = "$(weights none)" ] || fail "other weights with $state rates"
    check $state 1 0 12 1
done
grep -q 'measured rates are not kept: .*/proc/nowhere' err.txt || fail "it is not said that nothing is kept: $(cat err.txt)"
python3 -m json.tool "$CACHE" >out.txt || fail "damaged rates stay damaged"
expect 0 env -u XDG_CACHE_HOME -u HOME "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --out homeless --steps 12
[ "$(grep -c 'neither XDG_CACHE_HOME nor HOME' err.txt)" = 1 ] || fail "not one warning: $(cat err.txt)"

# A dry run keeps nothing.
run --dry-run
grep -q '^took ' out.txt || fail "a dry run does not tell its time: $(cat out.txt)"
