#!/usr/bin/env bash
# Adapters as a user meets them: the same bits at every stage and on every grid of ranks, with everything else that a training can have; the
# base is never written; checkpoints hold adapters alone; what is refused.
. "$(dirname "$0")/lib.sh"
. "$HERE/adapters.sh"
LORA=r=3,alpha=5
run() { # run NAME CONFIG OPTION...: trains adapters of a base
    expect 0 "$ZERO" train --lora "$LORA" --data "$TEXT" --threads 1 --micro-batch 1 --quiet --config "$2.json" --out "$1" --seed 7 "${@:3}"
}

expect 0 "$ZERO" train --new gpt2:layers=3,heads=4,width=32,context=32,dropout=0.1 --data "$TEXT" --threads 1 --quiet --steps 20 --lr 0.01 --out gpt
expect 0 "$ZERO" train --new llama:layers=3,heads=4,kv_heads=2,width=32,inner=64,context=32,tied=0,vocab=257 --data "$TEXT" --threads 1 --quiet --steps 20 \
    --lr 0.01 --out llama
for base in gpt llama; do sha256sum <$base/model/model.safetensors >$base.sum; done

# Pairs: adapters and everything that divides or places a training. Each row is a configuration (all rows of it have one set of bits) and
# the options of a run that is compared with one rank's at stage 0.
HOST='"offload_optimizer": {"device": "cpu"}'
DISK='{"device": "nvme", "nvme_path": "nvme"}'
mkdir nvme
config plain
config lamb "" ', "optimizer": {"type": "Lamb", "params": {"lr": 0.01}}'
config host "" ", \"zero_optimization\": {\"stage\": 2, $HOST}"
config delayed ', "delayed_update": {"start_step": 2}' ", \"zero_optimization\": {\"stage\": 2, $HOST}"
config fp16 "" ', "fp16": {"enabled": true}'
config bf16 "" ', "bf16": {"enabled": true}'
config nvme "" ", \"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": $DISK, \"offload_param\": $DISK}"
config nvme16 "" ", \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": $DISK, \"offload_param\": $DISK}"
config again "" ', "activation_checkpointing": {"number_checkpoints": 2}'
config shares "" ', "activation_checkpointing": {"number_checkpoints": 2, "partition_activations": true, "cpu_checkpointing": true}'
config pipe ', "exact_pipeline": true'
cat >rows <<'ROWS'
plain --ranks 2 --stage 1
plain --ranks 4 --stage 2
plain --ranks 4 --stage 3
plain --ranks 2 --tensor 2 --stage 1
plain --ranks 4 --tensor 2 --stage 3 --sequence-parallel
plain --ranks 4 --tensor 4 --stage 2
pipe --ranks 2 --pipeline 2 --schedule 1f1b
pipe --ranks 2 --pipeline 2 --schedule gpipe
pipe --ranks 4 --pipeline 2 --schedule zb-h1 --stage 1
pipe --ranks 2 --pipeline 2 --schedule interleaved:2
pipe --ranks 4 --pipeline 2 --tensor 2
lamb --ranks 4 --stage 3 --tensor 2
host --ranks 2
delayed --ranks 2
fp16 --ranks 4 --stage 3
fp16 --ranks 2 --tensor 2
bf16 --ranks 4 --stage 2
bf16 --ranks 4 --tensor 2 --stage 3
bf16 --ranks 2 --pipeline 2 --schedule zb-h1
nvme --ranks 2
nvme16 --ranks 4 --tensor 2
again --ranks 2 --stage 3
shares --ranks 4 --tensor 2
ROWS
# compare_rows WHAT: trains each row on each base, and compares it with one rank; the base stays as it was.
compare_rows() {
    for base in $(sample "llama gpt" llama); do
        while read -r name options; do
            case $(sample all few) in few) [ $((n++ % 4)) -eq 0 ] || continue ;; esac
            [ -e "one-$name" ] || run "one-$name" "$name" --model $base --ranks 1 --steps 4
            # shellcheck disable=SC2086 # words
            run other "$name" --model $base --steps 4 $options
            same "one-$name" other "$name $options on $base$1"
            rm -r other
        done <rows
        rm -r one-*
        sha256sum <$base/model/model.safetensors | cmp -s - $base.sum || fail "the base $base was written"
    done
}
n=0
compare_rows ""

