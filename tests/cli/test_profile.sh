#!/usr/bin/env bash
# Where a step's time goes: --profile writes a trace of all ranks, four keys of the configuration print tables; together they
# work from one recording, and neither changes a bit of the run nor leaves anything where it is not asked for.
. "$(dirname "$0")/lib.sh"

cat >four.json <<'EOF'
{"steps_per_print": 2, "wall_clock_breakdown": true, "memory_breakdown": true,
 "flops_profiler": {"enabled": true, "profile_step": 4, "recompute_fwd_factor": 0.5},
 "comms_logger": {"enabled": true, "verbose": true}}
EOF
common=(train --new $TINY --data "$TEXT" --val none --threads 1 --ranks 2 --micro-batch 2 --accumulation 2 --lr 1e-3)

cat >check_trace.py <<'EOF'
import json, sys
path, ranks, steps, accumulation = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
events = json.load(open(path))["traceEvents"]
names = {(e["pid"], e["tid"], e["name"]): e["args"]["name"] for e in events if e["ph"] == "M" and "name" in e["args"]}
tracks = ["phases", "compute", "communication"]
for rank in range(ranks):
    assert names[rank, 0, "process_name"] == f"rank {rank}"
    assert [names[rank, t, "thread_name"] for t in range(3)] == tracks
spans = [e for e in events if e["ph"] == "X"]
assert spans and all(e["dur"] >= 0 and e["ts"] >= 0 and e["pid"] < ranks for e in spans)
assert min(e["ts"] for e in spans) == 0
inside = lambda e, p: p["ts"] <= e["ts"] and e["ts"] + e["dur"] <= p["ts"] + p["dur"] + 1e-6
for rank in range(ranks):
    mine = [e for e in spans if e["pid"] == rank]
    phases = [e for e in mine if e["name"] in ("forward", "backward", "step") and e["cat"] == "phases"]
    count = {name: sum(e["name"] == name for e in phases) for name in ("forward", "backward", "step")}
    assert count == {"forward": steps * accumulation, "backward": steps * accumulation, "step": steps}, count
    for e in mine:
        assert e in phases or sum(inside(e, p) for p in phases) == 1, e
    turns = [e for e in mine if e["cat"] == "unit"]
    assert {"h.0", "h.1"} <= {e["name"] for e in turns}
    for e in mine:
        if e["cat"] == "compute" and "unit" in e["args"]:
            assert any(inside(e, t) and t["name"] == e["args"]["unit"] for t in turns), e
    products = [e for e in mine if e["name"] == "product"]
    assert products and all(e["tid"] == 1 and e["args"]["flops"] > 0 and e["args"]["bytes"] > 0 for e in products)
    assert any(e["name"] == "optimizer" for e in mine) and any(e["name"] == "attention" for e in mine)
    messages = [e for e in mine if e["cat"] == "communication"]
    assert ranks == 1 or messages and all(e["tid"] == 2 for e in messages)
    sums = [e for e in messages if e["name"] == "reduce_scatter"]
    assert ranks == 1 or {"h.0", "h.1"} <= {e["args"].get("slot") for e in sums}, sums
assert ranks == 1 or min(e["ts"] + e["dur"] for e in spans if e["pid"] == 0 and e["name"] == "step") > min(e["ts"] for e in spans if e["pid"] == 1)
EOF

