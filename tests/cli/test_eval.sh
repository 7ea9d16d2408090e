#!/usr/bin/env bash
# Evaluation and generation of a model that was trained here.
. "$(dirname "$0")/lib.sh"
train --tokenizer chars --steps 60 --lr 3e-3 --out run

expect 0 "$ZERO" eval --model run/model --data "$TEXT" --threads 1
head -1 out.txt | grep -qE '^loss [0-9]\.[0-9]{1,8}$' || fail "first line: $(head -1 out.txt)"
python3 - <<'PY' || fail "measures"
import math
m = dict((k, float(v)) for k, v in (line.split() for line in open("out.txt")))
assert list(m) == ["loss", "perplexity", "bits_per_byte"]
assert abs(m["perplexity"] / math.exp(m["loss"]) - 1) < 1e-6
assert abs(m["bits_per_byte"] - m["loss"] / math.log(2)) < 1e-6 # one byte a token here
assert m["loss"] < 3
PY
cp out.txt one.txt
expect 0 "$ZERO" run --ranks 3 "$ZERO" eval --model run/model --data "$TEXT" --threads 1
cmp out.txt one.txt || fail "three ranks measure something else than one"
for ranks in 2 3; do
    expect 0 "$ZERO" eval --model run/model --data "$TEXT" --threads 1 --ranks $ranks
    cmp out.txt one.txt || fail "--ranks $ranks measures something else than one rank"
done
# As JSON: the same measures, with all their digits, and what they were taken of. Nothing else is on standard output.
expect 0 "$ZERO" eval --model run --data "$TEXT" --threads 1 --ranks 2 --json
TEXT=$TEXT python3 - <<'PY' || fail "as JSON: $(cat out.txt)"
import json, os
m, text = json.load(open("out.txt")), [line.split() for line in open("one.txt")]
assert list(m) == ["loss", "perplexity", "bits_per_byte", "windows", "tokens", "bytes"]
assert [(k, "%.9g" % m[k]) for k, _ in text] == [(k, v) for k, v in text]
assert m["windows"] == (os.path.getsize(os.environ["TEXT"]) - 1) // 32 and m["bytes"] == m["tokens"] == 32 * m["windows"]
PY
refused 64 '3 ranks are no multiple of --tensor 2: --ranks 2 or 4' "$ZERO" eval --model run/model --data "$TEXT" --ranks 3 --tensor 2
refused 64 '--comm self is one rank, --ranks says 2' "$ZERO" eval --model run/model --data "$TEXT" --ranks 2 --comm self
refused 74 'missing.txt' "$ZERO" eval --model run/model --data missing.txt --ranks 2
if ! command -v mpirun >/dev/null || ! "$ZERO" doctor | grep -q "^MPI *module found"; then
    echo "SKIPPED: ranks of MPI, because there is no mpirun or no module for it"
else
    expect 0 "${MPIRUN[@]}" -n 2 env ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 "$ZERO" eval --model run/model --data "$TEXT" --threads 1
    cmp out.txt one.txt || fail "under mpirun something else is measured"
fi
# A model that is cut into 2 slices has one loss, whoever computes them: each window counts once.
echo '{"libzero": {"exact_tensor": 2}}' >slices.json
expect 0 "$ZERO" eval --model run/model --data "$TEXT" --config slices.json --threads 1
mv out.txt whole.txt
for how in "2 --tensor 2" "4 --tensor 2" "2 --tensor 1" "2 --tensor 2 --sequence-parallel"; do
    expect 0 "$ZERO" eval --model run/model --data "$TEXT" --config slices.json --threads 1 --ranks $how
    cmp out.txt whole.txt || fail "--ranks $how measures something else than one rank"
done
expect 0 "$ZERO" eval --model run/model --data "$TEXT" --seq 16 --backend ref --threads 1
head -c 20 "$TEXT" >short.txt
refused 65 'fewer than the 33' "$ZERO" eval --model run/model --data short.txt --threads 1

expect 0 "$ZERO" generate --model run/model --tokens 100 --prompt "12 times" --seed 4 --threads 1
cp out.txt four.txt
head -c 8 out.txt | grep -q '12 times' || fail "the prompt"
[ "$(wc -m <out.txt)" -eq 109 ] || fail "$(wc -m <out.txt) characters"
expect 0 "$ZERO" generate --model run/model --tokens 100 --prompt "12 times" --seed 4 --threads 1
cmp out.txt four.txt || fail "the same seed gave another text"
expect 0 "$ZERO" generate --model run/model --tokens 100 --prompt "12 times" --seed 5 --threads 1
cmp -s out.txt four.txt && fail "another seed gave the same text"
expect 0 "$ZERO" generate --model run/model --tokens 60 --prompt "12 times" --temperature 0 --threads 1
cp out.txt greedy.txt
expect 0 "$ZERO" generate --model run/model --tokens 60 --prompt "12 times" --top-k 1 --seed 9 --threads 1
cmp out.txt greedy.txt || fail "top-k 1 is not greedy"
expect 0 "$ZERO" generate --model run/model --tokens 60 --prompt "12 times" --top-p 0.000001 --seed 9 --threads 1
cmp out.txt greedy.txt || fail "top-p near 0 is not greedy"
refused 65 'prompt' "$ZERO" generate --model run/model --prompt "Ω" --threads 1

# Tokens are bytes, characters of several bytes come whole.
python3 -c "print('äöü€ ' * 400)" >bytes.txt
expect 0 "$ZERO" train --new $TINY --data bytes.txt --val none --tokenizer bytes --threads 1 --steps 30 --lr 3e-3 --quiet --out bytes
expect 0 "$ZERO" generate --model bytes/model --tokens 80 --threads 1 --prompt "ä"
python3 -c "open('out.txt', encoding='utf-8').read()" || fail "broken characters"
echo "evaluated and generated"
