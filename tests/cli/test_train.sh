#!/usr/bin/env bash
# A tiny training end to end: what it prints, what it writes, and that both can be used again.
. "$(dirname "$0")/lib.sh"

expect 0 "$ZERO" train --new $TINY --data "$TEXT" --tokenizer chars --out run --threads 1 --steps 40 --eval-every 10 --sample-every 20
[ "$(sed -n '/^step/q;p' out.txt | wc -l)" -le 8 ] || fail "more than eight lines before the first step: $(sed -n '/^step/q;p' out.txt)"
[ "$(grep -c '^step .* left$' out.txt)" -le 40 ] || fail "too many lines"
head -1 out.txt | grep -q "new random weights, $TINY; vocabulary [0-9]* (chars)" || fail "first line: $(head -1 out.txt)"
grep -qE '^step  1/40 \| loss [0-9.]+ \(      -\) \| lr [0-9.e+-]+ \| norm [0-9.]+ \| [0-9.]+ ms \| [0-9]+ tok/s \| [0-9:]+ left$' out.txt || fail "the first step's line"
grep -qE '^step 40/40 \| loss [0-9.]+ \([+-][0-9.]+\)' out.txt || fail "the last step's line"
[ "$(grep -c 'val loss' out.txt)" -ge 4 ] || fail "evaluations"
[ "$(grep -c 'a sample' out.txt)" -eq 2 ] || fail "samples"
tail -1 out.txt | grep -q 'run/model' || fail "where the model lies: $(tail -1 out.txt)"
[ ! -s err.txt ] || fail "stderr: $(cat err.txt)"

python3 - <<'PY' || fail "metrics.jsonl"
import json
lines = [json.loads(line) for line in open("run/metrics.jsonl")]
steps = [l for l in lines if "loss" in l]
assert [s["step"] for s in steps] == list(range(1, 41))
assert steps[-1]["loss"] < steps[0]["loss"] - 0.3, (steps[0]["loss"], steps[-1]["loss"])
for s in steps:
    assert s["tokens"] == 24 * 32 and s["ms"] > 0 and s["tok_s"] > 0 and s["grad_norm"] > 0
    assert set(s["mem"]) == {"parameters", "gradients", "optimizer", "activations", "checkpoints", "communication", "workspace"}
    assert all(m["planned"] == m["held"] for m in s["mem"].values()), s["mem"]
    assert all(c["calls"] > 0 and c["bytes"] >= 0 for c in s["comm"].values())
evals = [l for l in lines if "val_loss" in l]
assert len(evals) >= 4 and all("loss" not in e for e in evals)
text = open("run/metrics.jsonl").read()
assert all(repr(s["loss"]) in text for s in steps)
PY
for file in config.json model/config.json model/model.safetensors model/tokenizer.json model/tokenizer_config.json best/model.safetensors; do
    [ -s run/$file ] || fail "no $file"
done

# The resolved configuration gives the same run again; so does the same command.
train --tokenizer chars --steps 40 --eval-every 10 --out again
train --tokenizer chars --steps 40 --eval-every 10 --out resolved --config run/config.json
[ "$(fingerprint run)" = "$(fingerprint again)" ] || fail "the same command gave another run"
[ "$(fingerprint run)" = "$(fingerprint resolved)" ] || fail "the resolved configuration gave another run"
[ ! -s out.txt ] || fail "--quiet prints"

# Overwriting, continuing from a model, a dry run, other seeds.
train --tokenizer chars --steps 3 --val none --out again --overwrite
[ "$(grep -c '"loss"' again/metrics.jsonl)" -eq 3 ] && [ ! -e again/best ] || fail "--overwrite kept something"
expect 0 "$ZERO" train --model run/model --data "$TEXT" --out further --threads 1 --steps 3 --val none
head -1 out.txt | grep -q 'from run/model; vocabulary' || fail "first line: $(head -1 out.txt)"
python3 - <<'PY' || fail "training further did not start from the model"
import json
load = lambda d: [json.loads(l) for l in open(d + "/metrics.jsonl")]
assert [l for l in load("further") if "loss" in l][0]["loss"] < [l for l in load("run") if "loss" in l][0]["loss"] - 0.3
PY
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --dry-run --threads 1 --out dry --explain
grep -qE "^runtime  [0-9.]+ MB resident before the plan's memory is reserved$" err.txt && grep -q '^config   optimizer AdamW' err.txt || fail "--explain: $(cat err.txt)"
[ ! -e dry ] || fail "a dry run left something"
train --steps 3 --val none --seed 1 --out seed1
train --steps 3 --val none --seed 2 --out seed2
[ "$(fingerprint seed1)" != "$(fingerprint seed2)" ] || fail "the seed changes nothing"
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --val none --threads 1 --steps 2 --config <(echo '{"zero_optimization": {"stage": 1}}') --stage 2 --out flags
grep -qE 'stage.*2.*--stage.*1' out.txt || fail "the flag that won is not named"

# What makes a run useless is told: rates that are all 0, a loss that has left its range.
echo '{"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}}' >trainer.json
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --steps 2 --config trainer.json --out zeros
[ "$(grep -c '^the rate of every step of this run is 0' err.txt)" -eq 1 ] || fail "rates of 0: $(cat err.txt)"
tail -1 out.txt | grep -q 'the loss was the same in all evaluations' || fail "a best that is none: $(tail -1 out.txt)"
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --val none --threads 1 --steps 4 --lr 1000 --out far
[ "$(grep -c '^step [2-4]: the loss is .* this training diverges' err.txt)" -eq 1 ] || fail "a loss that has grown: $(cat err.txt)"

# A narrow terminal keeps rate and time; one that a launcher has made gets lines.
cat >terminal.py <<'PY'
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
try:
    while piece := os.read(terminal, 65536):
        os.write(1, piece)
except OSError: # the end, as Linux tells it
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
PY
small=("$ZERO" train --new $TINY --data "$TEXT" --val none --threads 1 --steps 3 --overwrite --out small)
expect 0 python3 terminal.py "${small[@]}"
grep -q $'\r\e\\[Kstep 3/3 loss [0-9.]* | [0-9]* tok/s | 0:00 left' out.txt || fail "a bar of 60 columns: $(cat -A out.txt)"
RANK=0 WORLD_SIZE=1 expect 0 python3 terminal.py "${small[@]}"
[ "$(grep -c '^step [1-3]/3 .* left' out.txt)" -eq 3 ] && ! grep -q $'\e' out.txt || fail "lines for a launcher: $(cat -A out.txt)"
grep -q '^ranks    1 (self, by RANK and WORLD_SIZE)' out.txt || fail "who has started it: $(grep ^ranks out.txt)"

# A loss that is not finite ends the run and names a tensor.
expect 65 "$ZERO" train --new $TINY --data "$TEXT" --val none --threads 1 --steps 60 --lr 900 --out wild --quiet \
    --config <(echo '{"optimizer": {"type": "SGD", "params": {"lr": 900}}, "gradient_clipping": 0}')
grep -qE 'the loss is .*(nan|inf).*(of [a-z_.0-9]+|no parameter)' err.txt || fail "$(cat err.txt)"
[ "$(wc -l <err.txt)" -eq 1 ] || fail "more than one line"
echo "trained, evaluated, sampled, resolved, continued"
