#!/usr/bin/env bash
# Model states on device, host and NVMe: the same bits wherever they lie, nothing left on the disk however a run ends, one clear error for
# a directory or a budget that will not do, and a model larger than its device's budget answers.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. "$(dirname "$0")/lib.sh"
parent=
trap '[ -z "$parent" ] || kill -KILL $parent 2>/dev/null; cd /; chmod -R u+w "$WORK"; rm -rf "$WORK"' EXIT
mkdir disk
head -c 6000 "$TEXT" >short.txt
LARGER=gpt2:layers=6,heads=4,width=256,context=64 # its states on NVMe need less memory than on the host

# place STAGE OPTIMIZER PARAMETERS [DIRECTORY]: a configuration in place.json, with sub-groups that cut the model's pieces.
place() {
    cat >place.json <<JSON
{"zero_optimization": {"stage": $1, "sub_group_size": 5000, "stage3_param_persistence_threshold": 0,
  "offload_optimizer": {"device": "$2", "nvme_path": "${4:-disk}"}, "offload_param": {"device": "$3", "nvme_path": "${4:-disk}"}}}
JSON
}
left() { ls -A disk; }

# Whether each step read from NVMe, and each line tells of it: "all", "none" or "some".
reads() {
    python3 - "$1" <<'PY'
import sys, json
steps = [l for l in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "loss" in l]
read = [l.get("io", {}).get("nvme", {}).get("read", 0) > 0 for l in steps]
print("all" if all(read) else "some" if any(read) else "none")
PY
}

# placed STAGE OPTIMIZER PARAMETERS [OPTION...]: a run with states there, in run; reads the disk if and only if something lies on it.
placed() {
    local stage=$1 optimizer=$2 parameters=$3 want=none
    shift 3
    place $stage $optimizer $parameters
    train --val none --steps 4 --micro-batch 2 --accumulation 2 --ranks 2 --lr 1e-3 --config place.json --out run --overwrite "$@" ||
        fail "stage $stage, optimizer on $optimizer, parameters on $parameters"
    [ -z "$(left)" ] || fail "left on the disk by stage $stage, optimizer on $optimizer, parameters on $parameters: $(left)"
    case "$optimizer $parameters" in *nvme*) want=all ;; esac
    [ "$(reads run)" = $want ] || fail "of the steps of stage $stage, optimizer on $optimizer, parameters on $parameters, $(reads run) read NVMe, not $want"
}

placed 3 none none
reference=$(fingerprint run)
cp -r run/model model
for optimizer in $(sample "none cpu nvme" "cpu nvme"); do
    for parameters in $(sample "none cpu nvme" nvme); do
        [ "$optimizer $parameters" = "none none" ] && continue
        placed 3 $optimizer $parameters
        [ "$(fingerprint run)" = "$reference" ] || fail "other bits with the optimizer on $optimizer, parameters on $parameters"
    done
done
for stage in $(sample "1 2" 2); do
    for optimizer in $(sample "cpu nvme" nvme); do
        placed $stage $optimizer none
        [ "$(fingerprint run)" = "$reference" ] || fail "other bits at stage $stage with the optimizer on $optimizer"
    done
done
placed 3 none none --dtype bf16
reference=$(fingerprint run)
placed 3 nvme nvme --dtype bf16
[ "$(fingerprint run)" = "$reference" ] || fail "other bits in bf16"

# The update beside the next step: before it starts nothing differs, and an evaluation of the last step is of the model that is kept.
place 3 none none
train --steps 8 --micro-batch 2 --ranks 2 --lr 1e-2 --config place.json --out ordinary --overwrite
for optimizer in $(sample "cpu nvme" nvme); do
    place 2 $optimizer none
    sed -i 's/^{/{"libzero": {"delayed_update": {"start_step": 5}}, /' place.json
    train --steps 8 --micro-batch 2 --ranks 2 --lr 1e-2 --config place.json --out delayed --overwrite
    python3 - <<'PY' || fail "delayed with the optimizer on $optimizer"
