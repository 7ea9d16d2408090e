#!/usr/bin/env bash
# Models of torch.save (tests/oracle/torch_models.py) become model directories and GGUF files; damaged and foreign ones are refused.
. "$(dirname "$0")/lib.sh"
TORCH=$HERE/../formats/torch

# A directory with pytorch_model.bin: the same tensors as in safetensors, config.json, and the tokenizer where there is one.
cp -r "$TORCH/gpt2" gpt2
expect 0 "$ZERO" convert --from gpt2 --to model
cmp model/config.json gpt2/config.json || fail "another config.json"
mkdir same && cp "$TORCH/gpt2.safetensors" same/model.safetensors
expect 0 "$ZERO" diff model same
expect 0 "$ZERO" eval --model model --tokenizer bytes --data "$TEXT" --threads 1
expect 0 "$ZERO" convert --from gpt2 --to narrow --dtype bf16
grep -q '"torch_dtype": "bfloat16"\|"dtype": "bfloat16"' narrow/config.json || fail "config.json does not say bfloat16"
expect 0 "$ZERO" convert --from gpt2/pytorch_model.bin --to file --model gpt2 --quiet
expect 0 "$ZERO" diff model file
train --tokenizer bytes --steps 1 --out run
cp run/model/tokenizer*.json gpt2
expect 0 "$ZERO" convert --from gpt2 --to model --overwrite
[ -s model/tokenizer.json ] || fail "no tokenizer: $(ls model)"
expect 0 "$ZERO" convert --from gpt2 --to torch.gguf --type f32
expect 0 "$ZERO" convert --from model --to model.gguf --type f32
cmp <(tail -c 2000 torch.gguf) <(tail -c 2000 model.gguf) || fail "another GGUF file"

# A head of its own, although config.json says that it is the table of tokens, is copied with a warning; a GGUF file would lose it.
cp -r gpt2 headed
python3 - <<'PY'
import zipfile
with zipfile.ZipFile("gpt2/pytorch_model.bin") as archive:
    records = {name: archive.read(name) for name in archive.namelist()}
values, storages = "pytorch_model/data.pkl", "pytorch_model/data/"
before, after = records[values].split(b"lm_head.weight", 1)
assert b"h\x05h\x06h\x07" in after  # the class of the storage, its key, its device
records[values] = before + b"lm_head.weight" + after.replace(b"h\x05h\x06h\x07", b"h\x05X\x02\0\0\x0099h\x07", 1)
records[storages + "99"] = records[storages + "0"][:-4] + b"\0\0\x80\x3f"
with zipfile.ZipFile("headed/pytorch_model.bin", "w") as archive:
    for name, data in records.items():
        archive.writestr(name, data)
PY
expect 0 "$ZERO" convert --from headed --to headed-model
grep -q "lm_head.weight has other values than the table of tokens" err.txt || fail "nothing is said of the head: $(cat err.txt)"
refused 65 "lm_head.weight has other values than the table of tokens" "$ZERO" convert --from headed --to out.gguf

# Shards with an index are one model, whose types are kept.
expect 0 "$ZERO" convert --from "$TORCH/shards" --to shards
expect 0 "$ZERO" convert --from "$TORCH/types.bin" --to types
cmp shards/model.safetensors types/model.safetensors || fail "shards are another model"
expect 0 "$ZERO" inspect "$TORCH/shards" --json --verify
python3 - <<'PY' || fail "inspect: $(cat out.txt)"
import json
report = json.load(open("out.txt"))
assert report["kind"] == "torch.save" and report["verify"]["checksums"] and not report["verify"]["damaged"], report
assert {t["name"]: t["dtype"] for t in report["vectors"][0]["tensors"]}["brain"] == "BF16", report
PY

# Training and generating read safetensors, and say how to come by them.
ADVICE='"gpt2" has its weights in pytorch_model.bin, which training and generating do not read; zero convert --from gpt2 --to DIR makes'
refused 64 "$ADVICE" "$ZERO" eval --model gpt2 --tokenizer bytes --data "$TEXT"
refused 64 "$ADVICE" "$ZERO" train --model gpt2 --tokenizer bytes --data "$TEXT" --out out --steps 1 --quiet
refused 64 "$ADVICE" "$ZERO" generate --model gpt2 --prompt owl
refused 74 'zero convert --from FILE --to DIR' "$ZERO" eval --model gpt2/pytorch_model.bin --data "$TEXT"

# What is refused leaves nothing behind.
size=$(wc -c <gpt2/pytorch_model.bin)
head -c $((size - 100)) gpt2/pytorch_model.bin >cut.bin
refused 65 "cut.bin" "$ZERO" convert --from cut.bin --to out
cp gpt2/pytorch_model.bin flipped.bin
python3 - <<'PY'
import zipfile
data = bytearray(open("flipped.bin", "rb").read())
with zipfile.ZipFile("flipped.bin") as archive:
    record = next(i for i in archive.infolist() if i.filename.endswith("/data/0"))
