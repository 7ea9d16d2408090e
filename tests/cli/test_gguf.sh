#!/usr/bin/env bash
# Models become GGUF files as llama.cpp's converter writes them, and GGUF files become models; adapters become adapters.
. "$(dirname "$0")/lib.sh"
gguf() { python3 "$HERE/gguf.py" "$@"; }

expect 0 "$ZERO" tokenizer train --vocab 300 --data "$TEXT" --out tk
# make NAME SPEC: a training of two steps
make() { expect 0 "$ZERO" train --new "$2" --tokenizer tk --data "$TEXT" --val none --out "$1" --steps 2 --micro-batch 1 --threads 1 --quiet; }

# Each architecture: the file has the tensors that follow from llama.cpp's rules, and what comes back is the model.
S=layers=2,heads=4,width=64,context=32
there_and_back() { # there_and_back NAME SPEC ARCHITECTURE
    make "$1" "$2"
    expect 0 "$ZERO" convert --from "$1/model" --to "$1.gguf" --type f32
    gguf same "$1.gguf" "$1/model" || fail "$1.gguf is not the model"
    [ "$(gguf keys "$1.gguf" general.architecture general.type general.file_type tokenizer.ggml.model tokenizer.ggml.pre tokenizer.ggml.add_bos_token)" = "$3 model 0 gpt2 gpt-2 False" ] ||
        fail "keys of $1: $(gguf keys "$1.gguf" general.architecture general.type general.file_type tokenizer.ggml.model tokenizer.ggml.pre tokenizer.ggml.add_bos_token)"
    expect 0 "$ZERO" convert --from "$1.gguf" --to "$1-back"
    expect 0 "$ZERO" eval --model "$1/model" --data "$TEXT" --threads 1
    mv out.txt loss.txt
    expect 0 "$ZERO" eval --model "$1-back" --data "$TEXT" --threads 1
    cmp out.txt loss.txt || fail "$1 comes back with another loss: $(cat out.txt loss.txt)"
}
there_and_back gpt2 gpt2:$S gpt2
there_and_back llama llama:kv_heads=2,$S llama
there_and_back untied llama:kv_heads=2,tied=0,$S llama
there_and_back qwen2 qwen2:kv_heads=2,$S qwen2
there_and_back qwen3 qwen3:kv_heads=2,head_dim=32,$S qwen3
there_and_back neox pythia-14m:$S gptneox
expect 0 "$ZERO" diff llama/model llama-back
python3 - <<'PY' || fail "llama's config.json comes back with other values"
import json
a, b = [json.load(open(d + "/config.json")) for d in ("llama/model", "llama-back")]
assert a == b, (a, b)
PY
expect 0 "$ZERO" tokenize --tokenizer llama/model --data "$TEXT" --out a.bin
expect 0 "$ZERO" tokenize --tokenizer llama-back --data "$TEXT" --out b.bin
cmp a.bin b.bin || fail "other ids"

# A run, its checkpoint and its model are one file; so is a file of a file.
expect 0 "$ZERO" convert --from llama --to run.gguf --type q8_0
expect 0 "$ZERO" convert --from llama/checkpoints/step-00000002 --to checkpoint.gguf --type q8_0 --quiet
expect 0 "$ZERO" convert --from llama.gguf --to again.gguf --type q8_0
python3 - <<'PY' || fail "a run, its checkpoint and its file become different files"
a, b, c = [open(f + ".gguf", "rb").read() for f in ("run", "checkpoint", "again")]
assert a[-10000:] == b[-10000:] == c[-10000:]
PY
# Types: blocks of 32, fp16 where rows are no whole number of them, f16 if nothing is said; vectors are f32.
make odd llama:layers=1,heads=3,kv_heads=1,width=48,inner=64,context=32
expect 0 "$ZERO" convert --from odd/model --to odd.gguf --type q4_0
cat >types.py <<'PY'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import gguf
print(sorted({(kind, sizes[-1]) for sizes, kind, _ in gguf.Reader(sys.argv[2]).tensors.values()}))
PY
[ "$(python3 types.py "$HERE" odd.gguf | tail -1)" = "[(0, 48), (1, 48), (2, 64)]" ] || fail "types of odd.gguf: $(python3 types.py "$HERE" odd.gguf)"
expect 0 "$ZERO" convert --from llama/model --to usual.gguf
[ "$(python3 types.py "$HERE" usual.gguf | tail -1)" = "[(0, 64), (1, 64), (1, 192)]" ] || fail "types of usual.gguf: $(python3 types.py "$HERE" usual.gguf)"
for type in f16 bf16 q8_0 q4_0; do
    expect 0 "$ZERO" convert --from llama/model --to $type.gguf --type $type
    expect 0 "$ZERO" convert --from $type.gguf --to $type
    expect 0 "$ZERO" convert --from $type --to $type-2.gguf --type $type
    cmp <(tail -c 20000 $type.gguf) <(tail -c 20000 $type-2.gguf) || fail "$type is not what it was once it was read"
