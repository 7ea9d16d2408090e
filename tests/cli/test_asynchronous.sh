#!/usr/bin/env bash
# Asynchronous pipelines as a user sees them: 2bw is a delayed update, pipedream goes on where it was and is verified; evaluation, saving and
# signals wait until the pipeline drains; what is said, measured, and refused.
. "$(dirname "$0")/lib.sh"
LLAMA=llama:layers=4,heads=2,width=32,inner=48,context=16,tied=0,vocab=257
OPTIMIZER='"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}'
ON_HOST='"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}'
FLUSH='"pipeline": {"flush_every": 3}'
echo "{$OPTIMIZER, $ON_HOST, \"libzero\": {\"delayed_update\": {\"start_step\": 1}}}" >delayed.json
echo "{$OPTIMIZER, \"libzero\": {$FLUSH}}" >two.json
echo "{$OPTIMIZER, \"gradient_clipping\": 0, \"libzero\": {$FLUSH}}" >dream.json
run() { # run NAME OPTION...
    expect 0 "$ZERO" train --new $LLAMA --data "$TEXT" --threads 1 --micro-batch 1 --accumulation 4 --seed 7 --out "$1" "${@:2}"
}
losses() { python3 - "$1" <<'PY'
import json, sys
print([(l["step"], l["val_loss"]) for l in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "val_loss" in l])
PY
}
same() { # same RUN RUN
    [ "$(fingerprint "$1")" = "$(fingerprint "$2")" ] || fail "$1 and $2 differ"
    [ "$(losses "$1")" = "$(losses "$2")" ] || fail "evaluations of $1 and $2 differ: $(losses "$1") $(losses "$2")"
}

# 2bw has the bits of the delayed update, evaluations included, on any grid; clipping bites. The last window is shorter.
run delayed --config delayed.json --steps 7 --eval-every 3 --quiet
run two --config two.json --steps 7 --eval-every 3 --ranks 2 --pipeline 2 --schedule 2bw --explain
cat out.txt err.txt >said.txt
same delayed two
python3 - <<'PY' || fail "nothing is clipped"
import json
assert max(json.loads(l).get("grad_norm", 0) for l in open("two/metrics.jsonl")) > 1.1
PY
for grid in $(sample "4,1,0 2,2,3" 4,1,0); do
    IFS=, read -r stages data zero <<<"$grid"
    [ "$data" -eq 1 ] || run delayed --config delayed.json --steps 7 --eval-every 3 --quiet --overwrite --ranks "$data"
    run other --config two.json --steps 7 --eval-every 3 --quiet --overwrite --ranks $((stages * data)) --pipeline "$stages" --schedule 2bw --stage "$zero"
    same delayed other
done

# A run says what it keeps and where it drains.
grep -qE '^pipeline 2bw, 2 pipeline stages, 4 micro-batches a step, drained every 3 steps: bubble [0-9]+% of these, largest' said.txt ||
    fail "the schedule is not said: $(grep ^pipeline said.txt)"
[ "$(grep -cE '^         pipeline stage [01]: .* \([0-9]+%\), 2 versions of its parameters$' said.txt)" -eq 2 ] || fail "versions: $(cat said.txt)"
grep -q '^exact    these bits at any number of pipeline stages under 2bw, and of a delayed update from step 1 on' said.txt || fail "bits: $(grep ^exact said.txt)"

# The messages of a window are in the line of its last step, and are what the plan has for each of its steps.
expect 0 "$ZERO" plan --new $LLAMA --ranks 2 --pipeline 2 --schedule 2bw --micro-batch 1 --accumulation 4 --config two.json --json
python3 - <<'PY' || fail "messages, or the plan"
import json
lines = [l for l in map(json.loads, open("two/metrics.jsonl")) if "loss" in l]
row = [r for r in json.load(open("out.txt"))["rows"] if r["stage"] == 0][0]
stages = row["pipeline"]["stages"]
assert row["pipeline"]["flush_every"] == 3
assert [(s["versions"], s["summed_steps"]) for s in stages] == [(2, 2), (2, 2)]
assert [s["sums"]["calls"] for s in stages] == [1, 1]
assert stages[0]["messages"]["pipeline"]["calls"] == 4 + 1
for line in lines:
    sent = line["groups"]["pipeline"].get("send", {"calls": 0, "bytes": 0})
    steps = {3: 3, 6: 3, 7: 1}.get(line["step"], 0)
    assert sent == {k: steps * stages[0]["messages"]["pipeline"][k] for k in sent}, (line["step"], sent)
