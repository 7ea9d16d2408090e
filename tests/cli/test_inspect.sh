#!/usr/bin/env bash
# zero inspect says what a path is, sums its tensors, and finds every damage.
. "$(dirname "$0")/lib.sh"

train --micro-batch 2 --seed 5 --steps 8 --save-every 4 --out run
train --micro-batch 2 --seed 5 --steps 12 --save-every 4 --out run --resume

expect 0 "$ZERO" inspect run --verify
for words in "run: run" "last step  12" "checkpoints 12 8" "step-00000012: checkpoint, step 12, gpt2 of 2 layers, width 32" "AdamW after 12 updates" "went on from step 8" \
             "by libzero" "of 32 tokens; seed 5" "every checksum agrees" "wte.weight"; do
    grep -qF -- "$words" out.txt || fail "nothing of \"$words\": $(head -12 out.txt)"
done
expect 0 "$ZERO" inspect run/model run/checkpoints/step-00000008 run/model/model.safetensors
[ "$(grep -c '^in all' out.txt)" = 3 ] && grep -q "checkpoint, step 8" out.txt && [ "$(grep -c 'no checksums' out.txt)" = 0 ] || fail "$(cat out.txt)"

# A model of a run has its checksum in the receipt beside it.
expect 0 "$ZERO" inspect run --verify
grep -q '^verify     model: .* every checksum agrees' out.txt || fail "the model is not looked at: $(cat out.txt)"
cp -r run harmed && flip harmed/model/model.safetensors 5000
expect 65 "$ZERO" inspect harmed --verify
grep -q '^DAMAGED .*harmed/model/model.safetensors' out.txt && grep -q 'is damaged in 1 place' err.txt || fail "a harmed model: $(cat out.txt err.txt)"

