#!/usr/bin/env bash
# Trainings on preferences: DPO, ORPO, SimPO and KTO learn what they are shown; ranks, stages, tensor
# ranks, pipelines and adapters compute the same losses; the reference is kept in a file that later
# runs find; and what cannot be compared is refused.
#   $1: --all: every loss in every way; else a sample of them
. "$(dirname "$0")/lib.sh"
all=no
[ "${1:-}" != --all ] || all=yes

python3 - <<'PY' || fail "data"
import json, random
random.seed(3)
words = "the a cat dog runs sees big small red blue fish bird tree house near over under".split()
def some(most): return " ".join(random.choice(words) for _ in range(random.randint(1, most)))
with open("pairs.jsonl", "w") as f:
    for _ in range(60):
        f.write(json.dumps({"prompt": f"Q: {some(4)}?\n", "chosen": f"yes {some(5)}", "rejected": f"no {some(5)}"}) + "\n")
with open("labels.jsonl", "w") as f:
    for i in range(60):
        f.write(json.dumps({"prompt": f"Q: {some(4)}?\n", "completion": f"{'no' if i % 3 else 'yes'} {some(5)}", "label": i % 3 == 0}) + "\n")
open("text.txt", "w").write(some(400) * 8)
PY

expect 0 "$ZERO" train --new llama:layers=2,width=32,heads=4,kv_heads=2,context=128 --data text.txt --out base --steps 10 \
    --micro-batch 2 --seq 64 --threads 1 --quiet