assert stages[0]["bytes"] == {k: v["held"] for k, v in lines[0]["mem"].items()}
PY
echo '{"gradient_clipping": 0}' >unclipped.json
expect 0 "$ZERO" plan --new $LLAMA --pipeline 4 --schedule pipedream --accumulation 1 --config unclipped.json --micro-batch 1 --ranks 4
grep -qE '^ +2 +4 +1 ' out.txt && ! grep -qE '^ +3 +4 +1 ' out.txt || fail "ZeRO stages that pipedream has: $(cat out.txt)"
for stage in 0 1 2 3; do # after sets and slots
    grep -qE "^ +$stage +$stage +[0-9]+%.* +[0-9]+ +[0-9]+ +$((4 - stage)) +0 B " out.txt || fail "versions of pipeline stage $stage: $(cat out.txt)"
done

# pipedream: what was killed goes on from a drain as if nothing had been, and can be verified. Tables are of windows.
cat >tables.json <<END
{"gradient_clipping": 0, "libzero": {$FLUSH}, "steps_per_print": 2, "wall_clock_breakdown": true,
 "flops_profiler": {"enabled": true, "profile_step": 5}, "comms_logger": {"enabled": true}, "csv_monitor": {"enabled": true, "output_path": "csv"}}
END
run dream --config tables.json --steps 9 --save-every 3 --keep 9 --eval-every 0 --ranks 2 --pipeline 2 --schedule pipedream --profile trace.json --explain
cat err.txt >>out.txt
for want in '^exact    these bits on these 2 pipeline stages alone, drained every 3 steps' '^time     steps 1 to 3 of pipeline stage 0: ' '^time     steps 4 to 6 of pipeline stage 0: ' \
    '^flops    steps 4 to 6 of rank 0 of 2: ' '^comm     messages of 9 steps of rank 0 of pipeline stage 0' \
    '^comm     send +[1-9][0-9]* +36 ' '^profile  trace.json: steps 4 to 6 of 2 ranks'; do
    grep -qE "$want" out.txt || fail "the tables of windows: no $want in $(cat out.txt)"
done
python3 - <<'PY' || fail "the timeline, or the monitor"
import csv, glob, json
events = json.load(open("trace.json"))["traceEvents"]
phases = [e["name"] for e in events if e["ph"] == "X" and e["pid"] == 0 and e["cat"] == "phases"]
assert sorted(phases) == sorted([f"{p} {k}" for p in ("forward", "backward") for k in range(12)] + ["step 0", "step 1", "step 2"]), phases
line = [l["lr"] for l in map(json.loads, open("dream/metrics.jsonl")) if "loss" in l]
rates = [float(r[1]) for r in list(csv.reader(open(glob.glob("csv/**/*_lr.csv", recursive=True)[0])))[1:]]
times = [float(r[1]) for r in list(csv.reader(open(glob.glob("csv/**/*_ms_forward.csv", recursive=True)[0])))[1:]]
assert len(times) == 9 and times[0] == times[2] != times[3], times
assert rates[:-1] == line[1:] and rates[0] != rates[2], (rates, line) # of the next step, also inside of a window
PY
echo "{\"gradient_clipping\": 0, \"libzero\": {$FLUSH}}" >killed.json
run killed --config killed.json --steps 9 --save-every 3 --keep 9 --eval-every 0 --ranks 2 --pipeline 2 --schedule pipedream --quiet
rm -r killed/model killed/checkpoints/step-0000000[69]
run killed --config killed.json --steps 9 --save-every 3 --keep 9 --eval-every 0 --ranks 2 --pipeline 2 --schedule pipedream --quiet --resume
same dream killed
expect 0 "$ZERO" verify killed --from-step 3
grep -q '^confirmed: steps 4 to 9, replayed on 2 ranks' out.txt || fail "verify: $(cat out.txt)"
expect 0 "$ZERO" eval --model dream/model --data "$TEXT" --threads 1
expect 0 "$ZERO" generate --model dream/model --prompt "1 times" --tokens 4 --threads 1