import json
ordinary, delayed = ([l["loss"] for l in map(json.loads, open(d + "/metrics.jsonl")) if "grad_norm" in l] for d in ("ordinary", "delayed"))
assert ordinary[:5] == delayed[:5] and ordinary[5] != delayed[5], (ordinary, delayed)
PY
    [ "${first:=$(fingerprint delayed)}" = "$(fingerprint delayed)" ] || fail "a delayed update has other bits with the optimizer on $optimizer"
    [ -z "$(left)" ] || fail "left on the disk by a delayed update: $(left)"
done
place 2 none none
sed -i 's/^{/{"libzero": {"delayed_update": {"start_step": 5}}, /' place.json
refused 78 "offload_optimizer.device is none" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --steps 1 --ranks 2 --config place.json --out out

# What lies where, chosen by the program: it fits, it is the same run, and the configuration that is kept says it.
cat >auto.json <<JSON
{"libzero": {"offload": "auto", "nvme_path": "disk"}}
JSON
chosen() { python3 -c "import json; c = [p for p in json.load(open('plan.json'))['placements'] if p['chosen']]; print(*([$1 for p in c] or ['nothing']))"; }
automatic() { # automatic DEVICE HOST: planned and trained in these budgets
    expect 0 "$ZERO" plan --new $TINY,vocab=256 --micro-batch 2 --ranks 2 --config auto.json --json --device-memory $1 --host-memory $2
    mv out.txt plan.json
    train --val none --steps 4 --micro-batch 2 --accumulation 2 --ranks 2 --lr 1e-3 --config auto.json --out run --overwrite --device-memory $1 --host-memory $2
}
automatic 1GB 1GB
reference=$(fingerprint run)
[ "$(chosen "p['optimizer']")" = device ] || fail "with room on the device: $(chosen "p")"
# The least that any placement with states on the device takes, whichever of them this machine's rates have chosen.
device=$(python3 -c "import json; print(min(p['tiers']['device'] for p in json.load(open('plan.json'))['placements'] if p['optimizer'] == 'device'))")
export XDG_CACHE_HOME=$WORK/cache # from here on the disk need not be measured again
expect 0 "$ZERO" bench io --path disk --seconds 0.001 --bytes 8MiB
automatic $((device * 9 / 10)) 1GB
[ "$(chosen "p['optimizer']")" = host ] || fail "with less room on the device: $(chosen "p")"
[ "$(fingerprint run)" = "$reference" ] || fail "other bits where the program chose $(chosen "p")"
[ "$(python3 -c "import json; c = json.load(open('run/config.json')); print(c['libzero']['offload'], c['zero_optimization']['offload_optimizer']['device'])")" = "given cpu" ] ||
    fail "not what was chosen: $(cat run/config.json)"
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --ranks 2 --config auto.json --dry-run --out dry
grep -q '^offload  auto: stage' out.txt && grep -qE '^ {9}predicted: (a step takes|how long a step takes) ' out.txt || fail "the choice is not told in lines: $(cat out.txt)"
refused 78 "libzero.offload auto: nothing fits" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --steps 1 --ranks 2 --config auto.json --device-memory 1000B --out out

