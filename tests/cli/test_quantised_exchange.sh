#!/usr/bin/env bash
# ZeRO++'s blocks of codes: weights that are gathered and gradients that are summed as codes give one set of weights on one grid of ranks,
# whatever carries them: shared memory, MPI, several machines; with threads, tiers, a copy on each machine, activation checkpoints. What
# else a training can have goes with them; what they save is what zero plan says; what they cannot mean is refused.
#   $1: --all: every way of every row; else a sample of them
. "$(dirname "$0")/lib.sh"
[ "${1:-}" = --all ] && all=yes || all=no
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # Open MPI leaks at its end
mkdir nvme
CPU='{"device": "cpu"}'
DISK="{\"device\": \"nvme\", \"nvme_path\": \"$WORK/nvme\"}"

# keys CODES: of zero_optimization; bits of gradients go to libzero.
keys() {
    local all=
    case $1 in w | both* | all) all+=', "zero_quantized_weights": true' ;; esac
    case $1 in g* | both* | loco | all) all+=', "zero_quantized_gradients": true' ;; esac
    case $1 in f | all) all+=', "zero_quantized_nontrainable_weights": true' ;; esac
    case $1 in loco) all+=', "zeropp_loco_param": {"err_beta": 0.5, "reset_T": 2}' ;; esac
    echo "$all"
}
bits() { case $1 in g8 | both8) echo '"quantized_gradient_bits": 8' ;; *) echo '"allow_unknown": false' ;; esac; }
# config CODES STAGE [ZERO [LIBZERO [MORE]]]: writes config.json; the last three begin with a comma.
config() {
    echo "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": $2$(keys "$1")${3:-}}," \
        "\"libzero\": {$(bits "$1")${4:-}}${5:-}}" >config.json
}
STEPS=3
THREADS=1
zero() { # zero WORDS OF A LAUNCHER -- OPTION...: one run
    local launcher=()
    while [ "$1" != -- ]; do launcher+=("$1"); shift; done
    shift
    expect 0 ${launcher[@]+"${launcher[@]}"} "$ZERO" train --new "${MODEL:-$TINY}" --data "$TEXT" --threads $THREADS --quiet --config config.json \
        --val none --steps $STEPS --no-final-checkpoint --lr 0.01 --out run --overwrite "$@"
}
run() { zero -- "$@"; }
sum_of() { cat "$1"/model/model.safetensors "$1"/ema/model.safetensors "$1"/adapter/adapter_model.safetensors 2>/dev/null | sha256sum | cut -c1-16; }
# is KEY: the run has the weights of the first run with that key.
is() {
    local sum
    sum=$(sum_of run)
    [ -e "sum-$1" ] || echo "$sum" >"sum-$1"
    [ "$sum" = "$(cat "sum-$1")" ] || fail "other weights ($1; $2): $(cat config.json)"
    runs=$((runs + 1))
}
runs=0 turn=0
# tried: says whether this one is in the sample: every fourth in turn, or fewer where a sanitizer makes each run a long one.
every=$(sample 4 12)
tried() { [ $all = yes ] || [ $((turn++ % every)) -eq 0 ]; }
differ() { [ "$(cat "sum-$1")" != "$(cat "sum-$2")" ] || fail "$1 and $2 give one set of weights: this tells nothing"; }

# What carries them.
mpi=no machines=no
mpirun --version 2>/dev/null | grep -q "Open MPI" && "$ZERO" doctor | grep -q "^MPI *module found" && mpi=yes
[ $mpi = yes ] && unshare --uts true 2>/dev/null && machines=yes
[ $mpi = yes ] || echo "SKIPPED in part: there is no Open MPI here, so only shared memory is tried" >&2
[ $machines = yes ] || echo "SKIPPED in part: no namespaces can be made here (root can), so several machines are not tried" >&2
# With PER COMMAND...: a rank on a machine of PER ranks, as far as anybody can tell.
cat >host.sh <<'HOST'
#!/bin/sh
per=$1
shift
exec unshare --uts sh -c 'hostname "machine-$((OMPI_COMM_WORLD_RANK / '"$per"'))"; exec "$0" "$@"' "$@"
HOST
chmod +x host.sh
by_mpi() { # by_mpi RANKS PER OPTION...: PER ranks on each machine; 0: all on this one
    local ranks=$1 wrapper=
    [ "$2" = 0 ] || wrapper="./host.sh $2"
    shift 2
    # shellcheck disable=SC2086 # the wrapper is words
    zero "${MPIRUN[@]}" -n "$ranks" $wrapper -- --comm mpi "$@"
}