# Which runs have whose bits: 2bw goes on with other pipeline stages and as a delayed update; pipedream is its own.
go_on() { run mixed --keep 9 --eval-every 0 --quiet --resume "$@"; }
if [ "$(sample all few)" = all ]; then
    go_on --steps 3 --config two.json --ranks 2 --pipeline 2 --schedule 2bw
    go_on --steps 6 --config delayed.json
    go_on --steps 9 --config two.json --ranks 2 --pipeline 2 --schedule 2bw
    expect 0 "$ZERO" verify mixed --from-step 3
    rm -r mixed
fi
go_on --steps 3 --config dream.json --ranks 2 --pipeline 2
go_on --steps 4 --config dream.json --ranks 2 --pipeline 2 --schedule pipedream
go_on --steps 8 --config dream.json --ranks 2 --pipeline 2 --schedule pipedream
refused 64 'was resumed from step 4, where pipedream had drained between two of every 3 steps' "$ZERO" verify mixed --from-step 3
go_on --steps 9 --config two.json --ranks 2 --pipeline 2 --schedule 2bw
refused 64 'was resumed in another way than step 8 was made: with pipedream then, with 2bw in its config.json' "$ZERO" verify mixed --from-step 4

# A skipped step in the middle of a window names no tensor, because its gradients are gone.
echo "{$OPTIMIZER, \"gradient_clipping\": 0, \"fp16\": {\"enabled\": true, \"loss_scale\": 16777216}, \"libzero\": {$FLUSH}}" >scaled.json
run skipped --config scaled.json --steps 3 --eval-every 0 --ranks 2 --pipeline 2 --schedule pipedream
cat out.txt err.txt >said.txt
grep -q '^step 1: .* is skipped, on the pipeline stages whose own norm is not; the first tensor that is not finite: no longer known$' said.txt ||
    fail "a skipped step: $(grep skipped said.txt)"
grep -q '^step 3: .*; the first tensor that is not finite: the gradient of ' said.txt || fail "the last step: $(grep skipped said.txt)"

# A signal is followed at the next drain.
"$ZERO" train --new $LLAMA --data "$TEXT" --threads 1 --micro-batch 1 --accumulation 4 --config two.json --ranks 2 --pipeline 2 --schedule 2bw \
    --steps 100000 --eval-every 0 --quiet --out stopped >out.txt 2>err.txt &
pid=$!
for ((i = 0; i < 300; i++)); do [ ! -s stopped/metrics.jsonl ] || break; sleep 0.1; done
kill -INT $pid
wait $pid; code=$?
[ $code -eq 75 ] || fail "a signal ends with $code: $(cat err.txt)"
step=$(ls stopped/checkpoints | sed -n 's/^step-0*//p')
[ $((step % 3)) -eq 0 ] && [ "$(tail -1 stopped/metrics.jsonl | python3 -c 'import json; print(json.loads(input())["step"])')" -eq "$step" ] ||
    fail "saved at step $step, which is no drain"

# A measured step is one of a window, and so is what the simulator says.
expect 0 "$ZERO" bench step --new $LLAMA --pipeline 2 --ranks 2 --accumulation 2 --micro-batch 1 --threads 1 --seconds 0.001 --schedule 2bw
grep -qE '^step .*median of 3 windows, by their steps' out.txt && grep -qE '^simulated .*step / simulated [0-9.]+$' out.txt || fail "bench step: $(cat out.txt)"
expect 0 "$ZERO" bench step --new $LLAMA --pipeline 2 --ranks 2 --accumulation 2 --micro-batch 1 --threads 1 --seconds 0.001 --schedule pipedream
grep -qE '^  update +[0-9.]+ ms$' out.txt || fail "bench step: $(cat out.txt)"

# Evaluation and saving elsewhere than at a drain are refused, before anything is read.
off() { refused 78 "$1" "$ZERO" train --new $LLAMA --data "$TEXT" --ranks 2 --pipeline 2 --schedule 2bw --accumulation 4 --config two.json --out out "${@:2}"; }
off '--save-every 4: with --schedule 2bw steps overlap, and only every 3 steps (libzero.pipeline.flush_every) the pipeline drains: 3 or 6 would do' --save-every 4
off '--eval-every 2: with --schedule 2bw steps overlap, and only every 3 steps (libzero.pipeline.flush_every) the pipeline drains: 3, or' --eval-every 2
echo asynchronous pipelines