# Evaluation and generation with the same files, on any number of ranks.
ask() { "$ZERO" eval --model model --data "$TEXT" --threads 1 "$@" && "$ZERO" generate --model model --tokens 40 --prompt "12 times" --seed 4 --threads 1 "$@"; }
ask >plain.txt || fail "evaluating and generating"
ask --dtype bf16 >narrow.txt || fail "evaluating and generating in bf16"
cmp -s plain.txt narrow.txt && fail "bf16 measures what fp32 does"
for parameters in $(sample "none cpu nvme" nvme); do
    place 3 nvme $parameters
    sed -i 's/^{/{"train_batch_size": 7, "optimizer": {"type": "SGD", "params": {"lr": 1}}, "bf16": {"enabled": true}, /' place.json
    ask --config place.json --dtype fp32 >out.txt 2>err.txt || fail "with parameters on $parameters: $(cat err.txt)"
    cmp out.txt plain.txt || fail "another answer with parameters on $parameters"
    ask --config place.json >out.txt 2>err.txt || fail "with parameters on $parameters in bf16: $(cat err.txt)"
    cmp out.txt narrow.txt || fail "another answer in bf16 with parameters on $parameters"
    expect 0 "$ZERO" run --ranks 3 "$ZERO" eval --model model --data "$TEXT" --threads 1 --config place.json --dtype fp32
    [ "$(cat out.txt)" = "$(head -3 plain.txt)" ] || fail "three ranks measure something else with parameters on $parameters"
    [ -z "$(left)" ] || fail "left on the disk by an evaluation: $(left)"
done

# Whoever dies, however many, and whenever: nothing is left, and the best model so far is whole.
place 3 nvme nvme
for victims in $(sample "all one all all" "all one"); do
    rm -rf run
    "$ZERO" train --new $TINY --data "$TEXT" --val "$TEXT" --eval-every 2 --threads 1 --quiet --ranks 2 --micro-batch 1 --steps 10000000 --config place.json --out run >out.txt 2>err.txt &
    parent=$!
    for _ in $(seq 600); do [ -e run/best/model.safetensors ] && break; sleep 0.05; done
    [ -e run/best/model.safetensors ] || fail "no evaluation within 30 s: $(cat err.txt)"
    sleep 0.$((RANDOM % 5))
    children=$(children_of $parent)
    [ $victims = all ] || children=$(echo "$children" | tail -1)
    kill -KILL $children
    got=0
    { wait $parent || got=$?; } 2>/dev/null
    parent=
    [ $got -eq 137 ] || fail "exit code $got, not 137, after $victims of the ranks were killed: $(cat err.txt)"
    [ "$(wc -l <err.txt)" -eq 1 ] || fail "message: $(cat err.txt)"
    [ -z "$(left)" ] || fail "left on the disk after $victims of the ranks were killed: $(left)"
    expect 0 "$ZERO" eval --model run/best --data short.txt --threads 1
done

# Directories that will not do: a mistake of whoever wrote the configuration.
attempt=(--new $TINY --data "$TEXT" --threads 1 --quiet --steps 1 --ranks 2 --config place.json --out out)
touch file
mkdir -m 555 sealed
without_power= # of the superuser over modes
[ "$(id -u)" -ne 0 ] || without_power="setpriv --bounding-set=-dac_override,-dac_read_search"
for what in nowhere file sealed; do
    for places in "nvme none" "none nvme"; do
        place 3 $places $what
        [ $what = sealed ] && $without_power test -w sealed && echo "not tested: a directory that cannot be written" && continue
        refused 64 "cannot make a scratch file in \"$what\"" $without_power "$ZERO" train "${attempt[@]}"
    done
done
place 3 none nvme nowhere
refused 64 'cannot make a scratch file in "nowhere"' "$ZERO" eval --model model --data "$TEXT" --threads 1 --config place.json