# way CODES RANKS WAY: one run; its weights are those of the grid.
way() {
    local codes=$1 ranks=$2 stage=3
    case $3 in 1 | 2) stage=$3 ;; esac
    case $3 in
    cpu) config "$codes" 3 ", \"offload_param\": $CPU" ;;
    states) config "$codes" "$stage" ", \"offload_optimizer\": $CPU" ;;
    disk) config "$codes" "$stage" ", \"offload_optimizer\": $DISK" ;;
    tiers) config "$codes" 3 ", \"offload_optimizer\": $DISK, \"offload_param\": $CPU" ;;
    apart | mpi-apart) config "$codes" 3 ', "overlap_comm": false' ;;
    ahead) config "$codes" 3 ', "overlap_comm": true' ;;
    buckets) config "$codes" 3 ', "reduce_bucket_size": 1000, "stage3_prefetch_bucket_size": 1000' ;;
    hpz) config "$codes" 3 ', "zero_hpz_partition_size": 2' ;;
    again*) config "$codes" 3 "" "" ', "activation_checkpointing": {"number_checkpoints": 2}' ;;
    *) config "$codes" "$stage" ;;
    esac
    case $3 in
    mpi | mpi-apart) by_mpi "$ranks" 0 ;;
    machines) by_mpi "$ranks" $(((ranks + 1) / 2)) ;;
    alone) by_mpi "$ranks" 1 ;;
    hpz) by_mpi "$ranks" 2 ;;
    machines-2) THREADS=2 by_mpi "$ranks" $(((ranks + 1) / 2)) ;;
    threads) THREADS=2 run --ranks "$ranks" ;;
    *) run --ranks "$ranks" ;;
    esac
    # Machines of several ranks each sum first what these contribute, and round that: bits of their own.
    case $codes-$3-$ranks in
    w-*) is "$codes-$ranks" "$3" ;;
    *-machines-4 | *-machines-2-4 | *-hpz-4) is "$codes-$ranks-hops" "$3" ;;
    *) is "$codes-$ranks" "$3" ;;
    esac
}
possible() { # possible CODES RANKS WAY
    case $3 in
    mpi | mpi-apart) [ $mpi = yes ] ;;
    machines | machines-2 | alone) [ $machines = yes ] && [ "$2" -gt 1 ] ;;
    hpz) [ $machines = yes ] && [ "$2" = 4 ] ;;
    1 | 2) case $1 in g* | loco) ;; *) false ;; esac ;;
    *) ;;
    esac
}
for codes in w g4 g8 both loco; do
    for ranks in 1 2 4; do
        for how in plain mpi machines alone threads machines-2 apart ahead mpi-apart buckets cpu states disk tiers hpz again 1 2; do
            possible $codes $ranks $how || continue
            tried || continue
            way $codes $ranks $how
        done
    done