# Sums are the tensors'.
expect 0 "$ZERO" inspect run/model --sums --json
python3 - <<'PY' || fail "sums are wrong"
import json, math, struct
report = json.load(open("out.txt"))
data = open("run/model/model.safetensors", "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
def crc32c(bytes):
    crc = 0xFFFFFFFF
    for byte in bytes:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
tensors = report["vectors"][0]["tensors"]
assert report["kind"] == "safetensors" and len(tensors) == len(header) - 1 == 28
for tensor in tensors:
    entry, sums = header[tensor["name"]], tensor["sums"]
    begin, end = (8 + length + o for o in entry["data_offsets"])
    x = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    assert tensor["shape"] == entry["shape"] and sums["min"] == min(x) and sums["max"] == max(x) and sums["nan"] == sums["infinite"] == 0
    assert math.isclose(sums["mean"], sum(x) / len(x), abs_tol=1e-9) and math.isclose(sums["rms"], math.sqrt(sum(v * v for v in x) / len(x)), rel_tol=1e-9)
    if len(x) <= 128:
        assert sums["crc32c"] == crc32c(data[begin:end])
PY

# Damage: all of it is listed, with file, tensor and bytes; what is cut, missing, or of the manifest too.
AT=run/checkpoints/step-00000012
cp -r run/checkpoints/step-00000012 whole
for place in 5000 60000; do flip $AT/exp_avg.safetensors $place; done
expect 65 "$ZERO" inspect $AT --verify
[ "$(grep -c '^DAMAGED .*exp_avg.safetensors" is damaged: .*, [0-9]* bytes at [0-9]*, has the checksum' out.txt)" = 2 ] || fail "$(grep DAMAGED out.txt)"
grep -q "is damaged in 2 places" err.txt || fail "$(cat err.txt)"
expect 0 "$ZERO" inspect $AT
truncate -s 100 $AT/exp_avg.safetensors
expect 0 "$ZERO" inspect run
grep -q "checkpoints 12 (not intact) 8" out.txt || fail "a file that is too short makes no checkpoint less whole: $(head -5 out.txt)"
rm $AT/exp_avg_sq.safetensors
expect 65 "$ZERO" inspect $AT --verify --sums
[ "$(grep -c '^DAMAGED' out.txt)" = 2 ] || fail "$(grep DAMAGED out.txt)"
flip $AT/manifest.json 40
expect 65 "$ZERO" inspect $AT
expect 0 "$ZERO" inspect run
grep -q "checkpoints 12 (not intact) 8" out.txt && grep -q "checkpoint, step 8" out.txt || fail "$(head -5 out.txt)"
expect 65 "$ZERO" inspect whole $AT run/model --verify # the others are looked at all the same
[ "$(grep -c '^in all' out.txt)" = 2 ] || fail "$(cat out.txt)"

# Of a run, damage in any checkpoint that is kept counts, also where another one is intact.
expect 65 "$ZERO" inspect run --verify
grep -q '^DAMAGED .*step-00000012' out.txt && grep -q 'checkpoint, step 8' out.txt && grep -q '"run" is damaged in 1 place: .*step-00000012' err.txt || fail "a damaged manifest: $(head -9 out.txt)"
rm -r $AT && cp -r whole $AT
expect 0 "$ZERO" inspect run --verify
grep -q '^verify     step 8: .*every checksum agrees' out.txt || fail "nothing of step 8: $(head -6 out.txt)"
flip run/checkpoints/step-00000008/exp_avg.safetensors 5000
expect 65 "$ZERO" inspect run --verify
grep -q '^DAMAGED .*step-00000008.*has the checksum' out.txt && grep -q '^verify .*every checksum agrees' out.txt || fail "damage of an older one: $(head -9 out.txt)"
expect 65 "$ZERO" inspect run --verify --json
python3 - <<'PY' || fail "the report of a run: $(cat out.txt)"
import json
run = json.load(open("out.txt"))
newest, older = run["checkpoints"]
assert newest["step"] == 12 and "verify" not in newest and not run["newest"]["verify"]["damaged"]
assert older["step"] == 8 and len(older["verify"]["damaged"]) == 1
PY
cp whole/exp_avg.safetensors kept && truncate -s -5000 $AT/exp_avg.safetensors
expect 65 "$ZERO" inspect run --verify
grep -q 'is damaged in 2 places' err.txt && grep -q '^DAMAGED .*step-00000012/exp_avg.safetensors' out.txt || fail "a short file: $(cat err.txt)"

# Each kind of damage has its words, and none hides another: a header, a tensor of the same file, a size, a file that is not there.
cp -r whole hurt
for place in 20 5000; do flip hurt/weights.safetensors $place; done
echo >>hurt/exp_avg.safetensors
rm hurt/exp_avg_sq.safetensors
said=$(stat -c %s whole/exp_avg.safetensors)
expect 65 "$ZERO" inspect hurt --verify
for words in 'hurt/weights.safetensors" is damaged: the header, [0-9]* bytes at 0, has the checksum [0-9a-f]*, written was [0-9a-f]*$' \
             'hurt/weights.safetensors" is damaged: h.0.attn.c_attn.weight, [0-9]* bytes at [0-9]*, has the checksum' \
             "hurt/exp_avg.safetensors\" has $((said + 1)) bytes, the manifest says $said\$" \
             'cannot open "hurt/exp_avg_sq.safetensors": No such file'; do
    [ "$(grep -c "^DAMAGED .*$words" out.txt)" = 1 ] || fail "not told once: $words; but: $(grep DAMAGED out.txt)"
done
[ "$(grep -c '^DAMAGED' out.txt)" = 4 ] && grep -q 'is damaged in 4 places' err.txt || fail "$(cat out.txt err.txt)"

refused 64 "usage: zero inspect" "$ZERO" inspect
refused 74 "is not there" "$ZERO" inspect nowhere
mkdir empty
refused 74 "no model.safetensors" "$ZERO" inspect empty
echo "inspect names what is there and what is damaged"
