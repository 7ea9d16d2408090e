#!/usr/bin/env bash
# Adapters of models that give texts labels: the head trains whole next to them, with the same bits on all grids and tiers; what they write is
# read as peft's files are, becomes a classifier, goes on; and what does not fit is refused.
. "$(dirname "$0")/lib.sh"
. "$HERE/labels.sh"

adapt() { rate=1e-2 learn "$1" --lora "${words:-r=4,alpha=16}" "${@:2}"; }

adapt one
python3 - <<'PY' || fail "the adapter"
import json, struct
lines = list(map(json.loads, open("one/metrics.jsonl")))
losses = [line["loss"] for line in lines if "loss" in line]
assert abs(losses[0] - 1.0986) < 0.2 and losses[-1] < 0.7 * losses[0], losses # log 3 at first
config = json.load(open("one/adapter/adapter_config.json"))
assert config["task_type"] == "SEQ_CLS" and config["modules_to_save"] == ["classifier", "score"], config
labels = json.load(open("one/adapter/labels.json"))
assert labels["id2label"] == {"0": "fair", "1": "good", "2": "poor"} and labels["label2id"]["poor"] == 2, labels
with open("one/adapter/adapter_model.safetensors", "rb") as f:
    tensors = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
assert tensors["base_model.model.score.weight"]["shape"] == [3, 32], tensors
assert len(tensors) == 2 + 2 * 2 * 7 and not any("lm_head" in name for name in tensors), tensors # with __metadata__
PY

while read -r name config options; do
    # shellcheck disable=SC2086 # words
    config=$config.json adapt "$name" $options
    same one "$name"
done <<'ROWS'
ranks-3 exact --ranks 2 --stage 3
pipeline exact --ranks 2 --pipeline 2
host host --ranks 2 --stage 3
nvme nvme --ranks 2 --stage 3
ROWS
adapt tensor --ranks 2 --tensor 2
alike one tensor
words=r=4,dora adapt magnitudes
words=r=4,dora adapt magnitudes-2 --ranks 2 --stage 3
same magnitudes magnitudes-2
adapt codes --base int8
adapt codes-2 --base int8 --ranks 2 --stage 2 --dtype fp32
same codes codes-2
config=delayed.json adapt delayed --ranks 2
every=16 steps=32 adapt overlapping --ranks 2 --pipeline 2 --schedule 2bw

# measured MODEL RUN ARGUMENTS...: an evaluation measures what the run has measured at its end, and goes to out.txt.
measured()
{
    expect 0 "$ZERO" eval --model "$1" --data held.jsonl --seq 128 --threads 1 --json "${@:3}"
    python3 - "$2" <<'PY' || fail "eval of $*: $(tail -n 1 out.txt)"
import json, sys
own = json.loads(open("out.txt").read().splitlines()[-1])
last = [line for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "val_loss" in line][-1]
assert own["texts"] == 30 and own["accuracy"] == last["val_accuracy"] and abs(own["loss"] - last["val_loss"]) < 1e-5, (own, last)
PY
}
measured base one --adapter one
measured base one --adapter one/adapter --ranks 2 --tensor 2
measured base codes --adapter codes --base int8

# Merged they are a classifier, without the head of tokens, with the labels and the class of transformers.
# Another number of labels, which the model's config.json says, does not stay.
cp -r base numbered-base
sed -i 's/"model_type"/"num_labels": 5, "model_type"/' numbered-base/model/config.json
for run in one magnitudes; do
    expect 0 "$ZERO" convert --from numbered-base/model --adapter $run --to merged-$run
    ! grep -q num_labels merged-$run/config.json || fail "num_labels remains: $(cat merged-$run/config.json)"
    measured merged-$run $run
done
grep -q '"LlamaForSequenceClassification"' merged-one/config.json || fail "class: $(cat merged-one/config.json)"
expect 0 "$ZERO" inspect merged-one
says '3 labels: "fair", "good" and "poor"'
says 'score.weight'
! grep -q lm_head out.txt || fail "the head of tokens was merged: $(cat out.txt)"

# Adapters of a classifier begin with its head, whose first loss is the classifier's, and merge into it.
expect 0 "$ZERO" train --model merged-one --lora r=2 --data texts.jsonl --val held.jsonl --out further --steps 1 --lr 1e-12 --seq 128 --micro-batch 4 \
    --threads 1 --eval-every 1 --quiet
measured merged-one further
measured merged-one further --adapter further
expect 0 "$ZERO" convert --from merged-one --adapter further --to merged-further
measured merged-further further
# As peft saves them they have no names of labels, and get those of transformers.
cp -r one/adapter unnamed && rm unnamed/labels.json
sed 's/"fair"/"LABEL_0"/; s/"good"/"LABEL_1"/; s/"poor"/"LABEL_2"/' held.jsonl >numbered.jsonl
expect 0 "$ZERO" eval --model base --adapter unnamed --data numbered.jsonl --seq 128 --threads 1 --json
tail -n 1 out.txt >numbered.txt
measured base one --adapter one
tail -n 1 out.txt | cmp - numbered.txt || fail "labels without names: $(cat numbered.txt)"

# A run goes on, and its checkpoints become the same adapter.
steps=15 adapt short --save-every 15 --keep 0
adapt short --save-every 15 --keep 0 --resume
expect 0 "$ZERO" verify short
expect 0 "$ZERO" convert --from short/checkpoints/step-00000030 --to of-checkpoint
for file in adapter_model.safetensors adapter_config.json labels.json; do
    cmp short/adapter/$file of-checkpoint/$file || fail "$file of a checkpoint"
done

refuses 78 'a GGUF file is of a model that continues texts' convert --from one --to one.gguf
refuses 78 'a GGUF file is of a model that continues texts' convert --from base --adapter one --to one.gguf
refuses 78 'zero generate continues texts' generate --model base --adapter one --prompt a --tokens 2
refuses 64 'has adapters of a model' eval --model one/adapter --data held.jsonl
expect 0 "$ZERO" train --model base --lora r=2 --data text.txt --out continues --steps 1 --micro-batch 1 --seq 64 --threads 1 --quiet
refuses 65 'is an adapter of a model that continues texts' eval --model merged-one --adapter continues --data held.jsonl
refuses 65 'has no labels' eval --model base --adapter continues --task classify --data held.jsonl
# spoilt LABELS WORDS: an adapter with these labels is refused so.
spoilt()
{
    rm -rf spoilt && cp -r one/adapter spoilt && echo "$1" >spoilt/labels.json
    refuses 65 "$2" eval --model base --adapter spoilt --data held.jsonl --seq 128
}
spoilt '{}' 'the key id2label is no object with a name for each label'
spoilt '{"id2label": {"0": "fair"}}' 'at least two labels can be told apart'
spoilt '{"id2label": {"0": "a", "2": "b"}}' 'the key id2label has 2 labels, and "1" is not the text of one'
spoilt '{"id2label": {"0": "fair", "1": "fair"}}' 'two labels are called "fair"'
spoilt '{"id2label": {"0": "fair", "1": "good", "2": "poor", "3": "odd"}}' 'score.weight'
refuses 65 'the head of 4 labels would be 4 x 32 real numbers' convert --from base --adapter spoilt --to spoilt-merged
