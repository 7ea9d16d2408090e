# shellcheck shell=bash disable=SC2034,SC2054,SC2154 # `run` and these files share variables; models have commas
# The parts of tools/gpu/run; part_checks.sh has what they are made of. Each is a function part_NAME, which may get a name that
# says which of its checks are wanted.

tests=(card elements columns rows states sums attention products)
zero=$(program zero)
text=$work/text
if [ -e "$here/text.txt" ]; then cp "$here/text.txt" "$text"; else cat "$here"/../../examples/text/*.txt | head -c 1000000 >"$text"; fi

# What a program of ours runs under: where CUDA's libraries lie, a cache, and the folder that images of kernels are named from.
place=$here cache=$here/cache
if [ -n "$emulated" ] || [ ! -d "$here/images" ]; then place=$work cache=$work/cache; fi
mkdir -p "$cache"
card=(env -C "$place" "XDG_CACHE_HOME=$cache" "LD_LIBRARY_PATH=$library_path")
[ -z "$emulated" ] || card+=("EMULATED_MEMORY=${EMULATED_MEMORY:-8589934592}")

if [ "$small" = yes ]; then
    tiny_steps=4 train_steps=8 speed_steps=4 rounds=1
    models=(gpt2:layers=1,heads=2,width=16,context=16 llama:layers=1,heads=4,kv_heads=2,width=16,context=16)
    train_model=gpt2:layers=1,heads=2,width=16,context=16
    speed_models=(gpt2:layers=1,heads=2,width=16,context=16 llama:layers=1,heads=4,kv_heads=2,width=16,context=16)
    speed_batches=(2 2) tiny_batch=2
else
    tiny_steps=6 train_steps=200 speed_steps=23 rounds=3
    models=(gpt2:layers=2,heads=2,width=128,context=128 llama:layers=2,heads=4,kv_heads=2,width=256,context=128)
    train_model=gpt2:layers=4,heads=4,width=256,context=256
    speed_models=(gpt2:layers=12,heads=12,width=768,context=1024,vocab=50304
        llama:layers=16,heads=32,kv_heads=8,width=2048,inner=8192,vocab=128256,context=4096)
    speed_batches=(64 2) tiny_batch=4
fi
common=(--data "$text" --val none --eval-every 0 --no-learn --quiet --seed 1 --dtype bf16)

# ---- facts ----

says() { printf ',"says":"%s"' "$(json_text <"$1")"; }
about_cards() { printf ',"says":"%s"' "$(grep -aiE 'cuda|card|nvrtc|cublas' "$1" | json_text)"; }

machine()
{
    echo "$(nproc) cores, $(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
    echo "CUDA's libraries: $library_path"
}

part_facts()
{
    local after=says
    part_begin 30
    check facts machine 5 machine
    if command -v nvidia-smi >/dev/null && [ -z "$emulated" ]; then
        check facts nvidia-smi 15 nvidia-smi --format=csv,noheader \
            --query-gpu=name,driver_version,memory.total,memory.used,pcie.link.gen.max,pcie.link.width.max,clocks.max.sm,power.limit
    else
        skip facts nvidia-smi "there is no nvidia-smi"
    fi
    after=about_cards
    check facts doctor 25 "${card[@]}" "$zero" doctor
}

raw_answers() { printf ',"answers":[%s]' "$(grep '^{' "$1" | paste -sd,)"; }

part_probe()
{
    part_begin 130
    after=raw_answers check probe all 125 env "LD_LIBRARY_PATH=$library_path" "$probe" --limit 120 --text "$here" "${options[@]}" --
}

# ---- kernels ----

# How many tests passed, and what they tell of errors.
passed()
{
    local count worst
    count=$(sed -n 's/^\[  PASSED  \] \([0-9]*\).*/\1/p' "$1" | tail -1)
    worst=$(grep -a '^worst' "$1" | json_text)
    printf ',"passed":%s%s' "${count:-0}" "${worst:+,\"worst\":\"$worst\"}"
    [ "${count:-0}" -gt 0 ]
}

part_kernels()
{
    local name test after=passed
    part_begin 150
    for name in ${1:-"${tests[@]}"}; do
        test=$(program "test_cuda_$name")
        if [ -n "$test" ]; then check kernels "$name" 60 "${card[@]}" "$test"
        else skip kernels "$name" "there is no test_cuda_$name"; fi
    done
}

