#!/usr/bin/env bash
# Llama and its variants through the program: trained by every stage to the same bits, exported, read again, fine-tuned, planned, refused.
. "$(dirname "$0")/lib.sh"
FIELDS=layers=2,heads=4,kv_heads=2,width=32,context=32

for stage in 0 3; do
    expect 0 "$ZERO" train --new "llama:$FIELDS" --data "$TEXT" --threads 1 --ranks 2 --stage $stage --steps 8 --out run$stage --explain
    fingerprint run$stage >stage$stage.txt
done
cmp stage0.txt stage3.txt || fail "stage 3 trained another Llama than stage 0"
grep -q '4 heads (2 of keys and values)' err.txt out.txt || fail "the first lines do not say what is trained"

for name in mistral qwen2 qwen3; do
    expect 0 "$ZERO" train --new "$name:$FIELDS,tied=0" --data "$TEXT" --threads 1 --steps 3 --quiet --out $name
    python3 - $name <<'PY' || fail "config.json of $name"
import json, sys
config = json.load(open(sys.argv[1] + "/model/config.json"))
assert config["model_type"] == sys.argv[1] and config["num_key_value_heads"] == 2 and config["tie_word_embeddings"] is False, config
header = open(sys.argv[1] + "/model/model.safetensors", "rb").read()
tensors = json.loads(header[8:8 + int.from_bytes(header[:8], "little")])
layer = "model.layers.1.self_attn."
assert tensors["lm_head.weight"]["shape"] == [256, 32] and tensors[layer + "k_proj.weight"]["shape"] == [16, 32]
assert (layer + "q_proj.bias" in tensors) == (sys.argv[1] == "qwen2") and (layer + "q_norm.weight" in tensors) == (sys.argv[1] == "qwen3")
PY
    expect 0 "$ZERO" eval --model $name/model --data "$TEXT" --threads 1
    cp out.txt loss.txt
    expect 0 "$ZERO" generate --model $name/model --prompt "12 times" --tokens 40 --temperature 0 --threads 1
    # The smallest rate that is taken moves a weight by at most its size, and the loss by no more than its last digits: what comes out is what went in.
    expect 0 "$ZERO" train --model $name/model --data "$TEXT" --threads 1 --steps 1 --lr 1e-12 --ranks 2 --stage 3 --quiet --out again-$name
    cmp $name/model/config.json again-$name/model/config.json || fail "config.json of $name changed"
    expect 0 "$ZERO" eval --model again-$name/model --data "$TEXT" --threads 1
    python3 - $name/model again-$name/model loss.txt out.txt <<'PY' || fail "$name came back as another model"
import array, sys

def weights(path):
    data = open(path + "/model.safetensors", "rb").read()
    return array.array("f", data[8 + int.from_bytes(data[:8], "little"):])

def loss(path):
    return float(open(path).readline().split()[1])

before, after = weights(sys.argv[1]), weights(sys.argv[2])
moved = max(abs(a - b) for a, b in zip(before, after, strict=True))
assert moved < 2e-12, f"a weight moved by {moved}"
assert abs(loss(sys.argv[3]) - loss(sys.argv[4])) < 1e-6, "the loss changed"
PY
done