done
config none 3
for ranks in 1 2 4; do
    run --ranks $ranks
    is none-$ranks plain
    [ ! -e sum-g4-$ranks-hops ] || [ ! -e sum-g4-$ranks ] || differ g4-$ranks g4-$ranks-hops
    for pair in none:w none:g4 none:g8 g4:g8 w:both g4:both g4:loco; do
        [ ! -e sum-${pair%:*}-$ranks ] || [ ! -e sum-${pair#*:}-$ranks ] || differ ${pair%:*}-$ranks ${pair#*:}-$ranks
    done
done
echo "$runs runs: one set of weights for each grid"

# What else a training has: each row on another carrier (codes of both kinds, stage 3) and at other stages (codes of gradients), with one set
# of weights. NAME;OPTION...;of zero_optimization;of libzero;of the top. The ranks are 4 where models have several, else 2.
cat >rows <<ROWS
fp16;--dtype fp16;;;
bf16;--dtype bf16;;;
bf16-disk;--dtype bf16;, "offload_optimizer": $DISK;;
adafactor;;;;, "optimizer": {"type": "Adafactor", "params": {"lr": 0.01}}
lamb;;;;, "optimizer": {"type": "Lamb", "params": {"lr": 0.01}}
muon;;;;, "optimizer": {"type": "Muon", "params": {"lr": 0.002, "weight_decay": 0.01}}
muon16;--dtype bf16;;;, "optimizer": {"type": "Muon", "params": {"lr": 0.002, "weight_decay": 0.01}}
lion;;;;, "optimizer": {"type": "Lion", "params": {"lr": 0.001}}
sgd;;;;, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}
states;--optimizer-states 8bit;;;
states16;--optimizer-states bf16 --dtype bf16;;;
ema;--ema 0.9;;;
ema16;--ema 0.9 --dtype bf16;;;
late;;, "offload_optimizer": $CPU;, "delayed_update": {"start_step": 2};
late16;--dtype bf16;, "offload_optimizer": $CPU;, "delayed_update": {"start_step": 1};
ratio-3;;, "offload_optimizer": {"device": "cpu", "ratio": 0.5};;
groups;;, "sub_group_size": 3000, "offload_optimizer": $DISK;;
tensor;--tensor 2;;;
tensor16;--tensor 2 --sequence-parallel --dtype bf16;;;
1f1b;--pipeline 2;;;
gpipe;--pipeline 2 --schedule gpipe;;;
zb-h1;--pipeline 2 --schedule zb-h1 --dtype bf16;;;
interleaved;--pipeline 2 --schedule interleaved:2;;;
2bw;--pipeline 2 --schedule 2bw;;;
pipedream-1;--pipeline 2 --schedule pipedream;;;, "gradient_clipping": 0
again-piped;--pipeline 2;;;, "activation_checkpointing": {"number_checkpoints": 2}
llama;;;;
llama-tiles;;;, "tiling": {"mlp": 2};
ROWS
# tries KEY STAGE CODES WAY OPTION...: a run by that way, with the weights of the key.
tries() {
    local key=$1 stage=$2 codes=$3 by=$4
    shift 4
    config "$codes" "$stage" "$zero" "$ours" "$more"
    case $by in
    mpi) [ $mpi = yes ] || return 0 && by_mpi "$ranks" 0 "$@" ;;
    alone) [ $machines = yes ] || return 0 && by_mpi "$ranks" 1 "$@" ;;
    threads) THREADS=2 run --ranks "$ranks" "$@" ;;
    *) run --ranks "$ranks" "$@" ;;
    esac
    is "$key" "$by, stage $stage"
}
ways_of() { # ways_of NAME OPTION...: the row's runs
    local name=$1 by stage stages='3 2 1'
    shift
    case $name in *-3) stages=3 ;; *-1) stages='2 1' ;; esac
    for stage in $stages; do tries "$name-g4" "$stage" g4 shared "$@"; done
    tries "$name-g4" "${stages%% *}" g4 alone "$@"
    case $name in *-1) return 0 ;; esac
    for by in shared mpi alone threads; do tries "$name-both" 3 both $by "$@"; done
    for by in shared mpi; do tries "$name-w" 3 w $by "$@"; done
    differ "$name-both" "$name-g4"
    differ "$name-both" "$name-w"
}
runs=0
while IFS=';' read -r -u 3 name options zero ours more; do
    tried || continue
    case $options in *pipeline* | *tensor*) ranks=4 ;; *) ranks=2 ;; esac
    case $name in llama*) MODEL=llama:layers=2,heads=4,kv_heads=2,width=32,context=32,tied=0 ;; interleaved) MODEL=gpt2:layers=4,heads=2,width=32,context=32 ;; *) MODEL=$TINY ;; esac
    # shellcheck disable=SC2086 # options are words
    ways_of "$name" $options
