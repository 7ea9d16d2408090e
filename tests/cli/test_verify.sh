#!/usr/bin/env bash
# zero verify: a run is replayed to the same bits, whatever it was made of; and what was changed afterwards is told.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. "$(dirname "$0")/lib.sh"
mkdir disk
RUN="--micro-batch 2 --steps 12 --save-every 4 --keep 0"
DROP=${TINY},dropout=0.1
confirmed() { # confirmed DIR [OPTION...]
    expect 0 "$ZERO" verify "$@"
    grep -q '^confirmed: steps .* bit for bit$' out.txt || fail "verify $*: $(cat out.txt)"
}
start() { "$ZERO" train --new $DROP --data "$TEXT" --threads 1 --quiet "$@" >train.txt 2>&1 || fail "$* ($(tail -3 train.txt))"; }
start $RUN --ranks 2 --stage 2 --dtype bf16 --out run
confirmed run
grep -q 'steps 9 to 12, replayed on 2 ranks' out.txt && grep -q '^receipt of model: .* step 12' out.txt || fail "$(cat out.txt)"
# The answer as JSON, and nothing else on standard output.
told() { # told CODE DIR OPTION... <CHECK: in Python, of the object `a` and of the text
    local code=$1 check
    shift
    check=$(cat)
    expect $code "$ZERO" verify "$@"
    mv out.txt text.out
    expect $code "$ZERO" verify "$@" --json
    [ "$(wc -l <out.txt)" -eq 1 ] || fail "not one line of JSON: $(cat out.txt)"
    python3 -c 'import json, math, sys; a, text = json.load(open("out.txt")), open("text.out").read(); exec(sys.argv[1])' "$check" ||
        fail "zero verify $* --json: $(cat out.txt text.out)"
}
told 0 run <<'P'
assert a["confirmed"] is True and (a["run"], a["from_step"], a["to_step"], a["ranks"], a["threads"]) == ("run", 8, 12, 2, 1), a
assert a["steps"] == {"replayed": 4, "compared": 4} and a["doubts"] == [], a
assert [f'receipt of {r["model"]}: the weights are those of step {r["step"]} that it names' for r in a["receipts"]] == text.splitlines()[:-1] != [], a
states = a["states"]
assert states["vectors"] == ["weights", "exp_avg", "exp_avg_sq"] and states["differing"] == 0 and states["same_progress"], states
files = json.load(open("run/checkpoints/step-00000012/manifest.json"))["files"]
names = [name + ".safetensors" for name in states["vectors"]]
assert states["elements"] == sum(math.prod(tensor["shape"]) for file in files if file["name"] in names for tensor in file["tensors"]), states
P
confirmed run --from-step 4 --to-step 8
confirmed run --threads 1
cat >fp16.json <<'JSON'
{"fp16": {"enabled": true, "initial_scale_power": 20, "hysteresis": 1}, "optimizer": {"type": "LAMB", "params": {"lr": 1e-3}},
 "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "disk"}, "stage3_param_persistence_threshold": 0}}
JSON
start $RUN --config fp16.json --ranks 3 --accumulation 2 --out skipping
confirmed skipping
cat >delayed.json <<'JSON'
{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "libzero": {"delayed_update": {"start_step": 3}}}
JSON
start $RUN --config delayed.json --out delayed
confirmed delayed --from-step 4 --to-step 8
"$ZERO" train --model run/model --data "$TEXT" --threads 1 --quiet $RUN --out further >train.txt 2>&1 || fail "$(cat train.txt)"
confirmed further
"$ZERO" train --model run/model --tokenizer chars --data "$TEXT" --threads 1 --quiet $RUN --out retold >train.txt 2>&1 || fail "$(cat train.txt)"
confirmed retold
[ -z "$(ls -A disk)" ] || fail "left on the disk: $(ls -A disk)"

# Resumed on other ranks: what these made is confirmed, from a checkpoint of the others too; what the others made is refused, not called false.
start $RUN --ranks 2 --stage 2 --dtype bf16 --out moved
rm -r moved/checkpoints/step-00000012 moved/model
start $RUN --ranks 1 --stage 2 --dtype bf16 --out moved --resume
confirmed moved
grep -q 'steps 9 to 12, replayed on 1 rank,' out.txt || fail "$(cat out.txt)"
refused 64 'in another way than step 8 was made: ranks 2 then, 1 in its config.json' "$ZERO" verify moved --from-step 4 --to-step 8
refused 64 'in another way than step 8 was made: ranks 2 then, 1 in its config.json' "$ZERO" verify moved --from-step 4

# Made by a pipeline, then without one. The gradient of the table that embedding and head share was two sums then, and is one now, unless the
# run asks for exact_pipeline.
for sums in one two; do
    [ $sums = one ] && echo '{}' >sums.json || echo '{"libzero": {"exact_pipeline": true}}' >sums.json
    start $RUN --config sums.json --ranks 4 --pipeline 2 --stage 1 --out staged
    confirmed staged
    grep -q 'steps 9 to 12, replayed on 4 ranks' out.txt || fail "$(cat out.txt)"
    expect 0 "$ZERO" inspect staged/checkpoints/step-00000012
    grep -q 'on 4 ranks, 2 a model in 2 pipeline stages' out.txt || fail "zero inspect: $(head -3 out.txt)"
    rm -r staged/checkpoints/step-00000012 staged/model
    start $RUN --config sums.json --ranks 2 --stage 1 --out staged --resume
    confirmed staged
    if [ $sums = one ]; then
        refused 64 'in another way than step 8 was made: pipeline stages 2 then, 1 in its config.json' "$ZERO" verify staged --from-step 4 --to-step 8
    else
        confirmed staged --from-step 4
    fi
    rm -r staged
done
# Parameters one update old, and a shared table whose replica on another pipeline stage, or in another chunk, has them alone.
echo '{"libzero": {"pipeline": {"flush_every": 2}}}' >late.json
start $RUN --config late.json --ranks 2 --pipeline 2 --schedule 2bw --accumulation 2 --out late
confirmed late
cat >late.json <<'JSON'
{"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}, "libzero": {"exact_pipeline": true, "delayed_update": {"start_step": 2}}}
JSON
start $RUN --config late.json --out alone
confirmed alone
rm -r late alone

# Resumed with another rate, which no checkpoint knows: it is told that this may be why.
start $RUN --lr 1e-3 --out hurried
rm -r hurried/checkpoints/step-00000012 hurried/model
start $RUN --lr 1e-2 --out hurried --resume
expect 1 "$ZERO" verify hurried --from-step 4 --to-step 8
grep -q '^the run was resumed from step 8, and its config.json' out.txt || fail "$(cat out.txt)"
expect 1 "$ZERO" verify hurried --from-step 4 --to-step 8 --threads 2
grep -q '^threads per rank were 1 when the run was made, and 2 now, which may round differently' out.txt || fail "$(cat out.txt)"

# Made on a machine with a lower best path: replayed by that one, where it is offered.
SHORT="--micro-batch 2 --steps 4 --save-every 2 --keep 0"
made_by() { # made_by RUN INSTRUCTIONS [KEY]: its config.json says so, and has no libzero.KEY
    python3 - "$@" <<'P'
import json, sys
path = sys.argv[1] + "/config.json"
root = json.load(open(path))
root["libzero"]["run"].update(backend="cpu", instructions=sys.argv[2])
for key in sys.argv[3:]:
    del root["libzero"][key]
json.dump(root, open(path, "w"))
P
}
start $SHORT --backend cpu:portable --out lower
made_by lower portable
confirmed lower
made_by lower sve
refused 78 '"lower" was made with sve instructions, this machine offers cpu (that is cpu:' "$ZERO" verify lower

# Earlier programs called every path that has AVX-512 by one name, and took the best one.
start $SHORT --dtype bf16 --out earlier
best=$(python3 -c 'import json; print(json.load(open("earlier/config.json"))["libzero"]["run"]["instructions"])')
made_by earlier avx512 loss_mean
manifest earlier 2 lineage.instructions '"avx512"'
manifest earlier 4 lineage.instructions '"avx512"'
case $best in
    avx512* | amx) confirmed earlier ;;
    *) refused 78 '"earlier" was made with avx512 instructions, this machine offers' "$ZERO" verify earlier ;;
