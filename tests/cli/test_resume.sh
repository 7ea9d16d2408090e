#!/usr/bin/env bash
# A run that is killed, however often and whenever, and goes on with --resume, ends with the bytes of one that was not.
. "$(dirname "$0")/lib.sh"

COMMON="--micro-batch 2 --seed 5"
RUN="$COMMON --ranks 2 --steps 30 --save-every 3"
losses() { # the lines of a run without what depends on the clock
    python3 - "$1" <<'PY'
import sys, json
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    print(line["step"], line.get("loss"), line.get("grad_norm"), line.get("val_loss"))
PY
}
same() { # same A B: two runs are one
    cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "other weights in $2"
    diff <(losses "$1") <(losses "$2") >difference.txt || fail "other lines in $2/metrics.jsonl: $(head -6 difference.txt)"
}
checkpoints() { ls -A "$1/checkpoints" | tr '\n' ' '; }

train $RUN --out unbroken
[ "$(checkpoints unbroken)" = "latest step-00000027 step-00000030 " ] || fail "checkpoints: $(checkpoints unbroken)"
python3 -c 'import json; assert json.load(open("unbroken/checkpoints/step-00000030/manifest.json"))["state"]["config"] == json.load(open("unbroken/config.json"))' || fail "the manifest has another configuration"
for stage in $(sample "1 3" 3); do
    train $RUN --stage $stage --out whole --overwrite
    rm -rf broken
    killed=0
    for attempt in $(seq 40); do
        "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $RUN --stage $stage --out broken --resume >out.txt 2>err.txt &
        parent=$!
        sleep 0.$((RANDOM % 4))$((RANDOM % 10))
        victims="$parent $(children_of $parent)"
        [ $((RANDOM % 2)) = 0 ] || victims=$(children_of $parent | tail -1)
        kill -KILL $victims 2>/dev/null && killed=$((killed + 1))
        { wait $parent; } 2>/dev/null && break
        [ $killed -lt $(sample 12 3) ] || break
    done
    train $RUN --stage $stage --out broken --resume
    same whole broken
    [ "$(checkpoints broken)" = "$(checkpoints whole)" ] || fail "after $killed kills: $(checkpoints broken)"
done

# Asked to end again and again, it goes on every time; the end of an allocation asks too.
rm -rf broken
asked=0
for attempt in $(seq 30); do
    "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $RUN --stage 2 --out broken --resume >out.txt 2>err.txt &
    parent=$!
    for _ in $(seq 200); do [ -s broken/metrics.jsonl ] && break; sleep 0.01; done
    sleep 0.$((RANDOM % 3))$((RANDOM % 10))
    [ $asked -ge $(sample 5 1) ] || kill -TERM $parent 2>/dev/null
    code=0
    { wait $parent; } 2>/dev/null || code=$?
    [ $code -ne 0 ] || break
    [ $code -eq 75 ] || [ $code -eq 143 ] || fail "asked to end: $code, $(cat err.txt)" # 143: before it could hear
    [ $code -ne 75 ] || asked=$((asked + 1))
done
train $RUN --stage 2 --out whole --overwrite
same whole broken
rm -rf broken
got=0
SLURM_JOB_END_TIME=$(($(date +%s) + 55)) "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $RUN --out broken >out.txt 2>err.txt || got=$?
[ $got -eq 75 ] && grep -q 'after step 1 of 30; saved' err.txt || fail "the end of an allocation: $got, $(cat err.txt)"
SLURM_JOB_END_TIME=$(($(date +%s) + 3600)) train $RUN --out broken --resume
SLURM_JOB_END_TIME=1700000000 expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --steps 2 --out stale
grep -q '^SLURM_JOB_END_TIME is in the past (2023-11-14 .*), so it is of another job: ignored$' err.txt || fail "a stale end: $(cat err.txt)"
same unbroken broken