done 3<rows
MODEL=$TINY
# Eight ranks: a tied weight's shard is one chunk, whose codes on a link are no multiple of 64 bytes.
config w 3
run --ranks 8 --pipeline 2
is odd-w shared
[ $mpi = no ] || { by_mpi 8 0 --pipeline 2 && is odd-w mpi; }
echo "$runs runs: one set of weights with each of what else a training has"

# Codes of weights begin at tensors, so exact_world's promise holds with them.
STEPS=3
for ranks in 1 2 4; do
    config w 3 "" ', "exact_world": true'
    run --ranks $ranks
    is world-w "$ranks ranks"
    [ $mpi = no ] || { by_mpi $ranks 0 && is world-w "$ranks ranks by MPI"; }
done
differ world-w none-1
echo "exact_world"

# Adapters.
config none 0
run --ranks 1
mv run base
adapters() { # adapters LAUNCHER -- OPTION...
    local launcher=()
    while [ "$1" != -- ]; do launcher+=("$1"); shift; done
    shift
    expect 0 ${launcher[@]+"${launcher[@]}"} "$ZERO" train --model base/model --lora r=4,alpha=8 --data "$TEXT" --threads 1 --quiet --config config.json \
        --val none --steps 3 --no-final-checkpoint --lr 0.01 --out run --overwrite "$@"
}
for codes in $([ $all = yes ] && echo w f g4 loco both all || echo f all); do
    config $codes 3
    adapters -- --ranks 2
    is "lora-$codes" shared
    [ $mpi = no ] || { adapters "${MPIRUN[@]}" -n 2 -- --comm mpi && is "lora-$codes" mpi; }
    [ $machines = no ] || { adapters "${MPIRUN[@]}" -n 2 ./host.sh 1 -- --comm mpi && is "lora-$codes" machines; }
done
differ lora-f lora-all
echo "adapters"

# A run goes on with the bits of one that was never interrupted; on other grids, and without the keys, it goes on.
going() { # going OUT STEPS OPTION...
    expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --config config.json --val none --schedule-lr constant --warmup 1 --lr 0.01 --keep 0 \
        --save-every 2 --out "$1" --steps "$2" "${@:3}"
}
for codes in $([ $all = yes ] && echo w g8 loco both || echo loco both); do
    config $codes 3
    going long 4 --ranks 2
    going part 2 --ranks 2
    cp -r part other && cp -r part fewer && cp -r part plain
    going part 4 --ranks 2 --resume
    cmp part/model/model.safetensors long/model/model.safetensors || fail "$codes: 2 steps and 2 more are not 4"
    going other 4 --ranks 4 --resume
    config none 3
    going fewer 4 --ranks 1 --resume
    config none 1
    going plain 4 --ranks 2 --resume
    for run in other fewer plain; do
        [ "$("$ZERO" verify $run >/dev/null && echo well)" = well ] || fail "$codes: a checkpoint of $run is broken"
        python3 - long $run <<'PY' || fail "$codes: $run goes on from elsewhere"
import json, sys
def losses(run): return [row["loss"] for row in map(json.loads, open(run + "/metrics.jsonl")) if "loss" in row]
long, run = map(losses, sys.argv[1:])

sys.exit(not (len(long) == len(run) == 4 and abs(long[-1] - run[-1]) < 0.05 * long[-1]))
PY
    done
    rm -r long part other fewer plain
done
config none 1
going long 2 --ranks 2
config both 3
going long 4 --ranks 4 --resume
rm -r long
echo "resumed"

