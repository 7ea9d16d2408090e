#!/usr/bin/env bash
# Pipelines as a user sees them: what a run says of its stages, plans and drawings, messages and memory as planned, timelines and tables; what is
# left out, and what is refused.
. "$(dirname "$0")/lib.sh"
LLAMA=llama:layers=6,heads=4,kv_heads=2,width=32,inner=64,context=32,tied=0,vocab=257
run() { # run NAME OPTION...
    expect 0 "$ZERO" train --new $LLAMA --data "$TEXT" --threads 1 --micro-batch 1 --val none --out "$1" "${@:2}"
}

# A run says who has what, how long the bubble is and how even the stages are; samples are left out, with a line.
run zb --ranks 4 --pipeline 2 --tensor 2 --schedule zb-h1 --accumulation 4 --steps 2 --sample-every 1 --explain
cat out.txt err.txt >said.txt
grep -qE '^pipeline zb-h1, 2 pipeline stages, 4 micro-batches in flight: bubble [0-9]+%, largest pipeline stage 1\.[0-9]+ x the mean$' said.txt ||
    fail "the pipeline is not said: $(grep '^pipeline' said.txt)"
grep -qE '^         pipeline stage 0: embedding, layers.0 to layers.[23] \([0-9]+%\)$' said.txt || fail "stage 0: $(cat said.txt)"
grep -qE '^         pipeline stage 1: layers.[34] to layers.5, head \([0-9]+%\)$' said.txt || fail "stage 1: $(cat said.txt)"
grep -q '^         backward in one part: embedding, head; zb-h1 fills' said.txt || fail "units whose backward is one are not told"
grep -qE '^memory   of a rank of pipeline stage [01], which needs most, planned: [0-9.]+ [kM]B' said.txt || fail "memory: $(grep ^memory said.txt)"
[ "$(grep -c -- '--sample-every is left out: no rank of a pipeline has all units' said.txt)" -eq 1 ] || fail "samples"
grep -q 'a sample' said.txt && fail "a sample was made"

# Messages by group add up to all of them, also where nothing is split over tensor ranks; and they, the memory and the ranks are those of the plan.
run two --ranks 4 --pipeline 2 --accumulation 4 --steps 1 --stage 2 --quiet
expect 0 "$ZERO" plan --new $LLAMA --ranks 4 --pipeline 2 --micro-batch 1 --accumulation 4 --json
python3 - <<'PY' || fail "groups, or the plan"
import json
for name, tensor in (("zb", True), ("two", False)):
    line = json.loads(open(name + "/metrics.jsonl").readline())
    groups, sums = line["groups"], {}
    assert groups["pipeline"]["send"]["bytes"] > 0 and bool(groups["tensor"]) == tensor, groups
    for group in groups.values():
        for op, count in group.items():
            for key, number in count.items():
                sums.setdefault(op, {}).setdefault(key, 0)
                sums[op][key] += number
    assert sums == line["comm"], (sums, line["comm"])
row = [r for r in json.load(open("out.txt"))["rows"] if r["stage"] == 2][0]
stages = row["pipeline"]["stages"]
bytes_of = lambda group: sum(c["bytes"] for op, c in groups[group].items() if op != "recv")
assert row["pipeline"]["schedule"] == "1f1b" and len(stages) == 2
assert stages[0]["bytes"] == {k: v["held"] for k, v in line["mem"].items()}, (stages[0], line["mem"])
assert stages[0]["messages"]["data"]["bytes"] == bytes_of("data"), (stages[0]["messages"], groups)
assert stages[0]["messages"]["pipeline"] == {"calls": 4, "bytes": bytes_of("pipeline")}
assert [s["first_rank"] for s in stages] == [0, 2] and abs(sum(s["share"] for s in stages) - 1) < 1e-3
assert [s["sets"] for s in stages] == [[2], [1]] and row["total"] == max(s["total"] for s in stages)
assert sum(s["parameters"] for s in stages) == json.load(open("out.txt"))["parameters"]
PY