# A rank dies: all start again, with as many ranks or with those that remain; how often is bounded.
steps_of() { cat "$1/metrics.jsonl" 2>/dev/null | grep -c '"loss"'; } # also where there is none yet
kill_ranks() { # kill_ranks KILLS OPTION...: a run in broken whose last rank is killed so often; its exit code in $code; whether all kills met it
    local kills=$1 k last met=0
    shift
    rm -rf broken
    "$ZERO" train --new $TINY --data "$TEXT" --threads 1 $COMMON --ranks 3 --micro-batch 4 --steps $STEPS $SAVES --out broken "$@" >out.txt 2>err.txt &
    parent=$!
    last=0
    for k in $(seq $kills); do
        for _ in $(seq 1000); do # steps have been made, and all ranks are there (again): the last one is rank 2
            [ "$(steps_of broken)" -gt $((last + 5)) ] && [ "$(children_of $parent | wc -l)" -eq 3 ] && break
            sleep 0.01
        done
        last=$(steps_of broken)
        kill -KILL "$(children_of $parent | tail -1)" 2>/dev/null && met=$((met + 1))
        for _ in $(seq 300); do [ "$(grep -c 'restart . of' err.txt)" -ge $k ] && break; sleep 0.01; done
    done
    code=0
    { wait $parent; } 2>/dev/null || code=$?
    [ $met -eq $kills ] && { [ $code -ne 0 ] || [ "$(grep -c 'restart . of' err.txt)" -ge $kills ]; } # a rank that had ended can be killed, too
}
restarted() { # the same, once more where the run was faster
    for _ in 1 2 3 4 5; do kill_ranks "$@" && return; done
    fail "no kill in time: $(cat err.txt)"
}
COMMON="--seed 5" SAVES="--save-every 10" STEPS=$(sample 200 80)
train $COMMON --ranks 3 --micro-batch 4 --steps $STEPS --save-every 10 --out whole --overwrite
restarted 2 --restarts 2
[ $code -eq 0 ] && grep -q 'rank 2 was killed by signal 9 .*; restart 2 of 2, with 3 ranks' err.txt || fail "restarts: $code, $(cat err.txt)"
grep -qE 'resume +from step [0-9]+ of "broken/checkpoints' out.txt || fail "nothing is said of where it goes on: $(cat out.txt)"
same whole broken
restarted 1 --restarts 1 --min-ranks 1
[ $code -eq 0 ] && grep -q 'restart 1 of 1, with 2 ranks' err.txt || fail "fewer ranks: $code, $(cat err.txt)"
python3 - $STEPS <<'PY' || fail "two ranks do not do the work of three"
import json, sys
runs = [[json.loads(l) for l in open(d + "/metrics.jsonl") if '"loss"' in l] for d in ("whole", "broken")]
assert [l["step"] for l in runs[1]] == list(range(1, int(sys.argv[1]) + 1))
assert runs[0][-1]["tokens"] == runs[1][-1]["tokens"] and abs(runs[0][-1]["loss"] - runs[1][-1]["loss"]) < 2e-2, (runs[0][-1], runs[1][-1])
PY
SAVES= restarted 1 --restarts 1 --min-ranks 1 # there is no checkpoint yet: from the first step, of as many samples
[ $code -eq 0 ] && grep -q 'restart 1 of 1, with 2 ranks' err.txt || fail "fewer ranks from the start: $code, $(cat err.txt)"
[ "$(grep -o '"tokens":[0-9]*' whole/metrics.jsonl | sort -u)" = "$(grep -o '"tokens":[0-9]*' broken/metrics.jsonl | sort -u)" ] || fail "two ranks make steps of another size"
restarted 2 --restarts 1
[ $code -eq 137 ] || fail "one restart too many: $code, $(cat err.txt)"
expect 0 "$ZERO" run --ranks 3 --restarts 3 --min-ranks 2 sh -c 'echo $ZERO_RESTART of $WORLD_SIZE; [ $RANK -gt 0 ] || [ $ZERO_RESTART -gt 1 ] || kill -KILL $$; [ $ZERO_RESTART -gt 1 ] || exec sleep 30'
[ "$(sort out.txt | uniq -c | tr -s ' \n' ' ')" = " 3 0 of 3 2 1 of 2 2 2 of 2 " ] || fail "attempts: $(sort out.txt | uniq -c)"
COMMON="--micro-batch 2 --seed 5"