done
expect 0 "$ZERO" convert --from q8_0.gguf --to narrow --dtype bf16
grep -q '"torch_dtype": "bfloat16"' narrow/config.json || fail "config.json does not say bfloat16"
expect 0 "$ZERO" inspect q8_0.gguf --json
python3 -c "import json; r = json.load(open('out.txt')); assert r['vectors'][0]['tensors'][0]['name'] == 'model.embed_tokens.weight', r" || fail "$(head -c 300 out.txt)"

# Rotary scaling, windows, biases and chat templates.
python3 - <<'PY'
import json
def edit(name, template=None, **keys):
    import shutil
    shutil.copytree("llama/model", name)
    config = json.load(open(name + "/config.json"))
    config.update(keys)
    json.dump(config, open(name + "/config.json", "w"))
    if template:
        open(name + "/chat_template.jinja", "w").write(template)
edit("yarn", "{{ messages }}\n", rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 16.0, "attention_factor": 1.5})
edit("linear", rope_scaling={"rope_type": "linear", "factor": 2.5})
edit("llama3", rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16})
edit("window", model_type="mistral", sliding_window=16)
edit("whole", rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "truncate": False})
edit("other", model_type="qwen2")
PY
for name in yarn linear llama3 window; do
    expect 0 "$ZERO" convert --from $name --to $name.gguf --type f32
    expect 0 "$ZERO" convert --from $name.gguf --to $name-back
    python3 - $name <<'PY' || fail "$name comes back with other settings"
import json, sys
a, b = [json.load(open(sys.argv[1] + d + "/config.json")) for d in ("", "-back")]
assert a.get("rope_scaling") == b.get("rope_scaling") and a.get("sliding_window") == b.get("sliding_window") and a["model_type"] == b["model_type"], (a, b)
PY
done
cmp yarn/chat_template.jinja yarn-back/chat_template.jinja || fail "another template"
[ "$(gguf keys yarn.gguf llama.rope.scaling.type llama.rope.scaling.factor llama.rope.scaling.original_context_length llama.rope.scaling.yarn_beta_fast)" = "yarn 4.0 8 16.0" ] || fail "keys of yarn"
python3 -c "
import math, struct, subprocess, sys
want = 1.5 / (1 + 0.1 * math.log(4)); got = float(sys.argv[1]); assert abs(want - got) < 1e-6, (want, got)" "$(gguf keys yarn.gguf llama.rope.scaling.attn_factor)" || fail "yarn's factor"
[ "$(gguf keys window.gguf llama.attention.sliding_window llama.context_length)" = "16 32" ] || fail "keys of window"
refused 78 '"truncate" false, which llama.cpp does not compute' "$ZERO" convert --from whole --to no.gguf
refused 65 'has no tensor "model.layers.0.self_attn.q_proj.bias"' "$ZERO" convert --from other --to no.gguf

# Adapters, for two kinds of rows and for weights that lie the other way round.
adapted() { # adapted MODEL MODULE...
    local model=$1
    shift
    rm -rf adapter && gguf adapter adapter "$model/model" "$@" || fail "no adapter"
    expect 0 "$ZERO" convert --from adapter --base "$model/model" --to adapter.gguf --overwrite
    gguf halves adapter.gguf adapter "$model/model" || fail "the adapter of $model"
}
adapted llama model.layers.0.self_attn.q_proj model.layers.1.self_attn.k_proj model.layers.1.mlp.down_proj
[ "$(gguf keys adapter.gguf general.architecture general.type adapter.type adapter.lora.alpha)" = "llama adapter lora 6.0" ] || fail "keys of an adapter"
gguf adapter narrow-adapter llama/model model.layers.0.self_attn.q_proj
refused 65 'does not fit the base model: its shape would be 2 x 48' "$ZERO" convert --from narrow-adapter --base odd/model --to no.gguf
sed 's/layers.0.self_attn.q_proj.lora_B/layers.7.self_attn.q_proj.lora_B/; s/layers.0.self_attn.q_proj.lora_A/layers.7.self_attn.q_proj.lora_A/' narrow-adapter/adapter_model.safetensors >far.safetensors
cp -r narrow-adapter far && mv far.safetensors far/adapter_model.safetensors
refused 78 'is no lora_A or lora_B of a weight' "$ZERO" convert --from far --base llama/model --to no.gguf
sed -i 's/self_attn.q_proj.lora_B/self_attn.q_proj.lora_C/' narrow-adapter/adapter_model.safetensors
refused 65 'only one of lora_A and lora_B of "model.layers.0.self_attn.q_proj.weight"' "$ZERO" convert --from narrow-adapter --base llama/model --to no.gguf
adapted neox gpt_neox.layers.1.attention.query_key_value
adapted gpt2 transformer.h.0.attn.c_attn transformer.h.1.mlp.c_proj
sed -i 's/"use_rslora": false/"use_rslora": true/' adapter/adapter_config.json
expect 0 "$ZERO" convert --from adapter --base gpt2/model --to adapter.gguf --overwrite
[ "$(gguf keys adapter.gguf adapter.lora.alpha | cut -c 1-6)" = 8.4852 ] || fail "alpha of a rank-stabilised adapter: $(gguf keys adapter.gguf adapter.lora.alpha)"
refused 64 'the base model "nobody/knows", which is no directory here' "$ZERO" convert --from adapter --to no.gguf
refused 65 '"c_attn", which is no linear layer of a block of Llama' "$ZERO" convert --from adapter --base qwen2/model --to no.gguf
refused 78 "is an adapter, not a model" "$ZERO" convert --from adapter --to no
sed -i 's/"use_dora": false/"use_dora": true/' adapter/adapter_config.json
refused 78 'is an adapter with magnitudes (use_dora), which an adapter in GGUF cannot have: zero convert --from BASE --adapter adapter' \
    "$ZERO" convert --from adapter --base gpt2/model --to no.gguf
