#!/usr/bin/env bash
# zero compare: what the plans say is what the trainings count; what cannot be is one line; nothing is left behind.
. "$(dirname "$0")/lib.sh"
export HOME=$WORK TMPDIR=$WORK/temporary XDG_CACHE_HOME=$WORK/cache
mkdir "$TMPDIR" nvme
MODEL=gpt2:layers=3,heads=2,width=32,context=32

# Two ranks, a text of its own, a directory for states.
expect 0 "$ZERO" compare --new $MODEL --ranks 2 --threads 1 --micro-batch 2 --accumulation 2 --steps 2 --path nvme --quiet --json --out tables.md
python3 - <<'PY' || fail "the answer: $(cat out.txt)"
import json
answer = json.load(open("out.txt"))
ways = {way["way"]: way for way in answer["ways"]}
assert answer["batch"] == 8 and answer["ranks"] == 2 and len(ways) == 9, answer
third = ways.pop("3D: data, tensor, pipeline")
assert "--ranks 8" in third["why"] and "measured" not in third, third
for name, way in ways.items():
    measured = way["measured"]
    assert "why" not in way, way
    assert way["micro_batch"] * way["accumulation"] * way["data"] == answer["batch"], way
    assert measured["steps"] == 6 and 0 < measured["low"] <= measured["seconds"] <= measured["high"], way
    assert measured["held"] == way["held"] and way["memory"] >= way["held"], way
    assert measured["exchanged"] == way["exchanged"] and sum(way["exchanged"].values()) > 0, way
    assert sum(way["network"].values()) > 0 and way["largest"]["parameters"] > 0, way
memory = [ways[name]["memory"] for name in ("data parallelism", "ZeRO stage 1", "ZeRO stage 3")]
assert memory == sorted(memory, reverse=True) and memory[0] > memory[2], memory
largest = {name: way["largest"]["parameters"] for name, way in ways.items()}
assert largest["ZeRO stage 3"] > largest["ZeRO stage 1"] > largest["data parallelism"], largest
assert largest["ZeRO stage 3, states on NVMe"] > largest["ZeRO stage 3"], largest
# Stages 0 to 2 exchange the same; stage 3 half as much again, where a step has one micro-batch: here it has two.
network = [ways[name]["network"]["data"] for name in ("data parallelism", "ZeRO stage 1", "ZeRO stage 2", "ZeRO stage 3")]
assert network[0] == network[1] == network[2] < network[3], network
PY
for heading in "Memory and speed" "Bytes of a step" "The largest model" Effort "What is missing"; do
    grep -q "^### $heading$" tables.md || fail "no $heading in: $(cat tables.md)"
done
[ -z "$(ls -A "$TMPDIR" nvme | grep -v :)" ] || fail "left behind: $(ls -A "$TMPDIR" nvme)"

# Four ranks: what a way cannot cut is its line, and the others are measured. They are not predicted where cores are fewer. A key without effect is
# a warning, with its reason where that is asked for; what the file says of places is not every way's.
four_ranks()
{
    echo '{"zero_allow_untested_optimizer": true, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}' >config.json
    expect 0 "$ZERO" compare --new gpt2:layers=2,heads=2,width=32,context=32 --data "$TEXT" --ranks 4 --threads 1 --micro-batch 1 --steps 1 \
        --config config.json --explain --quiet --json --out four.md
    grep -q zero_allow_untested_optimizer err.txt || fail "no reason: $(cat err.txt)"
    grep -q '^- tensor parallelism: .* 2 heads, .*--tensor 4' four.md || fail "tensor parallelism: $(tail -3 four.md)"
    grep -qE '^\| tensor and pipeline .* [0-9.]+ ms ' four.md || fail "no tensor and pipeline: $(cat four.md)"
    [ "$(nproc)" -ge 4 ] || grep -q '4 ranks share' four.md || fail "nothing of ranks that take turns: $(cat four.md)"
    python3 -c '
import json
ways = json.load(open("out.txt"))["ways"]
assert [way["stage"] for way in ways] == [0, 1, 2, 3, 0, 0, 0, 3], ways
assert all("measured" in way for way in ways if "why" not in way), ways
assert sum("why" in way for way in ways) == 1, ways' || fail "a file: $(cat out.txt)"
}
[ -z "$(sample all "")" ] || four_ranks

# A memory that is too small for all: plans, but no training.
expect 0 "$ZERO" compare --new $TINY --ranks 2 --memory 100KB --steps 1 --quiet
grep -q '^- data parallelism: does not fit: ' out.txt || fail "memory: $(cat out.txt)"

# Bad input.
refused 64 "neither --new nor --model" "$ZERO" compare --ranks 2
refused 64 "2 to 1024 ranks" "$ZERO" compare --new $TINY --ranks 1
refused 64 "1 to 83 steps" "$ZERO" compare --new $TINY --ranks 2 --steps 500
: >empty.txt
refused 64 "no way could be trained; data parallelism: " "$ZERO" compare --new $TINY --ranks 2 --quiet --steps 1 --data empty.txt
refused 64 'a launcher has started' env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "$ZERO" compare --new $TINY --ranks 2 --steps 1
echo '{"pipeline": {"stages": 2}}' >grid.json
refused 78 "chooses tensor ranks and pipeline stages itself" "$ZERO" compare --new $TINY --ranks 2 --config grid.json

# A signal ends it, with its trainings and its scratch.
"$ZERO" compare --new $TINY --ranks 2 --steps 50 >out.txt 2>err.txt &
for _ in $(seq 900); do grep -q '^round 1 of 3: ZeRO stage 1' err.txt && break; sleep 0.05; done
kill -INT $!
wait $! && fail "interrupted, and the exit code is 0"
grep -q 'signal 2' err.txt || fail "interrupted: $(cat err.txt)"
grep -q 'stopped before their end' out.txt || fail "what was measured before is lost: $(cat out.txt)"
[ -z "$(ls -A "$TMPDIR")" ] || fail "left behind: $(ls -A "$TMPDIR")"