# Budgets: exactly what the plan says is enough, a byte less is not, and the advice can be followed.
tier() { python3 -c "import json, sys; print(json.load(open('plan.json'))['rows'][0]['tiers']['$1'])"; }
refused_for() { # refused_for TIER OPTION...: a training in `budget` ends with advice, which is then followed
    local where=$1
    shift
    refused 78 "more than its budget of" "$ZERO" train --data "$TEXT" --threads 1 --quiet --steps 1 --out out "$@" --config place.json $budget
    grep -q "are needed on the $where, " err.txt || fail "not the $where: $(cat err.txt)"
    set -- "$@" $(sed -nE 's/.*; stage ([0-3]) with offload_optimizer (none|cpu|nvme), offload_param (none|cpu|nvme), micro-batch ([0-9]+) would fit.*/\1 \2 \3 --micro-batch \4/p' err.txt)
    local given=("${@:1:$#-5}") advice=("${@:$#-4}")
    [ "${advice[3]}" = --micro-batch ] || fail "no advice: $(cat err.txt)"
    place "${advice[0]}" "${advice[1]}" "${advice[2]}"
    expect 0 "$ZERO" train --data "$TEXT" --threads 1 --quiet --steps 1 --out run --overwrite "${given[@]}" "${advice[@]:3}" --config place.json $budget
    echo "${advice[*]}" >advice.txt
}
place 3 cpu cpu
expect 0 "$ZERO" plan --new $TINY --micro-batch 2 --ranks 2 --config place.json --json
mv out.txt plan.json
budget="--device-memory $(tier device) --host-memory $((2 * $(tier host)))"
train --micro-batch 2 --ranks 2 --steps 1 --config place.json --out run --overwrite $budget
refused 78 "are needed on the host for keys, values and logits" "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet --micro-batch 2 --ranks 2 --steps 1 --sample-every 1 \
    --config place.json $budget --out out
budget="--device-memory $(($(tier device) - 1))"
place 3 none none
refused_for device --new $TINY --ranks 2
budget="--host-memory 40MB"
place 3 cpu cpu
refused_for host --new $LARGER
grep -q nvme advice.txt || fail "advice: $(cat advice.txt)"
budget="--device-memory 60MB --host-memory 46MB"
place 3 none none
refused_for device --new $LARGER
grep -q nvme advice.txt || fail "advice: $(cat advice.txt)"

# 19 MB of parameters answer in 8 MB of device and 14 MB of host, through which 3 of 8 units travel at a time.
budget="--device-memory 8MB --host-memory 14MB"
asks=("$ZERO" generate --model run/model --tokens 3 --seed 1 --threads 1)
place 3 none nvme
expect 0 "${asks[@]}"
cp out.txt plain.txt
refused 78 'offload_param nvme' "${asks[@]}" $budget
refused 78 'generating 40 at once' "${asks[@]}" --config place.json --host-memory 14MB --batch 40 --prompts <(seq 40)
expect 0 "${asks[@]}" --config place.json $budget
cmp out.txt plain.txt || fail "another answer in less memory"
[ -z "$(left)" ] || fail "left on the disk: $(left)"

# A model that does not fit whole runs in tiles, says so and writes it down: the same run as one that was asked for these tiles.
wide() { expect 0 "$ZERO" train --new gpt2:layers=2,heads=4,width=256,context=64,vocab=20000 --data "$TEXT" --tokenizer bytes --threads 1 --micro-batch 2 --ranks 2 \
    --steps 2 --seed 3 --val none --out run --overwrite "$@"; }
place 3 nvme nvme
wide --config place.json --device-memory 30MB
grep -q "does not fit undivided: 16 tiles of the token table" out.txt err.txt || fail "no tiles were chosen: $(cat out.txt)"
chosen=$(fingerprint run)
python3 -c 'import json; t = json.load(open("run/config.json"))["libzero"]["tiling"]; assert t["embedding"] == 16 and t["mlp"] == 1, t' || fail "the tiles were not written down"
echo '{"zero_optimization": {"stage": 2}, "libzero": {"tiling": {"embedding": 16}}}' >tiles.json
wide --config tiles.json
[ "$(fingerprint run)" = "$chosen" ] || fail "other bits with the same tiles in memory"
expect 0 "$ZERO" eval --model run/model --data short.txt
mv out.txt plain.txt
expect 0 "$ZERO" eval --model run/model --data short.txt --config tiles.json
cmp out.txt plain.txt || fail "another loss in tiles"
[ -z "$(left)" ] || fail "left on the disk: $(left)"
echo "the same bits on device, host and NVMe"