# The base lies once on a machine: each rank counts its part of it at every stage, as planned and as held, and the adapters whole at stages
# 0 to 2. In fp32 their gradients, whole at stage 0, have as many bytes.
expect 0 "$ZERO" plan --model llama/model --lora $LORA --config plain.json --ranks 4 --micro-batch 1 --json
mv out.txt plan.json
for stage in 0 1 2 3; do run once plain --model llama --ranks 4 --stage $stage --steps 1 --overwrite && mv once/metrics.jsonl held-$stage; done
python3 - <<'PY' || fail "the base is not counted once: $(cat err.txt)"
import json
rows = {row["stage"]: row["bytes"] for row in json.load(open("plan.json"))["rows"]}
adapters = rows[0]["gradients"]
base = rows[3]["parameters"] - adapters // 4
for stage in range(4):
    held = [step["mem"] for step in map(json.loads, open(f"held-{stage}")) if "mem" in step][-1]["parameters"]["held"]
    want = base + (adapters if stage < 3 else adapters // 4)
    assert base > 0 and rows[stage]["parameters"] == held == want, (stage, rows[stage]["parameters"], held, want)
PY

for stage in 1 3; do
    expect 0 "$ZERO" plan --model llama/model --lora r=3 --ranks 2 --stage $stage --draw -
    grep -q '^layers.0/1 .F...|..b.$' out.txt || fail "frozen weights are not drawn as read: $(grep '^layers.0/1' out.txt)"
done

# The same with magnitudes, which begin as the norms of the base's rows: the first loss is that of adapters without them.
LORA=r=3,alpha=5,dora
cat >rows <<'ROWS'
plain --ranks 4 --tensor 2 --stage 3 --sequence-parallel
plain --ranks 4 --stage 3
plain --ranks 4 --tensor 4 --stage 2
plain --ranks 2 --tensor 2
pipe --ranks 4 --pipeline 2 --tensor 2 --schedule zb-h1 --sequence-parallel
pipe --ranks 2 --pipeline 2 --schedule 1f1b
pipe --ranks 4 --pipeline 2 --schedule zb-h1 --stage 1
host --ranks 2
fp16 --ranks 2 --tensor 2
bf16 --ranks 4 --tensor 2 --stage 3
nvme16 --ranks 4 --tensor 2
again --ranks 2 --stage 3
shares --ranks 4 --tensor 2
ROWS
compare_rows " with magnitudes"
LORA=r=3,dora,dropout=0.2
for options in "--ranks 1" "--ranks 4 --tensor 4 --sequence-parallel --stage 1"; do
    # shellcheck disable=SC2086 # words
    run other plain --model gpt --steps 4 $options
    if [ -e one ]; then same one other "magnitudes and dropout on $options"; else mv other one; fi
done
rm -r one other
# Without a promise of bits a cut model's losses are those of the whole one, all but for rounding; every byte held is planned.
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "train_batch_size": 2}' >free.json
LORA=r=3,dora
for options in "--ranks 1" "--ranks 2 --tensor 2 --stage 3"; do
    # shellcheck disable=SC2086 # words
    run other free --model llama --steps 20 $options
    [ -e one ] || { mv other one; continue; }
    python3 - <<'PY' || fail "magnitudes in slices: $(cat err.txt)"
