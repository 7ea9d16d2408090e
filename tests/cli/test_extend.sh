#!/usr/bin/env bash
# A run that has ended is extended: --resume with more steps goes on from the checkpoint that it left, to the bits of a straight run of as many.
. "$(dirname "$0")/lib.sh"

losses() { # the lines of a run without what depends on the clock
    python3 - "$1" <<'PY'
import sys, json
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    print(line["step"], line.get("loss"), line.get("grad_norm"), line.get("lr"), line.get("val_loss"))
PY
}
same() { # same A B: the lines, the models and the states of two runs are one
    for model in model best; do cmp "$1/$model/model.safetensors" "$2/$model/model.safetensors" || fail "other weights in $2/$model"; done
    diff <(losses "$1") <(losses "$2") >difference.txt || fail "other lines in $2/metrics.jsonl: $(head -6 difference.txt)"
    for file in "$1"/checkpoints/step-00000010/*.safetensors; do cmp "$file" "$2/checkpoints/step-00000010/${file##*/}" || fail "other states in $2"; done
}
checkpoints() { ls -A "$1/checkpoints" | tr '\n' ' '; }
SCHEDULE='"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 12, "warmup_num_steps": 2, "warmup_max_lr": 0.01}}'
OFFLOAD='"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "libzero": {"delayed_update": {"start_step": 1}}'
CSV='"csv_monitor": {"enabled": true, "output_path": "csv", "job_name": "JOB"}'
echo "{$SCHEDULE, $CSV}" >plain.json
echo "{$SCHEDULE, $CSV, $OFFLOAD}" >late.json

# Evaluations of a part of the held-out text come at steps 3, 6 and 9, of the short run's end too; after the last step all of it is read.
for kind in 0 3 late; do
    config=plain.json stage=$kind
    [ $kind != late ] || { config=late.json stage=2; }
    run="--ranks 2 --micro-batch 2 --seed 5 --eval-every 3 --stage $stage"
    sed s/JOB/straight$kind/ $config >a.json
    sed s/JOB/extended$kind/ $config >b.json
    train $run --config a.json --out straight$kind --steps 10
    for steps in 6 10; do train $run --config b.json --out extended$kind --steps $steps --resume; done
    same straight$kind extended$kind
    for table in lr train_loss eval_loss; do
        cmp csv/straight$kind/Train_Samples_$table.csv csv/extended$kind/Train_Samples_$table.csv || fail "other rows of $table, $kind"
    done
    [ "$(checkpoints straight$kind)" = "latest step-00000010 " ] && [ "$(checkpoints extended$kind)" = "latest step-00000006 step-00000010 " ] || fail "kept: $(checkpoints extended$kind)"
    expect 0 "$ZERO" verify extended$kind
done
[ -f extendedlate/checkpoints/step-00000010/parameters.safetensors ] || fail "the delayed update was finished before it was saved"
expect 0 "$ZERO" diff straight3 extended3
expect 0 "$ZERO" inspect extended3 --verify
expect 0 "$ZERO" convert --from straight3 --to hf --quiet
cmp hf/model.safetensors straight3/model/model.safetensors || fail "the last checkpoint is not the last model"

# The first step after a resume has no difference to show. Both kinds of evaluation say what they are.
sed s/JOB/extended0/ plain.json >a.json
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --ranks 2 --micro-batch 2 --seed 5 --eval-every 3 --stage 0 --config a.json --out extended0 --steps 12 --resume
[ "$(grep -cE '^step 11/12 \| loss [0-9.]+ \(      -\)' out.txt)" -eq 1 ] && grep -qE '^step 12/12 \| loss [0-9.]+ \([+-][0-9.]+\)' out.txt || fail "differences after a resume: $(grep '^step' out.txt)"
grep -qE '^step 12/12 \| val loss [0-9.]+ \(2 windows(, the best so far)?\)$' out.txt && grep -qE '^step 12/12 \| val loss [0-9.]+ \(all of the held-out text\)$' out.txt ||
    fail "kinds of evaluations: $(grep 'val loss' out.txt)"
grep -qE '^model    extended0/model, val loss [0-9.]+ \(all of the held-out text\); the best of the run, val loss [0-9.]+ \(2 windows\): extended0/best$' out.txt || fail "$(tail -1 out.txt)"
[ ! -s err.txt ] || fail "warned: $(cat err.txt)"

# A schedule that ends before the run is told of once, before the first step.
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --micro-batch 2 --config late.json --out early --steps 14
[ "$(grep -c 'total_num_steps is 12, this run has 14 steps: from step 14 on the rate of WarmupDecayLR stays at 0' err.txt)" -eq 1 ] || fail "a schedule that ends early: $(cat err.txt)"
sed 's/"total_num_steps": 12/"total_num_steps": 3/' late.json >soon.json
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --micro-batch 2 --config soon.json --out soon --steps 7
from=$(sed -n 's/.*from step \([0-9]*\) on the rate of WarmupDecayLR stays at 0.*/\1/p' err.txt)
python3 - "$from" <<'PY' || fail "not the first step of the last rate: $(cat err.txt)"
import json, sys
rates = {l["step"]: l["lr"] for l in map(json.loads, open("soon/metrics.jsonl")) if "lr" in l}
assert min(s for s in rates if all(rates[t] == rates[7] for t in rates if t >= s)) == int(sys.argv[1]), rates
PY
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_max_lr": 0.01, "cycle_first_step_size": 2}}}' >cycle.json
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --micro-batch 2 --config cycle.json --out cycle --steps 6
grep -q 'make a cycle of 4, this run has 6 steps: from step 5 on the rate of OneCycle stays at 0' err.txt || fail "a cycle that ends early: $(cat err.txt)"

# On other ranks a micro-batch that does not fit is refused with the way out.
refused 78 'without --micro-batch (train_micro_batch_size_per_gpu) it is chosen to fit: 1' "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --ranks 4 --micro-batch 2 --seed 5 \
    --eval-every 3 --config a.json --out extended0 --steps 14 --resume

# Once, where one was due at the last step; none, where nobody wants one; and nothing is said but where it lies.
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --micro-batch 2 --steps 4 --save-every 2 --out due
[ "$(grep -c '^saved    due/checkpoints/step-00000004' out.txt)" -eq 1 ] && [ "$(checkpoints due)" = "latest step-00000002 step-00000004 " ] || fail "saved: $(grep saved out.txt)"
train --micro-batch 2 --steps 4 --out none --no-final-checkpoint
[ ! -e none/checkpoints ] && [ -f none/model/model.safetensors ] || fail "a checkpoint that nobody wanted"
train --micro-batch 2 --steps 4 --save-every 4 --out asked --no-final-checkpoint
[ "$(checkpoints asked)" = "latest step-00000004 " ] || fail "--save-every holds: $(checkpoints asked)"
train --micro-batch 2 --steps 1 --out dry --dry-run
[ ! -e dry ] || fail "a dry run left something"

# The same command again has nothing left to make, and says so by its lines.
before=$(losses straight3)
cp straight3/model/model.safetensors model.safetensors
sed s/JOB/straight3/ plain.json >a.json
train --ranks 2 --micro-batch 2 --seed 5 --eval-every 3 --stage 3 --config a.json --out straight3 --steps 10 --resume
[ "$before" = "$(losses straight3)" ] && cmp model.safetensors straight3/model/model.safetensors || fail "a run that had ended has changed"
echo "what has ended goes on"
