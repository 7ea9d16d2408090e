#!/usr/bin/env bash
# Muon: one set of weights at every stage of ZeRO, on 1, 2 and 4 ranks, with tensor ranks and pipelines, on every tier it has; resumed as any
# other of these; and what it does not do is refused.
. "$(dirname "$0")/lib.sh"

# config STAGE [METHOD [LIBZERO [ZERO [MORE]]]]: writes config.json; MORE goes to its top level.
config() {
    cat >config.json <<END
{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "Muon", "params": {"lr": 0.002, "weight_decay": 0.01,
    "ns_method": "${2:-gram}"}}, "zero_optimization": {"stage": $1${4:-}}, "libzero": {"exact_world": true${3-, \"exact_tensor\": 2\}}${5:-}}
END
}
EXACT=', "exact_tensor": 2}'
run() { train --config config.json --val none --steps 5 "$@"; }
is() { # is DIR KEY: it has the weights of the first run with that key
    local sum
    sum=$(cat "$1"/model/model.safetensors "$1"/ema/model.safetensors "$1"/adapter/adapter_model.safetensors 2>/dev/null | sha256sum)
    [ -e "sum-$2" ] || echo "$sum" >"sum-$2"
    [ "$sum" = "$(cat "sum-$2")" ] || fail "other weights ($2): $(tr '\n' ' ' <config.json)"
    runs=$((runs + 1))
}
runs=0

# Stages, ranks and tensor ranks, in both methods.
for method in gram standard; do
    config 0 $method
    run --out whole --overwrite
    is whole $method
    for grid in $(sample "0:2:1 1:2:1 2:2:1 3:2:1 0:2:2 0:4:1 1:4:1 2:4:1 3:4:1 0:4:2 1:4:2 2:4:2 3:4:2" "1:2:1 3:4:2"); do
        IFS=: read -r stage ranks tensor <<<"$grid"
        config "$stage" $method
        run --ranks "$ranks" --tensor "$tensor" --out run --overwrite
        is run $method
    done
done
cmp -s sum-gram sum-standard && fail "both methods give one set of weights: this tells nothing"
config 0
sed -i -z 's/"Muon"/"AdamW"/; s/,\s*"ns_method": "[a-z]*"//' config.json
run --out run --overwrite
is run adamw
cmp -s sum-adamw sum-gram && fail "AdamW's weights are Muon's: this tells nothing"
echo "grids"

# Types: of training, and of states.
for type in "--dtype bf16" "--dtype fp16" "--optimizer-states bf16" "--optimizer-states bf16 --dtype bf16"; do
    config 0
    run $type --out run --overwrite
    is run "$type"
    config 3
    run $type --ranks 4 --tensor 2 --out run --overwrite
    is run "$type"
done
[ "$(cat sum-* | sort -u | wc -l)" -eq "$(ls sum-* | wc -l)" ] || fail "two types give one set of weights: $(cat sum-*)"
echo "types"

# Tiers.
mkdir nvme
NVME='{"device": "nvme", "nvme_path": "'$WORK'/nvme"}'
CPU='{"device": "cpu"}'
for tiers in "2|\"offload_optimizer\": $CPU" "3|\"offload_optimizer\": $CPU, \"offload_param\": $CPU" "3|\"offload_optimizer\": $CPU, \"offload_param\": $NVME" \
    '3|"offload_optimizer": {"device": "cpu", "ratio": 0.5}'; do
    config "${tiers%%|*}" gram "$EXACT" ", ${tiers#*|}"
    run --ranks 2 --out run --overwrite
    is run gram
done
echo "tiers"

# Pipelines: one set of weights with the synchronous schedules, and one with 2bw and with pipedream each.
PIPED=', "exact_pipeline": true, "exact_tensor": 2}'
config 0 gram "$PIPED"
run --out run --overwrite
is run pipeline
for grid in $(sample "0:2:1:1f1b 1:4:1:1f1b 2:2:1:zb-h1 3:4:2:gpipe 0:2:1:2bw 1:4:1:2bw" "3:4:2:1f1b 1:4:1:2bw"); do
    IFS=: read -r stage ranks tensor schedule <<<"$grid"
    config "$stage" gram "$PIPED"
    run --pipeline 2 --ranks "$ranks" --tensor "$tensor" --schedule "$schedule" --out run --overwrite
    [ "$schedule" = 2bw ] && is run 2bw || is run pipeline
done
for stage in $(sample "0 1 2" "1"); do # clipping would wait for all pipeline stages
    config "$stage" gram ', "exact_tensor": 2}' "" ', "gradient_clipping": 0'
    sed -i 's/"exact_world": true, //' config.json
    run --pipeline 2 --ranks 4 --schedule pipedream --out run --overwrite
    is run pipedream
done
echo "pipelines"

if command -v mpirun >/dev/null && "$ZERO" doctor | grep -q "^MPI *module found"; then
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # Open MPI leaks at its end
    config 2
    expect 0 "${MPIRUN[@]}" -n 2 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --config config.json --val none --steps 5 --comm mpi --out mpi
    is mpi gram
    echo "MPI"
fi

# Adapters are matrices.
adapters() { expect 0 "$ZERO" train --model whole/model --lora r=4,alpha=8 --data "$TEXT" --threads 1 --quiet --config config.json --val none --steps 5 --out run --overwrite "$@"; }
config 0
adapters
is run lora
config 3
adapters --ranks 4 --tensor 2
is run lora
echo "adapters"

# Saved by two ranks of stage 2 in step 4, resumed in other grids: the weights of what was never interrupted.
config 2
run --ranks 2 --save-every 4 --keep 0 --out saved
is saved gram
rm -r saved/checkpoints/step-00000005 saved/model
for grid in $(sample "0:1:1 1:2:1 2:4:1 3:1:1 3:4:2" "3:4:2"); do
    IFS=: read -r stage ranks tensor <<<"$grid"
    cp -r saved resumed
    config "$stage"
    run --ranks "$ranks" --tensor "$tensor" --out resumed --resume
    is resumed gram
    rm -r resumed
done
echo "resumed"

# By a flag: the schedule, the decay and the rate are the program's, as they are of AdamW.
echo '{"optimizer": {"type": "Muon", "params": {"lr": 0.002, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}}}' >config.json
run --schedule-lr cosine --out run --overwrite
train --optimizer muon --lr 0.002 --val none --steps 5 --out flag
cmp run/model/model.safetensors flag/model/model.safetensors || fail "--optimizer muon is another training than the file's"
train --val none --steps 5 --out run --overwrite
train --optimizer adamw --val none --steps 5 --out flag --overwrite
cmp run/model/model.safetensors flag/model/model.safetensors || fail "--optimizer adamw is not the default"
echo '{"optimizer": {"type": "Adam"}}' >adam.json
refused 64 '--optimizer "Muon" contradicts adam.json:1, which says type "Adam" (strict)' "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet \
    --config adam.json --optimizer muon --strict --out out
echo "by a flag"

# What it does not do.
again() { refused 78 "$1" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --config config.json --steps 1 --out out "${@:2}"; }
config 2 gram "}" ", \"offload_optimizer\": $NVME"
again "zero_optimization.offload_optimizer.device is nvme, but the optimizer is Muon: its directions stay in memory while ranks exchange them" --ranks 2
config 2 gram ', "delayed_update": {"start_step": 2}}' ", \"offload_optimizer\": $CPU"
again "libzero.delayed_update.start_step is 2, but the optimizer is Muon: its update waits for parts of tensors that other ranks have" --ranks 2
config 3 gram ', "tiling": {"mlp": 2}}'
again 'the matrix "h.0.mlp.c_fc.weight" comes in tiles (libzero.tiling), and its direction is computed of the whole matrix' --ranks 2
config 0 gram "}"
again 'libzero.optimizer_states is "8bit", but the optimizer is Muon; Adam and AdamW have states of 8 bits' --optimizer-states 8bit
echo "$runs runs with Muon, and four refusals"
