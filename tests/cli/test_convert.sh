#!/usr/bin/env bash
# Checkpoints become model directories, DeepSpeed's become checkpoints that a run goes on from, and inspect says what all of them are.
. "$(dirname "$0")/lib.sh"
DEEPSPEED=$HERE/../formats/deepspeed

train --micro-batch 2 --seed 5 --steps 12 --save-every 4 --out run

# A run's newest checkpoint, which is older than its model, and the checkpoint of its last step.
expect 0 "$ZERO" convert --from run/checkpoints/step-00000012 --to hf
cmp hf/model.safetensors run/model/model.safetensors || fail "the last checkpoint's weights are not the model's"
cmp hf/tokenizer.json run/model/tokenizer.json || fail "another tokenizer"
[ "$(ls hf | tr '\n' ' ')" = "config.json model.safetensors receipt.json tokenizer.json tokenizer_config.json " ] || fail "hf holds $(ls hf)"
expect 0 "$ZERO" convert --from run --to newest --quiet
[ ! -s out.txt ] || fail "--quiet prints"
expect 0 "$ZERO" diff hf newest
expect 0 "$ZERO" eval --model hf --data "$TEXT"
mv out.txt loss.txt
expect 0 "$ZERO" eval --model run/model --data "$TEXT"
cmp out.txt loss.txt || fail "another loss"

# Shards and types; a checkpoint alone, away from its run, has its config.json too.
cp -r run/checkpoints/step-00000012 alone
expect 0 "$ZERO" convert --from alone --to narrow --dtype bf16 --shard-size 30kB
grep -q "no tokenizer is there" err.txt || fail "nothing is said of the tokenizer: $(cat err.txt)"
[ "$(ls narrow | grep -c 'model-0000[1-3]-of-00003.safetensors')" = 3 ] && [ -s narrow/model.safetensors.index.json ] || fail "shards: $(ls narrow)"
grep -q '"torch_dtype": "bfloat16"' narrow/config.json || fail "config.json does not say bfloat16"
expect 0 "$ZERO" convert --from narrow --to wide --dtype fp32
expect 0 "$ZERO" convert --from wide --to again --dtype bf16 --shard-size 30kB --model run/model
expect 0 "$ZERO" diff narrow again
mkdir bare && cp run/model/config.json bare
expect 0 "$ZERO" convert --from wide --to without --model bare
grep -q '"bare" has no tokenizer .* copy one to "without"' err.txt && ! grep -q -- --model err.txt || fail "advice that was followed already: $(cat err.txt)"
expect 0 "$ZERO" eval --model again --data "$TEXT"
# GPT-2's two files alone: what is written has a tokenizer.json and a class, too, so that others open it.
cp -r again two && rm two/tokenizer*
python3 - <<'PY'
import json
json.dump(json.load(open("again/tokenizer.json"))["model"]["vocab"], open("two/vocab.json", "w"))
open("two/merges.txt", "w").write("#version: 0.2\n")
PY
expect 0 "$ZERO" convert --from two --to completed
grep -q '"tokenizer_class": "GPT2Tokenizer"' completed/tokenizer_config.json && cmp completed/vocab.json two/vocab.json || fail "the tokenizer's files: $(ls completed)"
mkdir read && cp completed/tokenizer.json completed/config.json completed/model*safetensors* read
expect 0 "$ZERO" eval --model two --data "$TEXT"
mv out.txt two.txt
for model in completed read; do
    expect 0 "$ZERO" eval --model $model --data "$TEXT"
    cmp out.txt two.txt || fail "$model has another tokenizer"
done
# SentencePiece's file alone: likewise.
cp -r again pieces && rm pieces/tokenizer* && cp "$HERE/../tokenizer/sentencepiece/unknown.model" pieces/tokenizer.model
expect 0 "$ZERO" convert --from pieces --to pieces-completed
cmp pieces/tokenizer.model pieces-completed/tokenizer.model || fail "another tokenizer.model"
grep -q '"tokenizer_class": "PreTrainedTokenizerFast"' pieces-completed/tokenizer_config.json && rm pieces-completed/tokenizer.model || fail "no class"
for tokenizer in pieces/tokenizer.model pieces pieces-completed; do
    expect 0 "$ZERO" tokenize --tokenizer $tokenizer --data "$TEXT" --out ids.bin --overwrite
    [ -s first.bin ] || cp ids.bin first.bin
    cmp ids.bin first.bin || fail "$tokenizer has other ids"
done

# Nothing is replaced unasked, and never what is no model, or is being read.
expect 64 "$ZERO" convert --from run --to hf
grep -q "is there already" err.txt || fail "$(cat err.txt)"
expect 0 "$ZERO" convert --from run --to hf --overwrite
expect 64 "$ZERO" convert --from run --to run --overwrite
expect 64 "$ZERO" convert --from hf --to hf --overwrite
grep -q "is read by this command" err.txt || fail "$(cat err.txt)"
expect 64 "$ZERO" convert --from run --to "$TEXT" --overwrite
[ -s "$TEXT" ] && [ -d run/checkpoints ] || fail "something was replaced"
refused 64 "a checkpoint of libzero already" "$ZERO" convert --from run --to out --format libzero
refused 78 "zero train --model starts from it" "$ZERO" convert --from hf --to out --format libzero
refused 64 "one of fp32|bf16|fp16" "$ZERO" convert --from run --to out --dtype auto
refused 64 "usage: zero convert" "$ZERO" convert --to out
refused 74 "is not there" "$ZERO" convert --from nowhere --to out
[ -z "$(ls -A | grep '\.tmp$')" ] || fail "left behind: $(ls -A)"