# A row is of the stage that needs most, which need not be the first.
expect 0 "$ZERO" plan --new $LLAMA --ranks 4 --pipeline 2 --split 0,2 --micro-batch 1 --accumulation 4 --json
python3 - <<'PY' || fail "the largest stage"
import json
for row in json.load(open("out.txt"))["rows"]:
    totals = [stage["total"] for stage in row["pipeline"]["stages"]]
    assert totals[1] > totals[0] and row["total"] == totals[1], totals
    assert row["bytes"] == row["pipeline"]["stages"][1]["bytes"]
PY

# The table has a line a stage, the command goes back into a run, and a thousand ranks are planned at once.
expect 0 "$ZERO" plan --new $LLAMA --ranks 4 --pipeline 2 --schedule interleaved:2 --accumulation 4 --memory 12MB
grep -qE '^ +1 +2 to 3 +[0-9]+% .*  layers.[0-9]( to layers.[0-9])?; layers.[0-9]' out.txt || fail "no line of stage 1: $(cat out.txt)"
grep -q -- '--pipeline 2 --schedule interleaved:2' out.txt || fail "the command: $(tail -1 out.txt)"
expect 0 "$ZERO" plan --new gpt2 --pipeline 4
grep -q 'gradient_accumulation_steps 16 instead of 1 would leave' out.txt || fail "no hint: $(cat out.txt)"
grep -q '^most of all: a rank of pipeline stage 0' out.txt || fail "which stage needs most: $(cat out.txt)"
begin=$(date +%s%N)
expect 0 "$ZERO" plan --new gpt2:layers=46,heads=16,width=1024,context=256 --ranks 1024 --pipeline 32 --tensor 2 --accumulation 64
[ "${ZERO_TEST_SAMPLE:-no}" = yes ] || [ $((($(date +%s%N) - begin) / 1000000)) -lt 5000 ] || fail "1,024 ranks take long"
[ "$(grep -cE '^ +[0-9]+ +[0-9]+ to [0-9]+ +[0-9]+%' out.txt)" -eq 32 ] || fail "32 stages: $(cat out.txt)"
grep -qE '^ +31 +992 to 1023 ' out.txt || fail "the last ranks: $(cat out.txt)"