esac

# What is not what it says it is.
cp -r run swapped
start $RUN --seed 9 --ranks 2 --stage 2 --dtype bf16 --out other
rm -r swapped/checkpoints/step-00000012
cp -r other/checkpoints/step-00000012 swapped/checkpoints
expect 1 "$ZERO" verify swapped
grep -qE '^step 12: weights "wte.weight" is the first of [0-9]+ elements' out.txt && grep -q '^not confirmed' out.txt || fail "$(cat out.txt)"
told 1 swapped <<'P'
first = a["states"]["first_difference"]
assert a["confirmed"] is False and a["steps"] == {"replayed": 4, "compared": 4}, a
assert f'step 12: {first["vector"]} "{first["tensor"]}" is the first of {a["states"]["differing"]} elements in all' in text, a
assert "by %.3g at most" % a["states"]["largest_difference"] in text, a
P
cp -r run altered
sed -i 's/^{"step":10,"loss":[0-9.]*/{"step":10,"loss":5.25/' altered/metrics.jsonl
told 1 altered --threads 2 <<'P'
first = a["steps"]["first_difference"]
assert a["confirmed"] is False and a["steps"]["compared"] == 2 and (first["step"], first["loss"]) == (10, 5.25), a
assert "step 10: the run has loss 5.25, norm %.17g; replayed: %.17g, %.17g\n" % tuple(first[k] for k in ("norm", "replayed_loss", "replayed_norm")) in text, a
assert a["doubts"] == [{"about": "threads", "run": 1, "replay": 2}] and "were 1 when the run was made, and 2 now" in text, a
P
expect 1 "$ZERO" verify swapped
[ ! -s err.txt ] || fail "an answer is no failure: $(cat err.txt)"
sed -i '2s/.*/nonsense/' other/metrics.jsonl
refused 65 'metrics.jsonl", line 2: no object' "$ZERO" verify other
flip run/model/model.safetensors 5000
refused 65 'is not what its receipt says' "$ZERO" verify run
refused 65 'is not what its receipt says' "$ZERO" verify run --json
[ ! -s out.txt ] || fail "part of an answer: $(cat out.txt)"
refused 64 'two are needed, an earlier and a later one (found 0 and 4)' "$ZERO" verify other --to-step 4
cp "$TEXT" more.txt
echo more >>more.txt
refused 65 'is not the one that "other" was made with' "$ZERO" verify other --data more.txt
refused 74 'nowhere/config.json' "$ZERO" verify nowhere
echo "runs are replayed to the same bits, and others are told"