# There is nothing to go on from, or only what is damaged.
train $RUN --out fresh --resume
same unbroken fresh
train $COMMON --ranks 2 --steps 20 --save-every 5 --keep 0 --out damaged
[ "$(checkpoints damaged)" = "latest step-00000005 step-00000010 step-00000015 step-00000020 " ] || fail "--keep 0 keeps $(checkpoints damaged)"
cp -r damaged cut
truncate -s 100 cut/checkpoints/step-00000020/manifest.json
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 $COMMON --ranks 2 --steps 20 --save-every 5 --keep 0 --out cut --resume
grep -q 'step-00000020" is passed over' out.txt err.txt || fail "nothing is said of the damage"
grep -q 'from step 15 of ' out.txt err.txt || fail "not from step 15: $(cat out.txt)"
same damaged cut
cp -r damaged short
rm short/checkpoints/step-00000020/exp_avg.safetensors
train $COMMON --ranks 2 --steps 20 --out short --resume
same damaged short
cp -r damaged whole20
flip damaged/checkpoints/step-00000020/exp_avg.safetensors 5000
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 $COMMON --ranks 2 --steps 20 --out damaged --resume --save-every 1 --keep 2
grep -q 'passed over: .*step-00000020/exp_avg.safetensors" is damaged' err.txt && grep -q 'from step 15 of ' out.txt || fail "nothing is said of the damage: $(cat err.txt)"
same whole20 damaged
[ "$(checkpoints damaged)" = "latest step-00000019 step-00000020 " ] || fail "kept: $(checkpoints damaged)"
"$ZERO" inspect --verify damaged >out.txt 2>&1 || fail "what was kept is damaged: $(cat out.txt)"
for step in 19 20; do flip damaged/checkpoints/step-000000$step/exp_avg.safetensors 5000; done
config=$(md5sum <damaged/config.json)
expect 65 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $COMMON --ranks 2 --steps 20 --out damaged --resume
grep -q 'step-00000020/exp_avg.safetensors" is damaged' err.txt || fail "not the newest damage: $(cat err.txt)"
truncate -s 100 damaged/checkpoints/*/manifest.json
expect 65 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $COMMON --ranks 2 --steps 20 --out damaged --resume
grep -q 'none of the 2 checkpoints' err.txt || fail "from the start, though there were checkpoints: $(cat err.txt)"
[ "$config" = "$(md5sum <damaged/config.json)" ] || fail "a refused --resume has changed config.json"

# Newer ones that are damaged count for nothing: what is written stays.
train $COMMON --ranks 2 --steps 20 --save-every 5 --keep 0 --out kept
truncate -s 100 kept/checkpoints/step-00000020/manifest.json
train $COMMON --ranks 2 --steps 20 --save-every 1 --keep 1 --out kept --resume >out.txt 2>err.txt &
parent=$!
for _ in $(seq 20000); do # without a pause: the steps that are left take some ten milliseconds
    case "$(echo kept/checkpoints/*)" in *step-0000001[6-9]*) break ;; esac
done
kill -KILL $(children_of $parent) $parent 2>/dev/null
wait $parent 2>/dev/null
ls kept/checkpoints | grep -qE 'step-000000(1[5-9])' || fail "only damaged ones are left: $(checkpoints kept)"
: >kept/model/model.safetensors.tmp.123.0
mkdir kept/checkpoints/.step-00000003.tmp
train $COMMON --ranks 2 --steps 20 --out kept --resume
[ -z "$(find kept -name '*.tmp*')" ] || fail "left behind: $(find kept -name '*.tmp*')"
same whole20 kept

# A file that its training does not read is part of it: here the parameters that a delayed update is behind with.
echo '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "libzero": {"delayed_update": {"start_step": 1}}}' >delayed.json
train $COMMON --ranks 2 --steps 6 --save-every 2 --keep 0 --config delayed.json --out late
rm -r late/checkpoints/step-00000006 late/model
flip late/checkpoints/step-00000004/parameters.safetensors 5000
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 $COMMON --ranks 2 --steps 8 --out late --resume
grep -q 'passed over: .*step-00000004/parameters.safetensors" is damaged' err.txt && grep -q 'from step 2 of ' out.txt || fail "a file that is not read is not looked at: $(cat err.txt)"

# A damaged one between those that are kept is none of them.
train $COMMON --ranks 2 --steps 20 --save-every 5 --keep 0 --out holes
truncate -s 100 holes/checkpoints/step-00000015/manifest.json
train $COMMON --ranks 2 --steps 25 --save-every 5 --keep 3 --out holes --resume
[ "$(checkpoints holes)" = "latest step-00000010 step-00000015 step-00000020 step-00000025 " ] || fail "a damaged one counts as kept: $(checkpoints holes)"

cp -r unbroken lost
cp -r lost/checkpoints/step-00000027 lost/checkpoints/step-00000024 # killed before it had gone
echo nonsense >lost/checkpoints/latest
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 $RUN --out lost --resume
[ "$(checkpoints lost)" = "latest step-00000027 step-00000030 " ] || fail "not pruned: $(checkpoints lost)"
grep -q 'checkpoints/latest" is damaged' err.txt && cmp unbroken/checkpoints/latest lost/checkpoints/latest || fail "latest is damaged, and stays so"
rm -r lost/checkpoints/step-00000030
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 $RUN --out lost --resume
grep -q '3 steps that came after it, [0-9.]* s, are made again' out.txt || fail "nothing is said of what was lost: $(grep resume out.txt)"
same unbroken lost

# Fewer ranks, another stage and another tier go on from the same state.
cp -r unbroken moved
rm -r moved/checkpoints/step-00000030
train $COMMON --ranks 1 --steps 30 --stage 3 --accumulation 2 --out moved --resume
[ "$(losses moved | head -28 | tail -1)" = "$(losses unbroken | head -28 | tail -1)" ] || fail "lines before the checkpoint changed"
python3 - <<'PY' || fail "another loss on one rank"
import json
last = [[json.loads(l) for l in open(d + "/metrics.jsonl") if "grad_norm" in l][-1]["loss"] for d in ("unbroken", "moved")]
assert abs(last[0] - last[1]) < 1e-3, last
PY

# A micro-batch that nobody has asked for is made to fit other ranks, so that a step has as many samples.
train --seed 5 --ranks 3 --steps 4 --save-every 2 --out three
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --seed 5 --ranks 2 --steps 8 --out three --resume
grep -q '2 ranks instead of 3: [0-9]* micro-batches of [0-9]* each' out.txt || fail "nothing is said of another micro-batch: $(cat out.txt)"
[ "$(grep -o '"tokens":[0-9]*' three/metrics.jsonl | sort -u | wc -l)" -eq 1 ] || fail "steps of another size on other ranks"

# The disk is full for metrics.jsonl: the lines are missing, nothing else.
rm -rf full
( trap '' XFSZ; ulimit -f 60; exec "$ZERO" train --new gpt2:layers=1,heads=1,width=16,context=16 --data "$TEXT" --threads 1 --quiet --micro-batch 1 --ranks 1 --steps 150 --eval-every 75 --out full >out.txt 2>err.txt ) || fail "a full disk ends the run: $(cat err.txt)"
grep -q 'has no line in metrics.jsonl' err.txt && [ -f full/model/model.safetensors ] || fail "nothing is said of lines that are missing"
python3 -c 'import json; n = [json.loads(l) for l in open("full/metrics.jsonl")]; assert 20 < len(n) < 150' || fail "half a line"

# Asked to end while it evaluates, it saves at once, and evaluates when it goes on.
for i in $(seq 12); do cat "$TEXT"; done >long.txt
SLOW="--new $TINY --data $TEXT --val long.txt --threads 1 --quiet --micro-batch 2 --ranks 2 --steps 6 --save-every 3"
expect 0 "$ZERO" train $SLOW --eval-every 3 --out slow
for _ in 1 2 3 4 5; do # until it is asked in time
    rm -rf asked
    "$ZERO" train $SLOW --eval-every 3 --out asked >out.txt 2>err.txt &
    parent=$!
    for _ in $(seq 1000); do [ "$(steps_of asked)" -ge 6 ] && break; sleep 0.005; done
    sleep 0.02
    kill -TERM $parent 2>/dev/null
    code=0
    { wait $parent; } 2>/dev/null || code=$?
    [ $code -eq 0 ] || break
done
[ $code -eq 75 ] && grep -q 'after step 6 of 6; saved' err.txt || fail "asked to end while it evaluates: $code, $(cat err.txt)"
expect 0 "$ZERO" train $SLOW --eval-every 3 --out asked --resume
same slow asked

# Asked to end by a step that is to be evaluated, it saves first: the evaluation is owed, and made when it goes on.
expect 0 "$ZERO" train $SLOW --eval-every 1 --out each
got=0
SLURM_JOB_END_TIME=$(($(date +%s) + 55)) "$ZERO" train $SLOW --eval-every 1 --out owing >out.txt 2>err.txt || got=$?
[ $got -eq 75 ] && grep -q 'after step 1 of 6; saved' err.txt && ! grep -q val_loss owing/metrics.jsonl || fail "the end of an allocation before an evaluation: $got, $(cat err.txt)"
expect 0 "$ZERO" train $SLOW --eval-every 1 --out owing --resume
same each owing

# Started again because a rank has died, --overwrite still replaces what another run left, and never what its own attempts wrote.
cp -r unbroken old
"$ZERO" run --ranks 2 --restarts 1 sh -c 'if [ $ZERO_RESTART = 0 ]; then kill -KILL $$; fi; exec "$@"' sh "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $COMMON --steps 20 --save-every 5 --out old --overwrite 2>err.txt || fail "replaced at the second attempt: $(cat err.txt)"
[ "$(steps_of old)" -eq 20 ] && [ "$(tail -1 old/metrics.jsonl | grep -o '"step":[0-9]*')" = '"step":20' ] || fail "went on with the run that it should replace"

refused 78 "is of step 30, this run ends after step 10" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $COMMON --ranks 2 --steps 10 --out unbroken --resume
refused 78 "gradient_accumulation_steps 8 cannot make them" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $COMMON --ranks 1 --accumulation 8 --steps 30 --out unbroken --resume
refused 64 "--resume and --overwrite are both given" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet $RUN --out out --resume --overwrite
refused 78 "seed 5" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --micro-batch 2 --ranks 2 --steps 30 --seed 6 --out unbroken --resume
echo "a run that is killed goes on to the same bytes"

# Where nobody says a window, a run goes on with the one that it was begun with.
train --steps 1 --seq 16 --val none --out narrow
train --steps 2 --val none --out narrow --resume
