#!/usr/bin/env bash
# The program on the emulated card: what it trains, saves, resumes and generates there, beside the processor; and what it says where
# something is missing. $EMULATED is the folder of the emulated libraries.
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
: "${EMULATED:?the folder of the emulated libraries}"
GPT2=gpt2:layers=2,heads=1,width=64,context=64
LLAMA=llama:layers=2,heads=2,kv_heads=1,width=64,context=64
export EMULATED_LEAKS=1
export LD_LIBRARY_PATH=$NO_DRIVER # without Meson's folders, which have the emulated libraries

card() { expect 0 env LD_LIBRARY_PATH="$EMULATED" "$ZERO" "$@"; }

# loss RUN: the last loss on the held-out text; losses RUN: the mean of the last 20 steps' losses.
loss() { sed -n 's/.*"val_loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl" | tail -1; }
losses() { sed -n 's/.*"loss":\([0-9.]*\),.*/\1/p' "$1/metrics.jsonl" | tail -20 | awk '{ s += $1 } END { print s / NR }'; }

steps=$(sample 200 20)
settings=(--data "$TEXT" --dtype bf16 --micro-batch 2 --threads 1 --quiet)
for model in $(sample "$GPT2 $LLAMA" "$GPT2"); do
    name=${model%%:*}
    expect 0 "$ZERO" train --new "$model" "${settings[@]}" --steps "$steps" --backend cpu --out "$name cpu"
    card train --new "$model" "${settings[@]}" --steps "$steps" --backend cuda --out "$name cuda" --stage 3
    near "$(loss "$name cpu")" "$(loss "$name cuda")" 0.01 || fail "$name: $(loss "$name cpu") and $(loss "$name cuda")"
    near "$(losses "$name cpu")" "$(losses "$name cuda")" 0.01 || fail "$name: $(losses "$name cpu") and $(losses "$name cuda")"
    grep -q '"instructions": *"emulated, sm_90, driver 13.0, cuBLASLt' "$name cuda/config.json" || fail "$name: its instructions: $(grep instructions "$name cuda/config.json")"
done

# Saved at stage 3 on the card, it goes on at stage 1 there with the same bits; and a run that goes from the processor to the card and back
# is near to one that stays. What the card saved, a replay confirms.
part=(--new "$GPT2" "${settings[@]}" --schedule-lr constant --warmup 0)
card train "${part[@]}" --steps 8 --stage 3 --backend cuda --save-every 4 --out whole
card train "${part[@]}" --steps 4 --stage 3 --backend cuda --out broken
card train "${part[@]}" --steps 8 --stage 1 --backend cuda --out broken --resume
card diff whole/model broken/model
card verify whole
grep -q '^confirmed: steps 5 to 8, .* bit for bit$' out.txt || fail "verify: $(cat out.txt)"
expect 0 "$ZERO" train "${part[@]}" --steps 12 --backend cpu --out stays
expect 0 "$ZERO" train "${part[@]}" --steps 4 --backend cpu --out goes
card train "${part[@]}" --steps 8 --stage 2 --backend cuda --out goes --resume
expect 0 "$ZERO" train "${part[@]}" --steps 12 --stage 3 --backend cpu --out goes --resume
near "$(loss stays)" "$(loss goes)" 0.01 || fail "to the card and back: $(loss goes), not $(loss stays)"

# same A B: the models have the same bits, where the host fuses multiplies and additions as a card does: optimised builds, with FMA.
same()
{
    [ "${ZERO_TEST_SAMPLE:-no}" = yes ] || ! grep -qw fma /proc/cpuinfo || card diff "$1" "$2"
}

# States on a disk.
mkdir disk
echo '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "disk"}}}' >nvme.json
card train "${part[@]}" --steps 8 --backend cuda --config nvme.json --out nvme
same whole/model nvme/model
grep -q '"nvme":[1-9]' nvme/metrics.jsonl || fail "no states on the disk: $(head -1 nvme/metrics.jsonl)"

# One card, the same bits again; with states on the host, too, from which the same weights follow.
few=(--new "$GPT2" "${settings[@]}" --steps 4 --backend cuda)
card train "${few[@]}" --out once
card train "${few[@]}" --out again --stage 2
card diff once/model again/model
echo '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}' >host.json
card train "${few[@]}" --out host --config host.json
same once/model host/model

# auto takes the card and says so; where the card does not train something, it says why not.
expect 0 env LD_LIBRARY_PATH="$EMULATED" "$ZERO" train --new "$GPT2" --data "$TEXT" --steps 1 --out auto
grep -q 'backend  auto: cuda (emulated)' out.txt || fail "auto: $(cat out.txt)"
echo '{"optimizer": {"type": "Muon"}}' >muon.json
expect 0 env LD_LIBRARY_PATH="$EMULATED" "$ZERO" train --new "$GPT2" --data "$TEXT" --steps 1 --config muon.json --out muon
grep -q "backend  auto: cpu; the card of this machine does not train Muon's" out.txt || fail "auto with Muon: $(cat out.txt)"
# What the processor began, it goes on with; --backend says otherwise.
expect 0 "$ZERO" train --new "$GPT2" --data "$TEXT" --steps 1 --out begun
expect 0 env LD_LIBRARY_PATH="$EMULATED" "$ZERO" train --new "$GPT2" --data "$TEXT" --steps 2 --out begun --resume
! grep -q 'backend  auto' out.txt || fail "auto when resumed: $(cat out.txt)"
grep -q 'backend cpu' out.txt || fail "auto when resumed: $(cat out.txt)"

# Text and losses by what was trained there.
card generate --model "gpt2 cuda" --prompt "3 times" --tokens 8 --backend cuda --temperature 0
cp out.txt text
expect 0 "$ZERO" generate --model "gpt2 cuda" --prompt "3 times" --tokens 8 --backend cpu --temperature 0
cmp -s out.txt text || fail "generated on the card: $(cat text); on the processor: $(cat out.txt)"
card eval --model "gpt2 cuda" --data "$TEXT" --backend cuda --json
cp out.txt there
expect 0 "$ZERO" eval --model "gpt2 cuda" --data "$TEXT" --backend cpu --json
python3 - <<'PY' || fail "eval on the card: $(cat there); on the processor: $(cat out.txt)"
import json, sys
a, b = (json.load(open(name)) for name in ("there", "out.txt"))
sys.exit(not abs(a["loss"] - b["loss"]) < 0.01)
PY

# What is missing, too old or wrong is said in a sentence.
try=(train --new "$TINY" --data "$TEXT" --steps 1 --out out --quiet)
refused 78 "libcuda.so.1" "$ZERO" "${try[@]}" --backend cuda
refused 64 'no card "cuda:7"' env LD_LIBRARY_PATH="$EMULATED" "$ZERO" "${try[@]}" --backend cuda:7
refused 78 "compute capability 7.5" env LD_LIBRARY_PATH="$EMULATED" EMULATED_CAPABILITY=75 "$ZERO" "${try[@]}" --backend cuda
refused 64 'no backend "cuda:16"' "$ZERO" "${try[@]}" --backend cuda:16
EMULATED_MEMORY=3000000 refused 78 "device" env LD_LIBRARY_PATH="$EMULATED" "$ZERO" "${try[@]}" --backend cuda

# Nothing of this is loaded by who does not ask for it, and plans need no card.
! ldd "$ZERO" | grep -qi cuda || fail "$(ldd "$ZERO")"
expect 0 "$ZERO" plan --new gpt2 --ranks 1 --dtype bf16 --backend cuda
expect 0 "$ZERO" plan --new llama-3.1-8b --ranks 1 --dtype bf16 --backend cuda:h100-80gb
grep -q 'Nothing of this fits into 84.8 GB' out.txt || fail "$(cat out.txt)"