import json
one, other = [[json.loads(line) for line in open(f"{name}/metrics.jsonl")] for name in ("one", "other")]
losses = [(a["loss"], b["loss"]) for a, b in zip(one, other) if "loss" in a]
assert len(losses) == 20 and losses[-1][0] < losses[0][0], losses
assert all(abs(a / b - 1) < 1e-6 for a, b in losses), losses
held = [of for step in other for of in step.get("mem", {}).values() if isinstance(of, dict)]
assert held and all(of["held"] == of["planned"] for of in held), held
PY
done
rm -r one other
# norms NAME BASE: compares the magnitudes that a run with a rate of 0 leaves with the norms of the base's rows.
norms() {
    python3 - "$1" "$2" <<'PY'
import sys, json, struct, math
def tensors(path):
    raw = open(path, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    for name, of in json.loads(raw[8:8 + size]).items():
        first, end = of["data_offsets"] if name != "__metadata__" else (0, 0)
        yield name, of.get("shape"), struct.unpack(f"<{(end - first) // 4}f", raw[8 + size + first:8 + size + end])
base = {name.replace("transformer.", ""): (shape, values) for name, shape, values in tensors(sys.argv[2])}
checked = 0
for name, shape, values in tensors(sys.argv[1] + "/adapter/adapter_model.safetensors"):
    if not name.endswith(".lora_magnitude_vector"):
        continue
    name = name.replace("base_model.model.", "").replace("transformer.", "").replace(".lora_magnitude_vector", ".weight")
    (rows, columns), weight = base[name]
    for i, value in enumerate(values):
        row = weight[i * columns:(i + 1) * columns] if "h." not in name else weight[i::columns]
        assert abs(value / math.sqrt(sum(x * x for x in row)) - 1) < 1e-6, (name, i)
    checked += 1
assert checked in (12, 21), checked # of 3 layers
PY
}
first() { of "$1" | sed -n 1p | cut -d, -f 2; } # the first loss
close() { python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(not abs(a / b - 1) <= 1e-6)' "$1" "$2"; }
expect 0 "$ZERO" train --new llama:layers=2,heads=4,kv_heads=2,width=128,inner=128,context=32,tied=0,vocab=257 --data "$TEXT" --threads 1 --quiet --steps 5 \
    --lr 0.01 --out wide
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 0}}, "train_batch_size": 2}' >still.json
for base in llama gpt "gpt --tensor 2" "wide --base nf4 --tensor 2" "wide --base int8" "wide --base int8 --tensor 2"; do
    for LORA in r=3 r=3,dora,dropout=0.2; do
        # shellcheck disable=SC2086 # words
        run "first-$LORA" still --model $base --ranks 2 --stage 3 --steps 1
    done
    close "$(first first-r=3)" "$(first first-r=3,dora,dropout=0.2)" || fail "magnitudes of $base do not begin as norms"
    case $base in *--base*) ;; *) norms first-r=3,dora,dropout=0.2 "${base%% *}/model/model.safetensors" || fail "the magnitudes of $base" ;; esac
    rm -r first-*