for stage in 0 2 3; do
    expect 0 "$ZERO" "${common[@]}" --steps 6 --stage $stage --out plain --quiet --overwrite
    expect 0 "$ZERO" "${common[@]}" --steps 6 --stage $stage --out run --overwrite --config four.json --profile trace.json
    cp out.txt said.txt
    [ "$(fingerprint run)" = "$(fingerprint plain)" ] || fail "recording changed the run at stage $stage"
    python3 check_trace.py trace.json 2 3 2 || fail "the trace of stage $stage"
    grep -q '^profile  trace.json: steps 3 to 5 of 2 ranks' said.txt || fail "where the trace lies"
    N='[0-9]+\.[0-9]+'
    [ "$(grep -cE "^time     step [246]: $N ms; forward $N, backward $N \(reduce $N\), step $N \(norm $N, update $N, gather $N\); waiting for other ranks $N$" said.txt)" -eq 3 ] ||
        fail "lines of time: $(grep ^time said.txt)"
    [ "$(grep -c '^time ' said.txt)" -eq 3 ] || fail "steps_per_print is not followed"
    grep -qE "^memory   at start, planned/held MB: parameters $N/$N, .*total $N/$N; resident at most $N$" said.txt || fail "memory at start"
    [ "$(grep -cE '^memory   step [246], planned/held' said.txt)" -eq 3 ] || fail "lines of memory"
    grep -qE '^flops    step 4 of rank 0 of 2: [0-9]+ parameters in 4 units' said.txt || fail "the profiled step"
    grep -qE 'forward 0\.[0-9]+ GFLOP, backward 0\.[0-9]+ GFLOP \(0\.[0-9]+ of it counted as recomputed\)' said.txt || fail "flops in all"
    [ "$(grep -cE "^flops    (embedding|h.0|h.1|head) " said.txt)" -eq 4 ] || fail "flops by unit"
    grep -q '^comm     messages of 6 steps of rank 0' said.txt || fail "table of messages"
    grep -qE '^comm     reduce_scatter +[0-9]+ +[0-9]+ ' said.txt || fail "reduce_scatter in the table"
    grep -qE '^comm     reduce_scatter h\.1: [0-9]+ bytes' said.txt || fail "messages of the first step"
    rm trace.json
done

# Only what is asked for: operations, sums, a file, and the last steps of a short run.
cat >some.json <<'EOF'
{"flops_profiler": {"enabled": true, "detailed": false, "output_file": "flops.txt"}, "comms_logger": {"enabled": true, "prof_all": false, "prof_ops": ["all_reduce"]}}
EOF
expect 0 "$ZERO" "${common[@]}" --steps 2 --stage 2 --out run --overwrite --config some.json --profile run/trace.json
python3 check_trace.py run/trace.json 2 1 2 || fail "the trace of a short run"
grep -q '^comm     all_reduce ' out.txt && ! grep -q '^comm     reduce_scatter' out.txt || fail "prof_ops: $(grep ^comm out.txt)"
! grep -qE '^(time|flops) |at start' out.txt || fail "tables that nobody asked for"
grep -q 'step 1 of rank 0 of 2' flops.txt && [ "$(wc -l <flops.txt)" -eq 2 ] || fail "flops.txt: $(cat flops.txt)"
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --val none --threads 1 --dry-run --profile dry.json
python3 check_trace.py dry.json 1 1 1 || fail "the trace of a dry run"
expect 0 "$ZERO" "${common[@]}" --steps 2 --stage 2 --out run --overwrite
! grep -qE '^(time|flops|comm|profile) |at start' out.txt || fail "printed without being asked"

# A place that cannot be written is refused before the first step.
rm -rf run
expect 74 "$ZERO" "${common[@]}" --steps 2 --out run --quiet --profile /proc/nowhere/trace.json
grep -q '/proc/nowhere/trace.json' err.txt && [ ! -s run/metrics.jsonl ] || fail "$(cat err.txt)"
sed 's/flops.txt/nowhere\/flops.txt/' some.json >nowhere.json
expect 74 "$ZERO" "${common[@]}" --steps 2 --out run --overwrite --quiet --config nowhere.json
grep -q 'nowhere/flops.txt' err.txt || fail "$(cat err.txt)"

# Steps of a pipeline beside what the simulator makes of their chunks' times; its two pipeline stages have different products.
expect 0 "$ZERO" bench step --new llama:layers=3,heads=2,width=32,context=32,vocab=64,tied=0 --ranks 2 --pipeline 2 --threads 1 \
    --schedule interleaved:2 --accumulation 4 --micro-batch 1 --seconds 0.02
grep -qE '^pipeline +[0-9.]+ ms +bubble [0-9.]+%$' out.txt || fail "the bubble of a pipeline: $(cat out.txt)"
grep -qE '^simulated .* step / simulated [0-9.]+$' out.txt || fail "the simulated step: $(cat out.txt)"
[ "$(grep -cE '^  chunk [0-3] .*: forward [0-9.]+ ms, backward [0-9.]+ ms$' out.txt)" -eq 4 ] || fail "times of chunks: $(cat out.txt)"
echo "traces of two ranks at stages 0, 2 and 3; four tables; a pipeline beside its simulation"
