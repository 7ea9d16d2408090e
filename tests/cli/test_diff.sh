#!/usr/bin/env bash
# zero diff: runs and tensors that are the same are said to be, and of others the first step and tensor that differ.
. "$(dirname "$0")/lib.sh"
RUN="--micro-batch 2 --steps 12 --save-every 4 --keep 0"
as_json() { # as_json CODE A B: the answer about A and B is in out.txt; as JSON it has the same lines
    mv out.txt said.txt
    expect "$1" "$ZERO" diff "$2" "$3" --json
    python3 - "$2" "$3" <<'PY' || fail "of $2 $3 as JSON: $(cat out.txt), as text: $(cat said.txt)"
import json, sys
answer, said = json.load(open("out.txt")), []
words = {"step": "step %s", "checkpoint": "the checkpoint of step %s", "model": "the model", "tensors": "the tensors", "checkpoints": "checkpoints"}
def value(v): return "none" if v is None else json.dumps(v)
for d in answer["differences"]:
    what = words.get(d["part"], "")
    what = what % d["step"] if "%s" in what else what
    tensor = "%s: %s \"%s\"" % (what, d["vector"], d["tensor"]) if "tensor" in d else what
    if "ended" in d: line = "the same up to step %d, where %s ends" % (d["step"], d["ended"])
    elif "only_in" in d: line = tensor + (" are" if what == "checkpoints" else " is") + " only in " + d["only_in"]
    elif "other_tensors" in d: line = "%s: %d other tensors differ" % (what, d["other_tensors"])
    elif "largest" in d: line = "%s differs in %s of %s elements, first at %d, by %.3g at most" % (tensor, "{:,}".format(d["differing"]), "{:,}".format(d["elements"]), d["first"], d["largest"])
    elif "apart" in d: line = "%s: %s ~ and ~, apart by %.3g" % (what, d["field"], d["apart"])
    else: line = "%s: %s %s and %s" % (what, d["field"], value(d["a"]), value(d["b"]))
    if "apart" in d: assert abs(d["a"] - d["b"]) == d["apart"] > 0
    said.append(line)
assert [answer["a"], answer["b"]] == sys.argv[1:] and answer["identical"] == (not said)
assert answer["compared"] == ("runs" if "steps" in answer else "tensors")
if answer["identical"]:
    count = "{:,} steps".format(answer["steps"]) if "steps" in answer else "{:,} tensors".format(answer["tensors"])
    keeper = answer.get("checkpoints_only_in")
    said = ["identical metrics, %s; no tensors to compare" % count if not answer["tensors"] else
            "identical, %s" % count + ("; checkpoints are only in " + keeper if keeper else "")]
lines = open("said.txt").read().splitlines()
assert len(lines) == len(said)
for line, expected in zip(lines, said):
    head, apart, tail = expected.partition("~ and ~")
    assert line.startswith(head) and line.endswith(tail) and (apart or line == expected), (line, expected)
PY
}
differ() { # differ WORDS A B: ends with 1 and says so
    local words=$1
    shift
    expect 1 "$ZERO" diff "$@"
    grep -qE "$words" out.txt || fail "of $*: $(cat out.txt)"
    as_json 1 "$@"
}
train $RUN --seed 5 --ranks 2 --stage 1 --out a
train $RUN --seed 5 --ranks 2 --stage 3 --out b
expect 0 "$ZERO" diff a b
[ "$(cat out.txt)" = "identical, 12 steps" ] || fail "$(cat out.txt)"
expect 0 "$ZERO" diff a/checkpoints/step-00000008 b/checkpoints/step-00000008
expect 0 "$ZERO" diff a/model b/model/model.safetensors

# One number, deep inside: the step of a line, the tensor of a model and how far.
cp -r b c
python3 - <<'PY'
import json, struct
lines = [json.loads(l) for l in open("c/metrics.jsonl")]
at = [i for i, l in enumerate(lines) if l["step"] == 7 and "loss" in l][0]
lines[at]["loss"] += 0.5
open("c/metrics.jsonl", "w").write("".join(json.dumps(l) + "\n" for l in lines))
path = "c/model/model.safetensors"
data = bytearray(open(path, "rb").read())
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
first = 8 + n + header["transformer.h.1.ln_1.weight"]["data_offsets"][0] + 4 * 3
value = struct.unpack("<f", data[first:first + 4])[0]
data[first:first + 4] = struct.pack("<f", value + 0.25)
open(path, "wb").write(data)
PY
differ '^step 7: loss .* apart by 0.5$' a c
differ '^the model: weights "transformer.h.1.ln_1.weight" differs in 1 of 32 elements, first at 3, by 0.25 at most$' a c
differ '^the tensors: weights "transformer.h.1.ln_1.weight" differs' a/model c/model
differ '^the tensors: step 8 and 12' a/checkpoints/step-00000008 a/checkpoints/step-00000012
train $RUN --ranks 2 --seed 6 --out d
differ '^step 1: loss' a d
differ '^the checkpoint of step 4: seed 5 and 6' a d
train --micro-batch 2 --steps 6 --seed 5 --ranks 2 --out e
differ '^the same up to step|^step [0-9]+:' a e # fewer steps

# What one alone has is not taken for the same; checkpoints may be kept for other steps.
is() { # is CODE TEXT A B: ends with the code and says just that
    expect "$1" "$ZERO" diff "$3" "$4"
    [ "$(cat out.txt)" = "$2" ] || fail "of $3 $4: $(cat out.txt)"
    as_json "$1" "$3" "$4"
}
cp -r b f && rm -r f/checkpoints/step-00000008 && is 0 "identical, 12 steps" a f
rm -r f/checkpoints && is 0 "identical, 12 steps; checkpoints are only in a" f a
rm -r f/model && is 1 "the model is only in a" f a && is 1 "the model is only in a" a f
cp -r a g && rm -r g/model && is 1 "checkpoints are only in g" f g && is 1 "the model is only in a" g a
is 0 "identical metrics, 12 steps; no tensors to compare" f f
rm -r f/metrics.jsonl && : >f/metrics.jsonl && refused 65 'there is nothing to compare' "$ZERO" diff f f

refused 64 'is a run and "b/model" is none' "$ZERO" diff a b/model
mkdir h && cp -r a/checkpoints h && refused 74 'h/metrics.jsonl' "$ZERO" diff h a # a run, as zero inspect sees it
refused 64 'two paths' "$ZERO" diff a
refused 74 '"nowhere" is not there' "$ZERO" diff nowhere a/model
flip b/checkpoints/step-00000004/exp_avg.safetensors 5000
refused 65 'exp_avg.safetensors" is damaged' "$ZERO" diff a b
refused 65 'exp_avg.safetensors" is damaged' "$ZERO" diff a b --json
[ ! -s out.txt ] || fail "half an answer: $(cat out.txt)"
echo "two runs are one, or it is said where they part"