# DeepSpeed's, of every stage; what was frozen has no state, and comes in fp32 all the same.
for case in s1-groups-r2 s2-schedule-r3 s3-frozen-r3; do
    expect 0 "$ZERO" convert --from "$DEEPSPEED/$case" --to $case
    grep -q "no config.json is there" err.txt || fail "nothing is said of config.json: $(cat err.txt)"
    expect 0 "$ZERO" inspect $case --json
    python3 -c "import json; r = json.load(open('out.txt')); assert r['parameters'] == 2224 and {t['dtype'] for t in r['vectors'][0]['tensors']} == {'F32'}" || fail "$case: $(cat out.txt)"
done
expect 0 "$ZERO" convert --from "$DEEPSPEED/s2-schedule-r3" --to go_on --format libzero
cat >s2-schedule-r3/config.json <<'JSON'
{"model_type": "gpt2", "vocab_size": 50, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": null, "activation_function": "gelu_new",
 "layer_norm_epsilon": 1e-05, "initializer_range": 0.02, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": true}
JSON
# The state that came in is the state that a run goes on from, on any number of ranks, at any stage: its next checkpoint counts on.
GO_ON="--model s2-schedule-r3 --tokenizer chars --data $TEXT --steps 6 --save-every 2 --dtype fp16 --threads 1 --quiet --resume"
cp -r go_on other
expect 0 "$ZERO" train $GO_ON --out go_on --ranks 3 --micro-batch 2 --stage 2
expect 0 "$ZERO" train $GO_ON --out other --ranks 1 --micro-batch 6 --stage 3
expect 0 "$ZERO" inspect go_on
grep -q "AdamW after 6 updates of 6 steps; loss scale 256 (iteration 6" out.txt || fail "not gone on: $(head -8 out.txt)"
grep -q "went on from step 3" out.txt || fail "no lineage: $(head -8 out.txt)"
[ "$(head -1 go_on/metrics.jsonl | cut -c 1-9)" = '{"step":4' ] || fail "begins with $(head -1 go_on/metrics.jsonl | cut -c 1-40)"
python3 - <<'PY' || fail "another loss on one rank"
import json
a, b = [[json.loads(l) for l in open(d + "/metrics.jsonl") if "grad_norm" in l] for d in ("go_on", "other")]
assert len(a) == len(b) == 3 and all(abs(x["loss"] - y["loss"]) < 1e-2 for x, y in zip(a, b)), (a, b)
PY

# A run without weight decay goes on without: 0 is a value. The configuration's own wins.
mkdir none none/global_step3 && cp "$DEEPSPEED/s2-schedule-r3/latest" none
python3 - "$DEEPSPEED/s2-schedule-r3/global_step3" <<'PY'
import os, struct, sys, zipfile
for name in os.listdir(sys.argv[1]):
    with zipfile.ZipFile(sys.argv[1] + "/" + name) as old, zipfile.ZipFile("none/global_step3/" + name, "w") as new:
        for record in old.namelist():
            new.writestr(record, old.read(record).replace(b"G" + struct.pack(">d", 0.1), b"G" + struct.pack(">d", 0)))
PY
expect 0 "$ZERO" convert --from none --to undecayed --format libzero
GO_ON="--model s2-schedule-r3 --tokenizer chars --data $TEXT --save-every 1 --dtype fp16 --threads 1 --micro-batch 6 --eval-every 0 --resume"
undecayed() { # undecayed RUN VALUE WORDS OPTION...: goes on with that weight decay, and says so
    local run=$1 value=$2 words=$3
    shift 3
    expect 0 "$ZERO" train $GO_ON --out "$run" "$@"
    grep -qF -- "$words" out.txt err.txt || fail "nobody says \"$words\": $(cat out.txt err.txt)"
    python3 -c "import json, sys; now = json.load(open('$run/config.json'))['optimizer']['params']['weight_decay']; sys.exit(now != $value)" ||
        fail "another weight decay: $(grep weight_decay "$run/config.json")"
}
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": "auto"}}}' >auto.json
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.05}}}' >given.json
cp -r undecayed given && cp -r undecayed auto
undecayed given 0.05 "weight decay is 0.05 from here on (optimizer.params.weight_decay): the checkpoint was made with 0" --steps 4 --config given.json
undecayed auto 0 "optimizer.params.weight_decay 0: the checkpoint was made with it" --steps 4 --config auto.json
undecayed undecayed 0 "optimizer.params.weight_decay 0: the checkpoint was made with it" --steps 4
undecayed undecayed 0 "optimizer.params.weight_decay 0: the checkpoint was made with it" --steps 5

cp -r "$DEEPSPEED/s2-schedule-r3" broken
chmod -R u+w broken
flip broken/global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt 9000
refused 65 "zero_pp_rank_1_mp_rank_00_optim_states.pt\" is damaged: record" "$ZERO" convert --from broken --to out
echo "checkpoints become models, DeepSpeed's go on"