data[record.header_offset + 30 + int.from_bytes(data[record.header_offset + 26:][:2], "little") + int.from_bytes(data[record.header_offset + 28:][:2], "little")] ^= 1
open("flipped.bin", "wb").write(data)
PY
refused 65 '"flipped.bin" is damaged: record "pytorch_model/data/0"' "$ZERO" convert --from flipped.bin --to out
refused 65 '"epoch" is no tensor' "$ZERO" convert --from "$TORCH/nested.pt" --to out
refused 65 "asks for Python's \"posix.system\"" "$ZERO" convert --from "$TORCH/calls.bin" --to out
refused 78 'the tensor "weight" do not lie one after another' "$ZERO" convert --from "$TORCH/turned.bin" --to out
refused 65 "before 1.6" "$ZERO" convert --from "$TORCH/legacy.bin" --to out
cp -r "$TORCH/shards" part && rm part/*-00002-*
refused 74 "pytorch_model-00002-of-00002.bin" "$ZERO" convert --from part --to out
sed -i 's/"single"/"other"/' part/*.json && cp "$TORCH/shards"/*-00002-* part
refused 65 'the tensor "other" should be in "pytorch_model-00001-of-00002.bin"' "$ZERO" convert --from part --to out
refused 65 'has no tensor' "$ZERO" convert --from "$TORCH/types.bin" --model gpt2 --to out.gguf
refused 78 "is a model, which has no training state" "$ZERO" convert --from gpt2 --to out --format libzero

# nanoGPT's ckpt.pt is a GPT-2 with the other gelu, whose matrices are turned and whose missing biases are zeros.
for name in biased ckpt; do
    expect 0 "$ZERO" convert --from "$TORCH/nanogpt/$name.pt" --to nano-$name
    grep -q "no tokenizer is there" err.txt || fail "nothing is said of the tokenizer: $(cat err.txt)"
    mkdir wanted-$name && cp "$TORCH/nanogpt/$name.safetensors" wanted-$name/model.safetensors
    expect 0 "$ZERO" diff nano-$name wanted-$name
    grep -q '"activation_function": "gelu"' nano-$name/config.json || fail "config.json: $(cat nano-$name/config.json)"
    expect 0 "$ZERO" plan --model nano-$name
done

# Its meta.pkl, of any protocol, is a tokenizer of characters; what is none is left out, and what contradicts itself is refused.
mkdir with && cp "$TORCH/nanogpt/ckpt.pt" with
meta() { # meta PROTOCOL ITOS [STOI]
    python3 - "$@" <<'PY'
import pickle, sys
itos = dict(enumerate(eval(sys.argv[2])))
stoi = {text: id for id, text in itos.items()}
stoi.update(eval(sys.argv[3]) if len(sys.argv) > 3 else {})
pickle.dump({"vocab_size": len(itos), "itos": itos, "stoi": stoi}, open("with/meta.pkl", "wb"), protocol=int(sys.argv[1]))
PY
}
for protocol in 2 3 4 5; do
    meta $protocol "'\n zé€😀abcdefg'"
    expect 0 "$ZERO" convert --from with/ckpt.pt --to with/$protocol
    [ ! -s err.txt ] || fail "$(cat err.txt)"
done
python3 - <<'PY' || fail "another vocabulary: $(cat with/4/tokenizer.json)"
import json
for protocol in "2345":
    assert json.load(open(f"with/{protocol}/tokenizer.json"))["model"]["vocab"] == {text: id for id, text in enumerate("\n zé€😀abcdefg")}
PY
printf 'abc de zé\n%.0s' 1 2 3 4 >with.txt
expect 0 "$ZERO" tokenize --tokenizer with/4 --data with.txt --out with.bin
meta 4 "'abcdefghijk'" # as many as the model has
expect 0 "$ZERO" convert --from with/ckpt.pt --to with/all
yes 'abc kid ' | tr -d ' \n' | head -c 200 >with.txt
expect 0 "$ZERO" eval --model with/all --data with.txt --threads 1
expect 0 "$ZERO" generate --model with/all --prompt abc --tokens 4
meta 4 "['ab', 'c']"
expect 0 "$ZERO" convert --from with/ckpt.pt --to with/words
grep -q "no tokenizer is there" err.txt && [ ! -e with/words/tokenizer.json ] || fail "tokens of two characters: $(ls with/words)"
meta 4 "'abc'" "{'b': 2}"
refused 65 '"itos" and "stoi" do not give each id' "$ZERO" convert --from with/ckpt.pt --to out
meta 4 "'abc'" "{'d': 2}"
refused 65 '"itos" has 3 tokens and "stoi" has 4' "$ZERO" convert --from with/ckpt.pt --to out
printf '\x80\x04\x8c\x02os\x8c\x06system\x93.' >with/meta.pkl
refused 65 "the instruction 0x93" "$ZERO" convert --from with/ckpt.pt --to out
# A directory that is named gives the tokenizer, not the configuration.
expect 0 "$ZERO" convert --from "$TORCH/nanogpt/ckpt.pt" --to named --model run/model
cmp named/config.json nano-ckpt/config.json && [ -s named/tokenizer.json ] || fail "named: $(ls named)"

expect 0 "$ZERO" convert --from "$TORCH/nanogpt/ckpt.pt" --to nano --dtype bf16
grep -q '"torch_dtype": "bfloat16"' nano/config.json || fail "config.json does not say bfloat16"
expect 0 "$ZERO" inspect "$TORCH/nanogpt/ckpt.pt"
grep -q "gpt2 of 2 layers, width 4" out.txt && ! grep -q "step" out.txt || fail "inspect: $(cat out.txt)"
refused 78 "GGUF has no architecture for this model (GPT-2 with gelu by the error function)" "$ZERO" convert --from "$TORCH/nanogpt/ckpt.pt" --to out.gguf
refused 78 "is not the table of tokens" "$ZERO" convert --from "$TORCH/nanogpt/untied.pt" --to out
