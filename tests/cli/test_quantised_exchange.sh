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
# tried: says whether this way is in the sample: every third in turn.
tried() { [ $all = yes ] || [ $((turn++ % 3)) -eq "${ZERO_TEST_PART:-0}" ]; }
differ() { [ "$(cat "sum-$1")" != "$(cat "sum-$2")" ] || fail "$1 and $2 give one set of weights: this tells nothing"; }

# What carries them.
mpi=no machines=no
mpirun --version 2>/dev/null | grep -q "Open MPI" && "$ZERO" doctor | grep -q "^MPI *module found" && mpi=yes
[ $mpi = yes ] && unshare --uts true 2>/dev/null && machines=yes
[ $mpi = yes ] || echo "SKIPPED in part: there is no Open MPI here, so only shared memory is tried" >&2
[ $machines = yes ] || echo "SKIPPED in part: no namespaces can be made here (root can), so several machines are not tried" >&2
# host.sh PER COMMAND...: a rank on a machine of PER ranks, as far as anybody can tell
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
    is "$codes-$ranks" "$3"
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
    for pair in none:w none:g4 none:g8 g4:g8 w:both g4:both g4:loco; do
        [ ! -e sum-${pair%:*}-$ranks ] || [ ! -e sum-${pair#*:}-$ranks ] || differ ${pair%:*}-$ranks ${pair#*:}-$ranks
    done
done
echo "$runs runs: one set of weights for each grid"