# A run where a model is asked for: its model is taken, and this is said; a run without one says what there is.
taken() {
    local said='"qwen2" is the directory of a run: its model "qwen2/model" is taken'
    expect 0 "$@"
    [ "$(grep -cF "$said" err.txt)" -eq 1 ] || fail "$2 does not say once which model it takes: $(cat err.txt)"
}
expect 0 "$ZERO" eval --model qwen2/model --data "$TEXT" --threads 1
cp out.txt loss.txt
evaluate=("$ZERO" eval --model qwen2 --data "$TEXT" --threads 1)
taken "${evaluate[@]}"
cmp out.txt loss.txt || fail "the run's model is another"
taken "$ZERO" run --ranks 2 "${evaluate[@]}"
cmp out.txt loss.txt || fail "the run's model is another on two ranks"
taken "$ZERO" generate --model qwen2 --chat chatml --tokens 5 --threads 1
taken "$ZERO" data show --model qwen2 --data "$TEXT" --threads 1
taken "$ZERO" data show --tokenizer qwen2 --data "$TEXT" --threads 1
taken "$ZERO" tokenize --tokenizer qwen2 --data "$TEXT" --out ids.bin --threads 1
taken "$ZERO" plan --model qwen2 --ranks 2
taken "$ZERO" convert --from mistral/model --model qwen2 --to mixed
taken "$ZERO" train --model qwen2 --data "$TEXT" --threads 1 --ranks 2 --steps 2 --save-every 1 --out further
grep -q "opens the tokenizer of any qwen2 as Qwen2.s own" err.txt || fail "nothing is said of what transformers makes of a qwen2 with other tokens"
grep -q '"model": "qwen2/model"' further/config.json || fail "config.json does not name the model itself: $(grep model further/config.json)"
expect 0 "$ZERO" verify further
taken "$ZERO" train --new $TINY --tokenizer qwen2 --data "$TEXT" --threads 1 --steps 1 --dry-run
# As a run is that was interrupted: all but the weights is in model/, from the first step.
whole=$(expect 0 "$ZERO" eval --model further --data "$TEXT" --seq 16 --threads 1; grep '^loss' out.txt)
mv further/model/model.safetensors weights
expect 0 "$ZERO" eval --model further --data "$TEXT" --seq 16 --threads 1
grep -qF 'the weights of its newest checkpoint "further/checkpoints/step-00000002" are taken' err.txt || fail "no line names the checkpoint: $(cat err.txt)"
[ "$(grep '^loss' out.txt)" = "$whole" ] || fail "the checkpoint's loss is not the model's $whole: $(cat out.txt)"
expect 0 "$ZERO" convert --from further --to again
[ -f again/tokenizer.json ] || fail "the tokenizer of an interrupted run: $(ls again)"
"$ZERO" train --new $TINY --tokenizer again --data "$TEXT" --threads 1 --steps 1000000 --save-every 1 --quiet --out cut >cut.txt 2>&1 &
job=$!
for _ in $(seq 500); do [ -e cut/checkpoints/latest ] && break; kill -0 $job || break; sleep 0.02; done
kill -INT $job
wait $job || true
expect 0 "$ZERO" generate --model cut --tokens 3 --threads 1
expect 0 "$ZERO" convert --from cut --to cut-model
[ -f cut-model/tokenizer.json ] || fail "the tokenizer of a run that was cut: $(ls cut-model; cat cut.txt)"
mv further/model gone
refused 64 'a run that has no model yet; zero convert --from further --to DIR makes one of its newest checkpoint, "further/checkpoints/step-00000002"' "$ZERO" eval --model further --data "$TEXT"
refused 64 'is a checkpoint, not a model; zero convert --from further/checkpoints/step-00000002' "$ZERO" train --model further/checkpoints/step-00000002 --data "$TEXT" --out out
rm -r further/checkpoints
refused 64 'its best one so far is "further/best"' "$ZERO" generate --model further
rm -r further/best
refused 64 'neither a model nor a checkpoint yet' "$ZERO" generate --model further

