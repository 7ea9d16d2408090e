#!/usr/bin/env bash
# Sliding windows, as a user meets them: two layers of three have one of 24 positions. Every grid, tier and precision has the bits of one rank,
# of a stream, of packed examples and of adapters; the keys of config.json go where the model goes; what contradicts itself is refused.
. "$(dirname "$0")/lib.sh"
mkdir model nvme
cp "$HERE"/generate/sliding/* model
cp "$HERE/../tokenizer/tokenizers/llama2.json" model/tokenizer.json
python3 - >examples.jsonl <<'PY'
import json
for i in range(90):
    print(json.dumps({"prompt": f"what is {i}?", "completion": f" it is {i * i}" + "!" * (i % 23)}))
PY
SLICES='"train_batch_size": 4, "libzero": {"exact_tensor": 2, "exact_world": true, "exact_pipeline": true}'
DISK='{"device": "nvme", "nvme_path": "nvme"}'
config() { echo "{$SLICES${2:-}}" >"$1.json"; } # config NAME MORE
config plain
config bf16 ', "bf16": {"enabled": true}'
config fp16 ', "fp16": {"enabled": true}'
config nvme ", \"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": $DISK, \"offload_param\": $DISK}"
config again ', "activation_checkpointing": {"number_checkpoints": 2}'
run() { expect 0 "$ZERO" train --model model --threads 1 --micro-batch 1 --seq 80 --quiet --steps 3 --config "$2.json" --out "$1" --overwrite "${@:3}"; }
same() { [ "$(fingerprint "$1")" = "$(fingerprint "$2")" ] || fail "$3: $2 differs from $1"; }
cat >rows <<'ROWS'
plain --ranks 4 --stage 3
again --ranks 2 --tensor 2 --sequence-parallel
plain --ranks 4 --pipeline 2 --tensor 2
plain --ranks 2 --stage 1
nvme --ranks 2
plain --ranks 2 --pipeline 2 --schedule zb-h1
bf16 --ranks 4 --tensor 2 --stage 2
fp16 --ranks 2 --stage 3
again --ranks 2 --stage 3
ROWS
mapfile -t rows <rows
n=0
for what in stream packed adapters; do
    case $what in
    stream) data="--data $TEXT --val none" ;;
    packed) data="--data examples.jsonl --val none" ;;
    adapters) data="--data $TEXT --val none --lora r=2" ;;
    esac
    for row in "${rows[@]}"; do
        # Each kind of data begins elsewhere in the table, so that a sample has other rows of each.
        [ $((n++ % $(sample 1 4))) -eq 0 ] || continue
        name=${row%% *}
        # shellcheck disable=SC2086 # words
        [ -e "$what-$name" ] || run "$what-$name" "$name" --ranks 1 $data
        # shellcheck disable=SC2086
        run other "$name" ${row#* } $data
        if [ $what = adapters ]; then
            cmp other/adapter/adapter_model.safetensors "$what-$name/adapter/adapter_model.safetensors" || fail "$what, $row: other adapters"
        else same "$what-$name" other "$what, $row"; fi
    done
done

# The keys go where the model goes, in their order of meaning; a window that is not there computes something else.
keys() { python3 -c "import json, sys; c = json.load(open(sys.argv[1])); print(*(json.dumps(c.get(k)) for k in ('use_sliding_window', 'sliding_window', 'max_window_layers', 'layer_types')))" "$1"; }
asked=$(keys model/config.json)
[ "$(keys stream-plain/model/config.json)" = "$asked" ] || fail "a training leaves $(keys stream-plain/model/config.json)"
expect 0 "$ZERO" convert --from model --to copy
[ "$(keys copy/config.json)" = "$asked" ] || fail "convert leaves $(keys copy/config.json)"
loss() { expect 0 "$ZERO" eval --model "$1" --data "$TEXT" --seq "$2" --threads 1; sed -n 's/^loss //p' out.txt; }
cp -r model whole
sed -i 's/"use_sliding_window": true/"use_sliding_window": false/; s/"sliding_attention"/"full_attention"/' whole/config.json
[ "$(loss model 24)" = "$(loss whole 24)" ] || fail "windows of 24 tokens have another loss than without a window"
[ "$(loss model 25)" != "$(loss whole 25)" ] || fail "the window changes nothing"

# Resumed, with keys that say nothing next to a checkpoint that had none of them.
sed 's/"sliding_window": 24/"sliding_window": null/; /"max_window_layers"/d' whole/config.json >whole/other.json
expect 0 "$ZERO" train --model whole --data "$TEXT" --val none --threads 1 --seq 40 --micro-batch 1 --steps 2 --save-every 1 --quiet --out resumed
mv whole/other.json whole/config.json
expect 0 "$ZERO" train --model whole --data "$TEXT" --val none --threads 1 --seq 40 --micro-batch 1 --steps 3 --quiet --out resumed --resume

# GGUF has the window, and which layers have it.
expect 0 "$ZERO" convert --from model --to model.gguf --type f32
[ "$(python3 "$HERE/gguf.py" keys model.gguf qwen3.attention.sliding_window qwen3.attention.sliding_window_pattern)" = "24 [True, False, True]" ] ||
    fail "GGUF: $(python3 "$HERE/gguf.py" keys model.gguf qwen3.attention.sliding_window qwen3.attention.sliding_window_pattern)"
expect 0 "$ZERO" convert --from model.gguf --to back
[ "$(loss back 80)" = "$(loss model 80)" ] || fail "the model that comes back from GGUF has another loss"
expect 0 "$ZERO" convert --from whole --to whole.gguf --type f32
! grep -q sliding whole.gguf || fail "GGUF names a window that is not used"

# What is refused: one line, with the file and the key.
wrong() { # wrong CODE WORDS EDIT
    sed "$3" model/config.json >copy/config.json
    refused "$1" "$2" "$ZERO" eval --model copy --data "$TEXT"
    grep -qF copy/config.json err.txt || fail "no file in: $(cat err.txt)"
}
wrong 65 '"sliding_window" is 0: a window has 1 position or more' 's/"sliding_window": 24/"sliding_window": 0/'
wrong 65 '"sliding_window" is -3' 's/"sliding_window": 24/"sliding_window": -3/'
wrong 65 '"layer_types" has 2 types, "num_hidden_layers" is 3' '0,/"sliding_attention",/{/"sliding_attention",/d}'
wrong 78 '"layer_types" has "linear_attention" for layer 1' 's/"full_attention"/"linear_attention"/'
wrong 78 '"sliding_attention" for layer 0: "use_sliding_window" is not true' 's/"use_sliding_window": true/"use_sliding_window": false/'
echo "windows give the bits of one rank, and go where the model goes"