done
echo '{"libzero": {"tiling": {"mlp": 2}}}' >tiles.json
refused 78 'which adapters with magnitudes (dora) cannot adapt' "$ZERO" train --data "$TEXT" --threads 1 --quiet --model llama --lora r=3,dora --config tiles.json --steps 1 --out none
# Merged, it is what it was with its adapter; a checkpoint goes on as if nothing had been, also on other tensor ranks.
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "libzero": {"exact_tensor": 4}}' >rate.json
going=("$ZERO" train --data "$TEXT" --config rate.json --threads 1 --quiet --micro-batch 1 --keep 0 --model llama)
LORA=r=3,dora,dropout=0.1
expect 0 "${going[@]}" --lora $LORA --save-every 2 --steps 4 --out part --ranks 2 --tensor 2
expect 0 "${going[@]}" --lora $LORA --save-every 2 --steps 6 --out part --resume --ranks 4 --tensor 4 --stage 3 --sequence-parallel
expect 0 "${going[@]}" --lora $LORA --save-every 3 --steps 6 --out parts
cmp part/adapter/adapter_model.safetensors parts/adapter/adapter_model.safetensors || fail "4 steps and 2 more are not 6 with magnitudes"
refused 78 'is of a training with the adapters r=3,alpha=6,targets=all-linear,dropout=0.1,dora, this one has r=3' "${going[@]}" --lora r=3,dropout=0.1 --steps 7 --out part --resume
expect 0 "$ZERO" verify part
expect 0 "$ZERO" convert --from llama --adapter part --to merged
loss() { "$ZERO" eval --data "$TEXT" --threads 1 "$@" 2>&1 | sed -n 's/.*loss \([0-9.]*\).*/\1/p' | head -n 1; }
apart=$(loss --model llama --adapter part) merged=$(loss --model merged) base=$(loss --model llama)
cut=$(loss --model llama --adapter part --ranks 2 --tensor 2)
# Other sums in another order: their last digit is the processor's.
near "$apart" "$merged" 2e-7 && near "$apart" "$cut" 2e-7 && ! near "$apart" "$base" 1e-4 ||
    fail "with its adapter: $apart, in slices: $cut, merged: $merged, without: $base"
said() { "$ZERO" generate --threads 1 --model llama --adapter part --prompt "12 times 4" --tokens 12 --temperature 0 "$@" 2>/dev/null | sed 1q; }
[ -n "$(said)" ] && [ "$(said)" = "$(said --ranks 2 --tensor 2)" ] || fail "generated in slices: $(said --ranks 2 --tensor 2), whole: $(said)"

# A run goes on with its own adapters on its own base, and verify repeats it; anything else is refused, in one sentence.
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 0.01}}}' >rate.json # one rate, however long the run
going=("$ZERO" train --data "$TEXT" --config rate.json --threads 1 --quiet --micro-batch 1 --save-every 2 --keep 0 --out going)
expect 0 "${going[@]}" --model llama --lora r=3,dropout=0.1 --steps 4
expect 0 "$ZERO" train --data "$TEXT" --config rate.json --threads 1 --quiet --micro-batch 1 --save-every 3 --model llama --lora r=3,dropout=0.1 --steps 6 --out whole
no() { refused "$1" "$2" "${going[@]}" --steps 6 --resume "${@:3}"; } # no CODE WORDS OPTION...
no 78 'is of a training with the adapters r=3,alpha=6,targets=all-linear,dropout=0.1, this one has r=4' --model llama/model --lora r=4,dropout=0.1
no 78 'this one has r=3,alpha=6,targets=all-linear,dropout=0.5 (--lora): to change it on purpose: --allow-change dropout' --model llama/model --lora r=3,dropout=0.5
no 78 'this one has none' --model llama/model
expect 0 "${going[@]}" --model llama --lora r=3,dropout=0.1 --steps 6 --resume
cmp going/adapter/adapter_model.safetensors whole/adapter/adapter_model.safetensors || fail "4 steps and 2 more are not 6"
expect 0 "$ZERO" verify going
expect 0 "${going[@]}" --model llama --lora r=3,dropout=0.5 --steps 8 --resume --allow-change dropout
going=("$ZERO" train --data "$TEXT" --threads 1 --quiet --micro-batch 1 --steps 1 --out none)
refused 64 '--lora adapts a model that is there' "${going[@]}" --new gpt2:layers=1,heads=2,width=16,context=16 --lora r=2
refused 78 'has no linear layer "k_prj" that can have an adapter: there are q_proj, k_proj' "${going[@]}" --model llama/model --lora r=2,targets=k_prj
refused 78 'has no rank' "${going[@]}" --model llama/model --lora alpha=2
refused 64 'has adapters of a model: --model llama/model --adapter going takes them' "${going[@]}" --model going
refused 64 'says all of it' "${going[@]}" --model llama/model --lora_rank 4