# A tied head may lie in the file; a head of its own must.
python3 - <<'PY'
import json, os
def rewrite(source, target, change):
    os.makedirs(target)
    data = open(source + "/model.safetensors", "rb").read()
    n = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + n]), data[8 + n:]
    tensors = {k: (v["dtype"], v["shape"], body[v["data_offsets"][0]:v["data_offsets"][1]]) for k, v in header.items() if k != "__metadata__"}
    change(tensors)
    header, body = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    text = json.dumps(header).encode()
    open(target + "/model.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + body)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        if os.path.exists(source + "/" + name):
            open(target + "/" + name, "wb").write(open(source + "/" + name, "rb").read())
def repeat(tensors):
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = ("F32", [4], bytes(16))
rewrite("run3/model", "repeated", repeat)
rewrite("qwen2/model", "headless", lambda tensors: tensors.pop("lm_head.weight"))
rewrite("run3/model", "forked", lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"][:2] + (tensors["model.embed_tokens.weight"][2][:-4] + bytes(4),)}))
rewrite("run3/model", "biased", lambda tensors: tensors.update({"model.layers.0.self_attn.q_proj.bias": ("F32", [32], bytes(128))}))
PY
expect 0 "$ZERO" eval --model run3/model --data "$TEXT" --threads 1
cp out.txt loss.txt
expect 0 "$ZERO" eval --model repeated --data "$TEXT" --threads 1
cmp out.txt loss.txt || fail "a repeated head changed the model"
refused 65 'lm_head.weight' "$ZERO" eval --model headless --data "$TEXT" --threads 1

# A head of its own beside "tie_word_embeddings": true: only the last element differs, which the last rank compares.
own='lm_head.weight has other values than model.embed_tokens.weight, but config.json says that both are one ("tie_word_embeddings"): false there uses it, --ignore-unused leaves it out'
expect 65 "$ZERO" eval --model forked --data "$TEXT" --threads 1 --ranks 2
grep -qF "$own" err.txt || fail "of a head of its own: $(cat err.txt)"
refused 65 "$own" "$ZERO" generate --model forked --prompt "12" --tokens 2 --threads 1
refused 65 "$own" "$ZERO" train --model forked --data "$TEXT" --threads 1 --steps 1 --quiet --out out
expect 0 "$ZERO" eval --model forked --data "$TEXT" --threads 1 --ignore-unused
cmp out.txt loss.txt || fail "a head that is left out changed the model"
expect 0 "$ZERO" convert --from forked --to forked-again --dtype bf16
grep -q 'lm_head.weight has other values than the table of tokens' err.txt || fail "convert says nothing of a head of its own: $(cat err.txt)"
expect 0 "$ZERO" convert --from repeated --to repeated-again
[ ! -s err.txt ] || fail "convert of a repeated head: $(cat err.txt)"
sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' forked/config.json
expect 0 "$ZERO" eval --model forked --data "$TEXT" --threads 1
! cmp -s out.txt loss.txt || fail "the head of its own is not used"

# A tensor that the model has no place for is refused by every command that computes with it, or left out where that is asked for.
unused='has 1 tensor that the model has no place for (--ignore-unused leaves it out): model.layers.0.self_attn.q_proj.bias'
refused 65 "$unused" "$ZERO" eval --model biased --data "$TEXT" --threads 1
refused 65 "$unused" "$ZERO" generate --model biased --prompt "12" --tokens 2 --threads 1
refused 65 "$unused" "$ZERO" train --model biased --data "$TEXT" --threads 1 --steps 1 --quiet --dry-run
expect 0 "$ZERO" eval --model biased --data "$TEXT" --threads 1 --ignore-unused
cmp out.txt loss.txt || fail "a tensor that is left out changed the model"
grep -q '1 tensor left out that the model has no place for: model.layers.0.self_attn.q_proj.bias' err.txt || fail "nothing is said of what is left out"
expect 0 "$ZERO" generate --model biased --prompt "12" --tokens 2 --threads 1 --ignore-unused
expect 0 "$ZERO" train --model biased --data "$TEXT" --threads 1 --steps 1 --ranks 2 --out went-on --ignore-unused
[ "$(grep -c 'left out that the model' err.txt)" -eq 1 ] || fail "not said once: $(cat err.txt)"
sed 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' run3/model/config.json >biased/config.json
refused 65 'has 10 tensors' "$ZERO" eval --model biased --data "$TEXT" --threads 1

expect 0 "$ZERO" plan --model qwen3/model/config.json --ranks 2
expect 0 "$ZERO" plan --new smollm2-135m --ranks 4 --seq 512
grep -q '134.515 M parameters' out.txt || fail "the plan of smollm2-135m: $(head -1 out.txt)"
expect 0 "$ZERO" bench step --new "llama:$FIELDS" --micro-batch 1 --threads 1
refused 64 'did you mean "llama"' "$ZERO" train --new lama --data "$TEXT" --out out
refused 64 'cannot share 3 heads of keys' "$ZERO" train --new llama:layers=1,heads=4,kv_heads=3,width=32,context=8 --data "$TEXT" --out out
mkdir broken && sed 's/"hidden_act": "silu"/"hidden_act": "gelu"/' run3/model/config.json >broken/config.json
refused 78 '"hidden_act" is "gelu"' "$ZERO" train --model broken --tokenizer bytes --data "$TEXT" --out out
echo "three variants and Llama, in and out"