# learn NAME LOSS ARGUMENTS...: a training of 6 steps of 4 windows, whose losses go to NAME.txt.
learn()
{
    local name=$1 loss=$2 data=pairs.jsonl
    shift 2
    rm -f ./*.reference.safetensors
    [[ $loss != kto* ]] || data=labels.jsonl
    expect 0 "$ZERO" train --model base --data $data --out "$name" --preference "$loss" --steps 6 --seq 128 --micro-batch 1 \
        --threads 1 --lr 1e-3 --config exact.json --quiet "$@"
    python3 - "$name" >"$name.txt" <<'PY' || fail "$name: no metrics"
import json, sys
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    print(*(line.get(key) for key in ("step", "loss", "val_loss", "val_accuracy", "val_margin")))
PY
}
echo '{"libzero": {"exact_world": true, "exact_pipeline": true}, "train_batch_size": 4}' >exact.json

# same A B: the same losses, accuracies and margins, bit by bit.
same() { cmp "$1.txt" "$2.txt" || fail "$1 and $2 differ: $(diff "$1.txt" "$2.txt" | head -4)"; }

losses=(dpo orpo,beta=0.3 simpo,gamma=0.5 kto,desirable=2)
for loss in "${losses[@]}"; do
    name=${loss%%,*}
    learn "$name" "$loss"
    python3 - "$name" <<'PY' || fail "$name learns nothing"
import json, math, sys
lines = list(map(json.loads, open(sys.argv[1] + "/metrics.jsonl")))
losses = [l["loss"] for l in lines if "loss" in l]
evaluated = [l for l in lines if "val_loss" in l]
if sys.argv[1] == "orpo":
    assert losses[-1] < losses[0], losses
else:
    assert evaluated[-1]["val_margin"] > evaluated[0]["val_margin"], evaluated
assert sys.argv[1] == "kto" or 0 <= evaluated[-1]["val_accuracy"] <= 1, evaluated
# Against itself a model has no preference.
assert sys.argv[1] != "dpo" or abs(losses[0] - math.log(2)) < 1e-6, losses
PY
    [ "$all" = yes ] || [ $name = dpo ] || [ $name = kto ] || continue
    learn $name-2 "$loss" --ranks 2 --stage 3
    same $name $name-2
    learn $name-4 "$loss" --ranks 4 --stage 2
    same $name $name-4
    [ "$all" = yes ] || [ $name = dpo ] || continue
    learn $name-1s "$loss" --ranks 2 --stage 1
    same $name $name-1s
    learn $name-p "$loss" --ranks 2 --pipeline 2
    learn $name-p4 "$loss" --ranks 4 --pipeline 2 --stage 1
    same $name-p $name-p4
    learn $name-t "$loss" --ranks 2 --tensor 2
    learn $name-t4 "$loss" --ranks 4 --tensor 2 --sequence-parallel --stage 2
    learn $name-lora "$loss" --lora r=4
    learn $name-lora2 "$loss" --lora r=4 --ranks 2 --stage 3 --dtype fp32
    same $name-lora $name-lora2
    learn $name-bf "$loss" --ranks 2 --dtype bf16 --stage 2
    for other in p t t4 bf; do
        python3 - $name.txt $name-$other.txt <<'PY' || fail "$name-$other is far from $name"
import sys
a, b = ([line.split() for line in open(path)] for path in sys.argv[1:])
for x, y in zip(a, b):
    assert x[0] == y[0] and (x[1] == "None" or abs(float(x[1]) - float(y[1])) < 0.02 * abs(float(x[1]))), (x, y)
PY
    done
done

# The reference's numbers are next to the data, one file for a model and its precision, and are found again.
learn before dpo --ranks 2
[ "$(ls pairs.jsonl.*.reference.safetensors | wc -l)" -eq 1 ] || fail "not one file of the reference: $(ls)"
expect 0 "$ZERO" train --model base --data pairs.jsonl --out again --preference dpo --steps 2 --seq 128 --micro-batch 1 --threads 1
grep -q "^reference from" out.txt || fail "the reference is computed again"

# A run that is resumed compares with the model that it began with.
learn half dpo --reference kept.safetensors --save-every 3
rm -rf cut && cp -r half cut && rm -r cut/checkpoints/step-00000006 cut/model cut/best
expect 0 "$ZERO" train --model base --data pairs.jsonl --out cut --preference dpo --steps 6 --seq 128 --micro-batch 1 --threads 1 \
    --lr 1e-3 --config exact.json --reference kept.safetensors --resume
grep -q "^reference from \"kept" out.txt || fail "the resumed run has another reference"
cmp half/model/model.safetensors cut/model/model.safetensors || fail "a resumed run ends elsewhere"
rm kept.safetensors && rm -r cut/checkpoints/step-00000006
expect 0 "$ZERO" train --model base --data pairs.jsonl --out cut --preference dpo --steps 6 --seq 128 --micro-batch 1 --threads 1 \
    --lr 1e-3 --config exact.json --reference kept.safetensors --resume --quiet
cmp half/model/model.safetensors cut/model/model.safetensors || fail "the reference is that of the checkpoint"
expect 0 "$ZERO" verify half --threads 1
refused 78 'is of a training on the preference dpo,beta=0.1,smoothing=0, this one has simpo' "$ZERO" train --model base/model --data pairs.jsonl --out cut \
    --preference simpo --steps 8 --seq 128 --micro-batch 1 --threads 1 --lr 1e-3 --config exact.json --resume

# Files of the reference that are not this run's.
"$ZERO" train --new gpt2:layers=1,width=32,heads=2,context=128 --data pairs.jsonl --out o --preference dpo --steps 1 --seq 128 \
    --reference kept.safetensors --dry-run >/dev/null 2>&1 || fail "dry run"
expect 65 "$ZERO" train --model base --data pairs.jsonl --out o --preference dpo --steps 1 --seq 127 --reference kept.safetensors
grep -q "is of another model, other data or other windows" err.txt || fail "a wrong reference is taken: $(cat err.txt)"
head -c 200 kept.safetensors >short.safetensors
expect 65 "$ZERO" train --model base --data pairs.jsonl --out o --preference dpo --steps 1 --seq 128 --reference short.safetensors
grep -q "short.safetensors" err.txt || fail "a truncated reference is taken"
expect 74 "$ZERO" train --model base --data pairs.jsonl --out o --preference dpo --steps 1 --seq 128 --reference none/x.safetensors
grep -q -- "--reference names another file" err.txt || fail "no way out of a directory that is not there: $(cat err.txt)"
[ ! -e o ] || [ ! -e o/model ] || fail "a refused run left a model"

# zero eval measures what a training does; the base is the adapter switched off.
expect 0 "$ZERO" eval --model base --adapter dpo-lora --data pairs.jsonl --preference dpo --seq 128 --threads 1 --json
python3 -c 'import json, sys; r = json.load(open("out.txt")); assert r["pairs"] == 60 and 0 <= r["accuracy"] <= 1 and r["margin"] > 0, r' ||
    fail "eval of an adapter: $(cat out.txt)"
expect 0 "$ZERO" eval --model dpo --reference base --data pairs.jsonl --preference dpo --seq 128 --threads 1 --ranks 2 --json
python3 -c 'import json; r = json.load(open("out.txt")); assert r["loss"] < 0.69 and r["margin"] > 0, r' || fail "eval of a model"
expect 0 "$ZERO" eval --model base --reference base --data pairs.jsonl --preference dpo --seq 128 --threads 1
grep -q "^loss 0.69314" out.txt && grep -q "accuracy" out.txt || fail "a model against itself: $(cat out.txt)"
expect 64 "$ZERO" eval --model base --data pairs.jsonl --preference dpo --seq 128
grep -q -- "--reference names the model" err.txt || fail "eval without a reference: $(cat err.txt)"
expect 64 "$ZERO" eval --model base --data pairs.jsonl --preference simpo --reference base --seq 128

# zero data show says which answer is which.
expect 0 "$ZERO" data show --data pairs.jsonl --preference dpo --seq 128 --micro-batch 1
grep -q "^--- chosen ---" out.txt && grep -q "^--- rejected ---" out.txt || fail "roles are not shown"
expect 0 "$ZERO" data show --data labels.jsonl --preference kto --seq 128 --micro-batch 1 --json
grep -q '"role":"mismatched"' out.txt || fail "no mismatched answer is shown"

# What the plan knows.
expect 0 "$ZERO" plan --model base --preference orpo --seq 128 --ranks 2
"$ZERO" plan --model base --preference orpo --seq 128 --json >with.txt 2>/dev/null &&
    "$ZERO" plan --model base --seq 128 --json >without.txt 2>/dev/null
cmp -s with.txt without.txt && fail "the plan of a training on preferences is another one"

# What cannot be compared is refused.
expect 78 "$ZERO" train --model base --data pairs.jsonl --out o --preference simpo --reference x.safetensors --steps 1
expect 78 "$ZERO" train --model base --data text.txt --out o --reference x.safetensors --steps 1
expect 78 "$ZERO" train --model base --data pairs.jsonl --out o --preference dpo,beta=x --steps 1
expect 78 "$ZERO" train --model base --data pairs.jsonl --out o --preference dpo --attention causal --steps 1
grep -q "must not see each other" err.txt || fail "causal attention: $(cat err.txt)"
expect 65 "$ZERO" train --model base --data text.txt --out o --preference dpo --steps 1
grep -q "preferences are records" err.txt || fail "text: $(cat err.txt)"
expect 65 "$ZERO" train --model base --data labels.jsonl --out o --preference dpo --steps 1
grep -q 'labels.jsonl:1: the record has no "chosen"' err.txt || fail "labels: $(cat err.txt)"
"$ZERO" train --model base --data pairs.jsonl --out o --steps 1 >/dev/null 2>err.txt && fail "pairs are trained on as text"
grep -q -- "--preference dpo" err.txt || fail "the way to train on pairs is not said: $(cat err.txt)"
expect 65 "$ZERO" train --model base --data pairs.jsonl --out o --preference dpo --steps 1 --seq 4
grep -q "fits a window" err.txt || fail "windows too short: $(cat err.txt)"