# The schedule is drawn, for any model; without a pipeline the drawing is a micro-batch's; the program is of the first stage.
expect 0 "$ZERO" plan --new gpt2 --pipeline 4 --schedule zb-h1 --accumulation 8 --draw schedule.svg
python3 -c 'import xml.etree.ElementTree as t; t.parse("schedule.svg")' || fail "no drawing"
grep -q 'pipeline stage 3' schedule.svg && grep -q 'weight of micro-batch 7, chunk 0' schedule.svg || fail "what is drawn"
# The drawings of docs/parallelism.md are what its command draws.
drawn=$(grep '^zero plan .* --schedule 1f1b --draw pipeline-1f1b.svg$' "$HERE/../../docs/parallelism.md")
for schedule in gpipe 1f1b interleaved zb-h1; do
    command=${drawn//1f1b/$schedule}
    # shellcheck disable=SC2086 # a line of words
    expect 0 "$ZERO" ${command#zero }
    cmp pipeline-$schedule.svg "$HERE/../../docs/pipeline-$schedule.svg" || fail "docs/pipeline-$schedule.svg is not what this draws: $command"
done
expect 0 "$ZERO" plan --new gpt2 --pipeline 4 --accumulation 8 --draw -
grep -qE '^1f1b, 4 pipeline stages, 8 micro-batches: [0-9.]+ times as long as a micro-batch on one rank, bubble [0-9.]+%$' out.txt || fail "letters: $(head -3 out.txt)"
grep -qE '^pipeline stage 0  0123.*  [0-9.]+% bubble, holds 4 micro-batches$' out.txt || fail "letters: $(cat out.txt)"
expect 0 "$ZERO" plan --new $TINY --draw -
grep -q 'bubble' out.txt && fail "a drawing without a pipeline has changed"
expect 0 "$ZERO" plan --new $LLAMA --pipeline 2 --accumulation 4 --program
if ! grep -q 'this is pipeline stage 0' out.txt || ! grep -q '^forward of chunk 0: ' out.txt || grep -qE '^(micro-batch|total|ties): ' out.txt; then
    fail "program: $(head -5 out.txt)"
fi

# A timeline has a lane a rank and its actions; the tables work, and say of which stage they are.
cat >four.json <<'EOF'
{"steps_per_print": 1, "wall_clock_breakdown": true, "memory_breakdown": true, "flops_profiler": {"enabled": true, "profile_step": 2},
 "comms_logger": {"enabled": true}}
EOF
for schedule in interleaved:2 zb-h1; do
    run timed --ranks 2 --pipeline 2 --schedule $schedule --accumulation 4 --steps 2 --config four.json --profile trace.json --overwrite
    python3 - $schedule <<'PY' || fail "the timeline of $schedule"
import json, sys
events = json.load(open("trace.json"))["traceEvents"]
lanes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
assert lanes == {0: "rank 0, pipeline stage 0", 1: "rank 1, pipeline stage 1"}, lanes
zb = sys.argv[1] == "zb-h1"
for rank, units in ((0, {"embedding", "layers.0"}), (1, {"head", "layers.5"})):
    spans = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
    phases = [e for e in spans if e["cat"] == "phases"]
    parts = ("forward", "backward", "weight") if zb else ("forward", "backward")
    chunks = ("",) if zb else (", chunk 0", ", chunk 1")
    assert {e["name"] for e in phases} == {"step"} | {f"{part} {k}{c}" for part in parts for k in range(4) for c in chunks}, phases
    turns = [e for e in spans if e["cat"] == "unit"]
    assert units <= {e["name"] for e in turns}, turns
    inside = lambda e, p: p["ts"] <= e["ts"] + 1e-6 and e["ts"] + e["dur"] <= p["ts"] + p["dur"] + 1e-6
    assert all(any(inside(t, p) for p in phases) for t in turns)
    assert any(e["name"] == "send" and e["args"]["bytes"] > 0 for e in spans)
PY
    for want in '^time     step 2 of pipeline stage 0: ' '^memory   step 1 of pipeline stage 0, planned' \
        '^comm     messages of 2 steps of rank 0 of pipeline stage 0' '^comm     send ' \
        '^flops    step 2 of rank 0 of 2: .* of them in this rank.s part, in [0-9]+ units of pipeline stage 0'; do
        grep -qE "$want" out.txt || fail "the tables of $schedule: no $want"
    done
done
# A profile of a pipeline is a profile, which a later one may replace.
run timed --ranks 1 --steps 1 --quiet --profile trace.json --overwrite

expect 0 "$ZERO" bench step --new $LLAMA --pipeline 2 --ranks 2 --accumulation 2 --micro-batch 1 --threads 1 --seconds 0.001
grep -qE '^pipeline 1f1b, 2 pipeline stages, 2 micro-batches in flight.*numbers of a rank are of pipeline stage 0$' out.txt || fail "bench step: $(cat out.txt)"

# Refusals name the numbers, and what would do.
echo '{"libzero": {"offload": "auto"}}' >auto.json
refused 78 'chooses one place for the states of a whole model, and with --pipeline 2' \
    "$ZERO" plan --new $LLAMA --ranks 2 --pipeline 2 --config auto.json
refused 64 '3 ranks are no multiple of --pipeline 2: --ranks 2 or 4' "$ZERO" plan --new $LLAMA --ranks 3 --pipeline 2
refused 78 'at most 8 pipeline stages' "$ZERO" plan --new $LLAMA --pipeline 9 --accumulation 9
refused 78 '2 or 4 would do, or 1f1b' "$ZERO" plan --new $LLAMA --pipeline 2 --schedule interleaved:2 --accumulation 3
"$ZERO" plan --new gpt2:layers=4,heads=4,width=64,context=32 --ranks 2 --pipeline 2 --program >program.txt 2>/dev/null || fail "--program of a pipeline"
grep -q 'SEND .* link activations h.1 to h.2' program.txt && grep -q 'TIE add sum .* link sums head to embedding' program.txt || fail "links have no names in the program"
echo pipelines