part_sanitizer()
{
    local name test tool sanitizer
    part_begin 110
    sanitizer=${COMPUTE_SANITIZER:-}
    [ -n "$sanitizer$emulated" ] || sanitizer=$(first_program compute-sanitizer /usr/local/cuda*/bin)
    for name in ${1:-"${tests[@]}"}; do
        for tool in memcheck racecheck; do
            test=$(program "test_cuda_$name")
            if [ -z "$sanitizer" ]; then skip sanitizer "$name:$tool" "there is no compute-sanitizer"
            elif [ -z "$test" ]; then skip sanitizer "$name:$tool" "there is no test_cuda_$name"
            else check sanitizer "$name:$tool" 40 "${card[@]}" ZERO_TEST_SAMPLE=yes "$sanitizer" --error-exitcode 1 --tool "$tool" "$test"; fi
        done
    done
}

# ---- bits ----

# train CHECK RUN MODEL OPTION...: trains into $work/RUN on the card.
train()
{
    local name=$1 run=$2 model=$3
    shift 3
    [[ " $* " = *" --resume "* ]] || rm -rf "${work:?}/$run"
    check "$part" "$name" 40 "${card[@]}" "$zero" train --new "$model" "${common[@]}" --out "$work/$run" --micro-batch "$tiny_batch" \
        --schedule-lr constant --warmup 1 "$@"
}

checksum() { printf ',"sha256":"%.16s"' "$(sha256sum "$work/${run}/model/model.safetensors" | cut -d' ' -f1)"; }

# same CHECK RUN BASE: the two runs have the same weights; else the first tensor that differs is named.
same() { check "$part" "$1" 10 "${card[@]}" "$zero" diff "$work/$2/model" "$work/$3/model"; }

bits_of() # bits_of KIND MODEL
{
    local kind=$1 model=$2 base=$1-base run after=checksum steps=$tiny_steps way
    shift 2
    run=$base
    train "$kind" "$base" "$model" --backend "$backend" --steps "$steps" || return 0
    for way in twice stage1 stage2 stage3 host; do
        run=$kind-$way
        case $way in
            twice) set -- ;;
            stage?) set -- --stage "${way#stage}" ;;
            host) set -- --config "$work/host.json" ;;
        esac
        if train "$kind:$way" "$run" "$model" --backend "$backend" --steps "$steps" "$@"; then after='' same "$kind:$way:same" "$run" "$base"; fi
    done
    resume "$kind" "$model" "$backend" "$backend" && after='' same "$kind:$backend-$backend:same" "$kind-$backend-$backend" "$base"
    [ "$backend" != cpu ] || return 0
    resume "$kind" "$model" "$backend" cpu
    resume "$kind" "$model" cpu "$backend"
}

resume() # resume KIND MODEL BACKEND BACKEND: half of the steps on one, the others on the other
{
    local run=$1-$3-$4 after=''
    train "$1:$3-$4:begin" "$run" "$2" --backend "$3" --steps $((tiny_steps / 2)) || return 1
    after=checksum
    train "$1:$3-$4:resume" "$run" "$2" --backend "$4" --steps "$tiny_steps" --resume
}

part_bits()
{
    local part=bits model test after=passed
    part_begin 150
    echo '{"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}}' >"$work/host.json"
    for model in "${models[@]}"; do
        [ "${1:-${model%%:*}}" != "${model%%:*}" ] || bits_of "${model%%:*}" "$model"
    done
    [ -z "${1:-}" ] || return 0
    test=$(program test_cuda_training)
    if [ -n "$test" ]; then check bits ranks 90 "${card[@]}" "$test"; else skip bits ranks "there is no test_cuda_training"; fi
}

# ---- train ----

# losses OURS THEIRS STEPS: how far the losses of two runs are from each other.
losses()
{
    paste <(sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$1") <(sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$2") | awk -v steps="$3" '
        { apart = $1 > $2 ? $1 - $2 : $2 - $1; if (apart > worst) worst = apart; if (NF == 2 && $1 + 0 > 0) both++
          if (NR == 1) first = $1; last = $1 }
        END {
            printf "first %s last %s worst %.3g of %d\n", first, last, worst, both
            exit !(both == steps && worst <= 0.05 && (steps < 100 || last < first)) }'
}

worst_loss() { awk '{ printf ",\"first\":%s,\"last\":%s,\"worst\":%s", $2, $4, $6 }' "$1"; }

part_train()
{
    local part=train
    part_begin 80
    train card train-card "$train_model" --backend "$backend" --steps "$train_steps" || return 0
    train cpu train-cpu "$train_model" --backend cpu --steps "$train_steps" || return 0
    after=worst_loss check train losses 5 losses "$work/train-card/metrics.jsonl" "$work/train-cpu/metrics.jsonl" "$train_steps"
}