refused 78 '"general.type" is "adapter": only a model is read' "$ZERO" convert --from adapter.gguf --to no

# The adapter that a run has trained is the run's file, and the base is the one that it names.
expect 0 "$ZERO" train --model llama/model --lora r=2,alpha=8,targets=q_proj,rslora --data "$TEXT" --val none --out tuned --steps 2 --micro-batch 1 --threads 1 --quiet
expect 0 "$ZERO" convert --from tuned --to tuned.gguf
gguf halves tuned.gguf tuned/adapter llama/model || fail "the adapter of a run"
[ "$(gguf keys tuned.gguf adapter.lora.alpha general.name | cut -c 1-6)" = 11.313 ] || fail "alpha of a run's adapter"

# Nothing is replaced unasked, and what is written is named for what it is.
refused 64 "is there already" "$ZERO" convert --from llama --to run.gguf
expect 0 "$ZERO" convert --from llama --to run.gguf --overwrite
refused 64 "is read by this command" "$ZERO" convert --from run.gguf --to run.gguf --overwrite
cp "$TEXT" text.gguf
refused 64 "is no GGUF file: it is not replaced" "$ZERO" convert --from llama --to text.gguf --overwrite
refused 64 "what is written there is a GGUF file, not a .bin file: name it m.gguf" "$ZERO" convert --from llama --to m.bin --format gguf
refused 64 "what is written there is a directory, not a .gguf file" "$ZERO" convert --from llama --to m.gguf --format hf
refused 64 "belong to --format gguf" "$ZERO" convert --from llama --to m --type q8_0
refused 64 "belong to --format hf" "$ZERO" convert --from llama --to m.gguf --dtype bf16
refused 64 "one of f32|f16|bf16|q8_0|q4_0" "$ZERO" convert --from llama --to m.gguf --type q5_0
refused 74 "of which zero convert --from FILE --to DIR makes a model directory" "$ZERO" generate --model llama.gguf
python3 - <<'PY'
data = bytearray(open("llama.gguf", "rb").read())
at = data.index(b"blk.1.attn_v.weight")
data[at:at + 19] = b"blk.1.attn_w.weight"
open("strange.gguf", "wb").write(data)
PY
refused 65 'has no tensor "blk.1.attn_v.weight"' "$ZERO" convert --from strange.gguf --to no
expect 0 "$ZERO" convert --from qwen2.gguf --to plain
python3 - <<'PY'
data = bytearray(open("qwen2.gguf", "rb").read())
open("named.gguf", "wb").write(data.replace(b"qwen2", b"llama"))
PY
refused 78 'has the tensor "blk.0.attn_k.bias", which is not computed here' "$ZERO" convert --from named.gguf --to no
head -c 3000 llama.gguf >short.gguf
refused 65 '"short.gguf", offset' "$ZERO" convert --from short.gguf --to no
expect 0 "$ZERO" train --new gpt2:layers=1,heads=1,width=8,context=8 --tokenizer chars --data "$TEXT" --val none --out chars --steps 1 --micro-batch 1 --quiet
refused 78 'all tokens of "chars" are characters' "$ZERO" convert --from chars --to no.gguf
cp -r llama/model bare && rm bare/tokenizer*
refused 65 "no tokenizer is there" "$ZERO" convert --from bare --to no.gguf
expect 0 "$ZERO" convert --from bare --to bare.gguf --model llama/model
[ -z "$(ls -A | grep -E '\.tmp|^no')" ] || fail "left behind: $(ls -A)"
echo "models become GGUF files and come back"