# What the codes save of what comes from another machine: to the byte what zero plan says. A machine of two ranks sums first.
MODEL=gpt2:layers=2,heads=4,width=256,context=32
for dtype in fp32 bf16; do
    for ranks in 2 4; do
        for codes in none w g4 g8 both; do
            [ $ranks-$dtype != 4-bf16 ] || [ $all = yes ] || continue
            config $codes 3
            "$ZERO" plan --new $MODEL --config config.json --dtype $dtype --ranks $ranks --machines 2 --json >plan-$dtype-$ranks-$codes.json || fail "zero plan"
            [ $machines = no ] || { by_mpi $ranks $((ranks / 2)) --dtype $dtype && cp run/metrics.jsonl counted-$dtype-$ranks-$codes.jsonl; }
        done
    done
done
MODEL=$TINY
python3 - <<'PY' || fail "codes save less than they should"
import json, os, sys
def planned(grid, codes):
    return [row for row in json.load(open(f"plan-{grid}-{codes}.json"))["rows"] if row["stage"] == 3][0]["network"]["data"]["most"]
def counted(grid, codes):
    step = [row for row in map(json.loads, open(f"counted-{grid}-{codes}.jsonl")) if "ms" in row][-1]["comm"]
    return step["reduce_scatter"]["network"], step["all_gather"]["network"]
for dtype, weights, four, eight in ("fp32", 0.26, 0.135, 0.26), ("bf16", 0.52, 0.27, 0.52):
    for ranks, hops in (2, 1), (4, 2):
        grid = f"{dtype}-{ranks}"
        if not os.path.exists(f"plan-{grid}-both.json"):
            continue
        assert planned(grid, "both") < min(planned(grid, "w"), planned(grid, "g4")) < planned(grid, "none")
        assert planned(grid, "none") - planned(grid, "both") == 2 * planned(grid, "none") - planned(grid, "w") - planned(grid, "g4")
        if not os.path.exists(f"counted-{grid}-both.jsonl"):
            continue
        step = {codes: counted(grid, codes) for codes in ("none", "w", "g4", "g8", "both")}
        for codes, (summed, gathered) in step.items():
            assert summed + gathered == planned(grid, codes), (grid, codes, summed, gathered, planned(grid, codes))
            ratios = summed / step["none"][0], gathered / step["none"][1]
            most = {"none": 1, "w": 1, "g4": four / hops, "g8": eight / hops, "both": four / hops}[codes], weights if codes in ("w", "both") else 1
            print(f"{ranks} ranks, {dtype}, {codes}: gradients x {ratios[0]:.3f}, weights x {ratios[1]:.3f}")
            assert all(ratio <= limit for ratio, limit in zip(ratios, most)), (ratios, most)
PY

# What they cannot mean.
no() { # no WORDS OPTION...
    refused 78 "$1" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --config config.json --steps 1 --out out "${@:2}"
}
config w 2
no "zero_optimization.zero_quantized_weights is true, but the stage is 2, where ranks do not exchange them so; expected stage 3"
config both 3
no "but the stage is 1" --stage 1 --ranks 2
config g4 0
no "zero_optimization.zero_quantized_gradients is true, but the stage is 0, where ranks do not exchange them so; expected stage 1, 2 or 3" --ranks 2
config w 3 ", \"offload_param\": $DISK"
no "zero_optimization.zero_quantized_weights is true, but parameters are on NVMe (offload_param.device)"
config w 3 "" ', "exact_tensor": 2'
no "zero_optimization.zero_quantized_weights is true, but libzero.exact_tensor promises the same bits on any number of tensor ranks"
config g8 2 "" ', "exact_tensor": 2'
no "zero_optimization.zero_quantized_gradients is true, but libzero.exact_tensor promises the same bits on any number of tensor ranks"
config g4 2 "" ', "quantized_gradient_bits": 5'
no "libzero.quantized_gradient_bits is 5, but codes have 4 bits or 8"
config f 1
no "zero_optimization.zero_quantized_nontrainable_weights is true, but the stage is 1"
config g4 2 "" ', "exact_world": true'
no "zero_optimization.zero_quantized_gradients is true, but libzero.exact_world promises the same bits on any number of ranks"
config none 2 ', "zeropp_loco_param": {"err_beta": 0.5, "reset_T": 2}'
no "but gradients are not quantised; expected zero_optimization.zero_quantized_gradients: true"
echo "refusals"
exit 0
