#!/usr/bin/env bash
# The example of fine-tuning: from a model and conversations to an adapter, and an answer with it, as the program gives it.
#   finetune.sh ZERO FINETUNE
set -u
zero=$(realpath "$1") finetune=$(realpath "$2")
fail() { echo "finetune: $*" >&2; exit 1; }
work=$(mktemp -d) && cd "$work" || exit 99
trap 'cd /; rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/.cache"
for i in $(seq 60); do
    printf '{"messages": [{"role": "user", "content": "what is %d?"}, {"role": "assistant", "content": "it is %d."}]}\n' $i $i
done >chat.jsonl
"$zero" train --new llama:layers=1,heads=2,width=32,context=64 --data chat.jsonl --chat chatml --threads 1 --steps 40 --lr 0.01 --out base --quiet >log 2>&1 ||
    fail "no base: $(tail -1 log)"
said=$("$finetune" base/model chat.jsonl tuned "what is 7?" 2>log) || fail "exit status $?: $(tail -1 log)"
[ -s tuned/adapter/adapter_model.safetensors ] && [ -s tuned/adapter/adapter_config.json ] || fail "no adapter"
answer=$("$zero" generate --model base/model --adapter tuned --chat auto --tokens 64 --temperature 0 --prompt "what is 7?" 2>log) || fail "$(tail -1 log)"
[ -n "$said" ] && [ "$said" = "$answer" ] || fail "it said \"$said\", the program says \"$answer\""
"$finetune" base/model missing.jsonl other "x" 2>log && fail "data that is not there was read"
grep -q missing.jsonl log || fail "of missing data: $(cat log)"
