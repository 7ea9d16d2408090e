#!/usr/bin/env bash
# Mixed precision from the command line: the documents' fp16 file at every stage, --dtype, and what the metrics say.
. "$(dirname "$0")/lib.sh"
cat >seeds.json <<'J'
{"train_batch_size": 16, "gradient_accumulation_steps": 2, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16},
 "zero_optimization": {"stage": 2, "contiguous_gradients": true, "overlap_comm": true, "reduce_scatter": true, "reduce_bucket_size": 5e8, "allgather_bucket_size": 5e8},
 "steps_per_print": 2000, "wall_clock_breakdown": false}
J
run() { train --overwrite --seed 3 --val none "$@"; }

run --config seeds.json --ranks 2 --steps 6 --out two
for stage in 0 1 3; do
    sed "s/\"stage\": 2/\"stage\": $stage/" seeds.json >stage.json
    run --config stage.json --ranks 2 --steps 6 --out other
    [ "$(fingerprint other)" = "$(fingerprint two)" ] || fail "fp16: stage $stage differs from stage 2"
done
[ "$(grep '"loss"' two/metrics.jsonl | grep -c '"loss_scale":65536.0')" = 6 ] || fail "fp16: no loss_scale on every line"

# A scale that overflows at once: the step is skipped and says so; the next one has half of it.
echo '{"fp16": {"enabled": true, "initial_scale_power": 30, "hysteresis": 1}}' >large.json
run --config large.json --steps 3 --out skips
line=$(grep '"step":1,' skips/metrics.jsonl)
case $line in *'"grad_norm":null,"loss_scale":1073741824.0,"skipped":true'*) ;; *) fail "a skipped step's line: $line" ;; esac
grep -q '"step":2,.*"loss_scale":536870912.0' skips/metrics.jsonl || fail "the scale did not shrink after an overflow"

run --dtype bf16 --steps 3 --out half
grep -q '"loss_scale"' half/metrics.jsonl && fail "bf16 has a loss scale"
run --steps 3 --out single
[ "$(fingerprint half)" != "$(fingerprint single)" ] || fail "bf16 gives the bits of fp32"
for dtype in fp32 bf16 fp16; do
    "$ZERO" eval --model half/model --data "$TEXT" --dtype $dtype >eval.$dtype || fail "zero eval --dtype $dtype"
    "$ZERO" generate --model half/model --tokens 5 --dtype $dtype >/dev/null || fail "zero generate --dtype $dtype"
done
cmp -s eval.fp32 eval.bf16 && fail "eval in bf16 gives the bits of fp32"
awk '/^loss/ { v[FILENAME] = $2 } END { d = v["eval.fp32"] - v["eval.bf16"]; exit !(d < 0.02 && d > -0.02) }' eval.fp32 eval.bf16 || fail "eval in bf16 is far from fp32"

# 2 + 2 + 12 bytes a parameter, planned without a run.
"$ZERO" plan --new gpt2 --dtype bf16 --ranks 1 --json >plan.json
python3 - <<'P' || fail "the plan in bf16 is not 2 + 2 + 12 bytes a parameter"
import json
plan = json.load(open("plan.json"))
b, n, text = plan["rows"][0]["bytes"], plan["parameters"], json.dumps(plan["rows"][0])
assert abs(b["parameters"] - 2 * n) < 1e6 and abs(b["gradients"] - 2 * n) < 1e6 and abs(b["optimizer"] - 12 * n) < 1e6, text
P

# Each path that this processor offers, by its name: the same training to rounding, and config.json says which it was.
offered=$("$ZERO" doctor | sed -n 's/^backends *cpu (that is [^)]*), //p' | tr -d ,)
[ -n "$offered" ] || fail "zero doctor names no backend"
for backend in $offered; do
    run --dtype bf16 --steps 3 --backend "$backend" --out "by-$backend"
    [ "$backend" = ref ] || { grep -qF "\"backend\": \"$backend\"," "by-$backend/config.json" && grep -qF "\"instructions\": \"${backend#cpu:}\"," "by-$backend/config.json"; } ||
        fail "not by $backend: $(grep -E '"backend"|"instructions"' "by-$backend/config.json")"
done
python3 - $offered <<'P' || fail "paths differ by more than rounding: $offered"
import json, sys
runs = {b: [json.loads(l)["loss"] for l in open("by-" + b + "/metrics.jsonl") if '"loss"' in l] for b in sys.argv[1:]}
assert all(len(r) == 3 and all(abs(x - y) < 1e-2 for x, y in zip(r, runs["ref"])) for r in runs.values()), runs
P
for name in cpu:mmx cpu: gpu far ref:avx2; do
    refused 64 "there is no backend \"$name\" here; this build on this processor offers cpu (that is" "$ZERO" train --new $TINY --data nowhere.txt --out out --backend $name
done

# Too little address space for oneDNN's compiler ends with a line, not with a signal. (A sanitizer has no such limits.)
for limit in 60000 66000 72000 78000; do
    (ulimit -v $limit && "$ZERO" --version >/dev/null 2>&1) || continue
    code=0
    (ulimit -v $limit && OMP_NUM_THREADS=1 exec "$ZERO" train --new $TINY --data "$TEXT" --val none --steps 1 --threads 1 --quiet --out small --overwrite) >out.txt 2>err.txt || code=$?
    [ $code -eq 0 ] || { [ $code -lt 128 ] && [ -s err.txt ]; } || fail "ulimit -v $limit: exit code $code ($(cat err.txt))"
done
