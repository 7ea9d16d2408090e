#!/usr/bin/env bash
# What is known of a network: zero bench comm over two machines teaches it, zero plan and zero train predict by it, and runs teach it, too.
# Bytes and signs are checked, no speed.
. "$(dirname "$0")/lib.sh"
. "$HERE/two_machines.sh"
command -v tc >/dev/null || skip "there is no tc(8)"
on $a tc qdisc add dev wire root tbf rate 1gbit burst 100kb latency 500ms 2>err.txt || skip "$(cat err.txt)"
on $a tc qdisc delete dev wire root
model=(--new gpt2:layers=2,heads=2,width=64,context=32,vocab=256)
pair=(-n 2 --map-by ppr:1:node --host 10.77.0.1:1,10.77.0.2:1 -x XDG_CACHE_HOME)
echo '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2, "overlap_comm": false}}' >apart.json

# Of a network that nobody has measured nothing is predicted, and what measures it is said.
expect 0 "$ZERO" plan "${model[@]}" --config apart.json --ranks 2 --machines 2 --predict
grep -q 'ranks exchange over a network that nobody has measured: mpirun ... zero bench comm does' out.txt || fail "a plan over an unknown network: $(cat out.txt)"

# book NAME RATE: what bench comm teaches of a wire of that rate, and the exchange of a step that follows.
book()
{
    for machine in $a $b; do on $machine tc qdisc replace dev wire root tbf rate "$2" burst 100kb latency 500ms; done
    export XDG_CACHE_HOME=$WORK/$1
    mkdir -p "$1" && cp -r "$WORK/.cache/libzero" "$1"
    expect 0 "${ACROSS[@]}" "${pair[@]}" "$ZERO" bench comm --comm mpi --seconds 0.002
    expect 0 "$ZERO" doctor
    grep -q 'network, 2 machines of 1 rank: .*/s to a rank, latency' out.txt || fail "zero doctor says nothing of the network: $(cat out.txt)"
    expect 0 "$ZERO" plan "${model[@]}" --config apart.json --ranks 2 --machines 2 --json
    cp out.txt "$1.json"
    expect 0 "$ZERO" plan "${model[@]}" --config apart.json --ranks 2 --machines 2
    grep -q '^Stage 2 on 2 ranks of [0-9]* threads\? of machines like this one: a step takes' out.txt || fail "a plan over a network: $(cat out.txt)"
}
book fast 2gbit
book slow 100mbit
python3 - "$WORK" <<'PY' || fail "the books of two networks are not what their wires are"
import glob, json, sys
folder = sys.argv[1]
def links(name):
    path, = glob.glob(f"{folder}/{name}/libzero/rates-*.json")
    return [s for s in json.load(open(path))["settings"] if s.get("machines")]
def exchange(name, stage):
    return [r["step"]["parts"]["exchange"] for r in json.load(open(f"{folder}/{name}.json"))["rows"] if r["stage"] == stage][0]
for name in "fast", "slow":
    link, = links(name)
    assert (link["machines"], link["together"]) == (2, 1), link
    # Half of an operand of 64 KiB comes to each of two ranks, and twice that in an all-reduce.
    for what, bytes in ("reduce_scatter", 32768), ("all_gather", 32768), ("exchange", 65536):
        assert bytes in [s["bytes"] for s in link["samples"][what]], (what, link["samples"][what])
    assert [s["bytes"] for s in link["samples"]["all_reduce"]] == [1024, 8192]
    assert exchange(name, 3) > exchange(name, 2) > 0 # weights are gathered twice
assert exchange("slow", 2) > exchange("fast", 2), "a slower wire is no slower"
# No byte comes faster than the wire has it: 12.5 MB/s, but for what a burst lets through.
large = max(links("slow")[0]["samples"]["all_gather"], key=lambda s: s["bytes"])
assert large["bytes"] / large["seconds"] < 1.2 * 12.5e6, large
PY

# A training says what it expects, measures it, and adds to what is known of the network; not with --no-learn.
run()
{
    expect 0 "${ACROSS[@]}" "${pair[@]}" "$ZERO" train "${model[@]}" --config apart.json --data "$TEXT" --tokenizer bytes --threads 1 --val none \
        --steps 12 --no-final-checkpoint --comm mpi --out "$WORK/$1" "${@:2}"
}
run told --no-learn
grep -q 'predict  a step takes' out.txt err.txt || fail "a training over a network predicts nothing: $(cat out.txt err.txt)"
cp slow/libzero/rates-*.json before.json
run taught
XDG_CACHE_HOME=$WORK/empty run alone --no-learn
grep -q 'predict  nothing: ranks exchange over a network that nobody has measured; mpirun ... zero bench comm does' out.txt err.txt \
    || fail "a training over an unknown network: $(cat err.txt)"
python3 - <<'PY' || fail "what a run over a network teaches"
import glob, json
samples = lambda path: {s["bytes"] for book in json.load(open(path))["settings"] if book.get("machines") for s in book["samples"]["reduce_scatter"]}
step = [j for j in map(json.loads, open("taught/metrics.jsonl")) if "ms" in j][-1]["comm"]["reduce_scatter"]
more = samples(*glob.glob("slow/libzero/rates-*.json")) - samples("before.json")
# The pieces of a step are reduced once each, so no sum is larger, and the smallest ones are at least there.
assert more and 0 < max(more) <= step["network"] == step["bytes"], (more, step)
times = json.load(open("told/times.json"))[0]
assert times["parts"]["exchange"]["predicted"] > 0 and times["parts"]["exchange"]["measured"] > 0, times
assert json.load(open("alone/times.json"))[0]["step"]["predicted"] is None
before, after = ({k: v for k, v in json.load(open(p))["corrections"].items() if k in ("exchange", "evaluation", "step")} for p in ("before.json", *glob.glob("slow/libzero/rates-*.json")))
assert before == after, "a network was taken for memory"
PY
echo "a network is measured, predicted, and learnt"
