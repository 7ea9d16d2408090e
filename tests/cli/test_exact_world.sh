#!/usr/bin/env bash
# With libzero.exact_world one file gives the same run on 1, 2, 4 and 8 ranks: losses, norms, evaluations, weights; over MPI too, and
# resumed on others than those that saved it.
. "$(dirname "$0")/lib.sh"

config() { echo "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": $1}, \"libzero\": {\"exact_world\": true${2:-}}}" >config.json; }
run() { train --config config.json --steps 5 --lr 1e-2 "$@"; }
lines() { # the lines of a run without what depends on the clock and on the number of ranks
    python3 - "$1" <<'PY'
import sys, json
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    print(line["step"], line.get("loss"), line.get("grad_norm"), line.get("val_loss"))
PY
}
same() { # same A B: two runs are one
    cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "other weights in $2"
    diff <(lines "$1") <(lines "$2") >difference.txt || fail "other lines in $2/metrics.jsonl: $(head -6 difference.txt)"
}

runs=0
for dtype in fp32 bf16; do
    config 0
    run --dtype $dtype --ranks 1 --out one-$dtype
    for ranks in $(sample "2 4 8" 4); do
        config $((ranks == 8 ? 1 : ranks / 2 + 1))
        run --dtype $dtype --ranks $ranks --out more --overwrite
        same one-$dtype more
        runs=$((runs + 1))
    done
done
cmp -s one-fp32/model/model.safetensors one-bf16/model/model.safetensors && fail "fp32 and bf16 are one"
grep -q '"exact_world": true' more/config.json || fail "the resolved configuration does not say it"

# Without it the runs differ, so that there is something to hold.
config 2
sed -i 's/true}/false}/' config.json
for ranks in 1 4; do run --dtype fp32 --ranks $ranks --out plain$ranks; done
cmp -s plain1/model/model.safetensors plain4/model/model.safetensors && fail "without exact_world 1 and 4 ranks are one too: this text tells nothing"

# Saved on two ranks, resumed on one and on four.
config 3
run --dtype bf16 --ranks 2 --save-every 2 --keep 0 --out two
same one-bf16 two
for ranks in 1 4; do
    cp -r two resumed
    rm -r resumed/checkpoints/step-00000004 resumed/model
    run --dtype bf16 --ranks $ranks --save-every 2 --keep 0 --out resumed --resume
    same two resumed
    rm -r resumed
done

# A rank dies, those that remain make the same steps: what they end with is what all would have.
LONG="--dtype bf16 --threads 1 --quiet --val none --config config.json --steps 60 --lr 1e-2"
expect 0 "$ZERO" train --new $TINY --data "$TEXT" $LONG --ranks 4 --out unbroken
met=
for try in $(seq 10); do # until the kill comes before the end
    rm -rf broken
    "$ZERO" train --new $TINY --data "$TEXT" $LONG --ranks 4 --restarts 3 --min-ranks 1 --save-every 5 --out broken >out.txt 2>err.txt &
    parent=$!
    for wait in $(seq 1000); do [ -e broken/checkpoints/latest ] && break; sleep 0.02; done
    kill -KILL $(children_of $parent | tail -1) 2>/dev/null
    { wait $parent; } 2>/dev/null || fail "a run that a rank has left: $(cat err.txt)"
    cmp unbroken/model/model.safetensors broken/model/model.safetensors || fail "other weights where a rank died: $(cat err.txt)"
    grep -q "with 2 ranks" err.txt && met=$try && break
done
[ "$met" ] || fail "ten runs ended before their rank was killed: $(cat err.txt)"

if command -v mpirun >/dev/null && "$ZERO" doctor | grep -q "^MPI *module found"; then
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # Open MPI leaks at its end
    expect 0 "${MPIRUN[@]}" -n 2 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --config config.json --steps 5 --lr 1e-2 --dtype bf16 --comm mpi --out mpi
    same one-bf16 mpi
fi

# What the plan counts: an accumulator for each bit of K - 1.
"$ZERO" plan --new $TINY --config config.json --dtype bf16 --ranks 1 >plan.txt || fail "zero plan"
grep -q "8 micro-batches a rank and step in 3 accumulators of a shard" plan.txt || fail "zero plan says nothing of exact_world: $(cat plan.txt)"

# Tiles that would follow from the number of ranks do not.
echo '{"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "'"$WORK"'"},
       "offload_optimizer": {"device": "nvme", "nvme_path": "'"$WORK"'"}}, "libzero": {"exact_world": true}}' >narrow.json
expect 78 "$ZERO" train --new gpt2:layers=2,heads=4,width=256,context=64,vocab=20000 --data "$TEXT" --tokenizer bytes --threads 1 --quiet --config narrow.json --ranks 2 --steps 1 \
    --val none --device-memory 30MB --out narrow
grep -q 'say libzero.tiling, the same for all: {"embedding": 16' err.txt || fail "tiles under exact_world: $(cat err.txt)"

# What has no such tree is refused, with its numbers.
again() { refused 78 "$1" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --steps 1 --out out "${@:2}"; }
sed -i 's/"train_batch_size": 16/"train_batch_size": 24/' config.json
again "gradient_accumulation_steps 3 (a batch of 24 = 2 x 3 x 4 ranks): expected a power of two" --config config.json --ranks 4
again "libzero.exact_world on 3 ranks" --config config.json --ranks 3
echo '{"train_batch_size": 16, "libzero": {"exact_world": true}}' >config.json
again "train_micro_batch_size_per_gpu" --config config.json --ranks 2
config 1 ', "reduce": "per_step"'
again "libzero.reduce per_step" --config config.json --ranks 2
echo "$runs runs on more ranks: the bits of one"
