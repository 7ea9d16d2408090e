#!/usr/bin/env bash
# Trainings that give texts labels: they learn them; ranks, stages, precisions, tensor ranks and pipelines compute the same losses and
# accuracies; what they write is read again, goes on and is verified; and what has no labels, or others, is refused.
. "$(dirname "$0")/lib.sh"
. "$HERE/labels.sh"

learn one
python3 - <<'PY' || fail "it learns nothing"
import json
lines = list(map(json.loads, open("one/metrics.jsonl")))
losses = [line["loss"] for line in lines if "loss" in line]
assert abs(losses[0] - 1.0986) < 0.2 and losses[-1] < 0.5 * losses[0], losses # log 3 at first
assert [line["val_accuracy"] for line in lines if "val_accuracy" in line][-1] > 0.8, lines
config = json.load(open("one/model/config.json"))
assert config["architectures"] == ["LlamaForSequenceClassification"] and config["problem_type"] == "single_label_classification", config
assert config["id2label"] == {"0": "fair", "1": "good", "2": "poor"} and config["label2id"] == {"fair": 0, "good": 1, "poor": 2}, config
PY
for stage in 1 2 3; do
    learn ranks-$stage --ranks 2 --stage $stage
    same one ranks-$stage
done
learn pipeline --ranks 2 --pipeline 2
alike one pipeline
learn pipeline-4 --ranks 4 --pipeline 2 --stage 1
same pipeline pipeline-4
learn tensor --ranks 2 --tensor 2
alike one tensor
learn tensor-4 --ranks 4 --tensor 2 --sequence-parallel --stage 2
alike tensor tensor-4
for tier in host nvme; do
    config=$tier.json learn $tier --ranks 2 --stage 3
    same one $tier
done
# Updates that are delayed, and schedules whose steps overlap, by any number of data ranks.
config=delayed.json learn delayed
config=delayed.json learn delayed-2 --ranks 2
same delayed delayed-2
every=16 steps=32 learn overlapping --ranks 2 --pipeline 2 --schedule 2bw
every=16 steps=32 learn overlapping-4 --ranks 4 --pipeline 2 --schedule 2bw --stage 1
same overlapping overlapping-4
sed 's/"start_step": 2/"start_step": 1/' delayed.json >delayed-1.json
every=16 steps=32 config=delayed-1.json learn overlapping-1
same overlapping overlapping-1
every=16 steps=32 config=stages.json learn stages --ranks 2 --pipeline 2 --schedule pipedream
every=16 steps=32 config=stages.json learn stages-4 --ranks 4 --pipeline 2 --tensor 2 --schedule pipedream
alike stages stages-4
learn half --dtype bf16
learn half-2 --dtype bf16 --ranks 2 --stage 3
same half half-2

# What is measured again is what the training has measured, by any number of ranks, whose share of labels may be empty.
measured()
{
    expect 0 "$ZERO" eval --model one --data held.jsonl --seq 128 --threads 1 --json "$@"
    python3 - "$(cat out.txt)" <<'PY' || fail "eval $*: $(cat out.txt)"
import json, sys
own = json.loads(sys.argv[1].splitlines()[-1])
last = [line for line in map(json.loads, open("one/metrics.jsonl")) if "val_loss" in line][-1]
assert own["texts"] == own["tokens"] == 30 and own["accuracy"] == last["val_accuracy"], (own, last)
assert abs(own["loss"] - last["val_loss"]) < 1e-5 and "perplexity" not in own, (own, last)
PY
}
measured
measured --task classify --ranks 3
measured --ranks 2 --tensor 2

# Two tensor ranks have 64 labels and 6, and find the largest logit of both.
python3 -c 'import json
for i in range(350): print(json.dumps({"text": chr(33 + i % 70) * 3, "label": i % 70}))' >many.jsonl
tail -n 70 many.jsonl | tail -n 6 >last.jsonl
expect 0 "$ZERO" train --model base --task classify --data many.jsonl --val none --out many --steps 60 --seq 64 --micro-batch 4 --threads 1 \
    --lr 1e-2 --quiet
for ranks in 1 2; do
    expect 0 "$ZERO" eval --model many --data last.jsonl --threads 1 --json --ranks $ranks --tensor $ranks
    tail -n 1 out.txt | python3 -c 'import json, sys; assert json.loads(sys.stdin.read())["accuracy"] == 1' || fail "of many labels, $ranks: $(cat out.txt)"
done

# Each text has a line, in the order of the data, however ranks and windows divide it.
for options in "" "--ranks 3" "--ranks 2 --tensor 2"; do
    # shellcheck disable=SC2086 # words
    expect 0 "$ZERO" eval --model one --data held.jsonl --seq 24 --threads 1 --json $options
    python3 - <<'PY' || fail "lines of texts, $options: $(head -3 out.txt)"
import json
records = list(map(json.loads, open("held.jsonl")))
*texts, own = map(json.loads, open("out.txt"))
assert [text["text"] for text in texts] == list(range(1, 31)) and own["windows"] > 10, texts
assert [text["label"] for text in texts] == [record["label"] for record in records], texts
assert all(1 / 3 < text["probability"] <= 1 for text in texts), texts
assert abs(sum(text["predicted"] == text["label"] for text in texts) / 30 - own["accuracy"]) < 1e-9, (texts, own)
PY
done

# A text with a logit that is not finite does not have its label, and is told all the same.
for bad in nan inf; do
    rm -rf bad
    cp -r one/model bad
    python3 - $bad <<'PY'
import json, struct, sys
with open("bad/model.safetensors", "r+b") as f:
    length = struct.unpack("<Q", f.read(8))[0]
    score = json.loads(f.read(length))["score.weight"]
    assert score["dtype"] == "F32" and score["shape"][0] == 3, score
    f.seek(8 + length + score["data_offsets"][1] - 4) # of label 2
    f.write(struct.pack("<f", float(sys.argv[1])))
PY
    for options in "" "--ranks 2 --tensor 2"; do
        # shellcheck disable=SC2086 # words
        expect 0 "$ZERO" eval --model bad --data held.jsonl --seq 24 --threads 1 --json $options
        python3 - <<'PY' || fail "$bad, $options: $(head -3 out.txt; tail -1 out.txt)"
import json
*texts, own = map(json.loads, open("out.txt"))
assert [text["text"] for text in texts] == list(range(1, 31)), texts
assert all(text["predicted"] is None and text["probability"] is None for text in texts), texts
assert own["accuracy"] == 0 and own["texts"] == 30, own
PY
    done
done

# A run goes on with its labels, and is verified; a classifier is trained further without a task.
learn short --save-every 10 --keep 0
rm -r short/checkpoints/step-000000[23]0 short/model
learn short --save-every 10 --keep 0 --resume
same one short
cmp one/model/model.safetensors short/model/model.safetensors || fail "a run that goes on ends with other weights"
expect 0 "$ZERO" verify short
expect 0 "$ZERO" train --model one --data texts.jsonl --out further --steps 2 --seq 128 --micro-batch 2 --threads 1 --quiet
expect 0 "$ZERO" convert --from one/checkpoints/step-00000030 --to converted
expect 0 "$ZERO" diff one/model converted
expect 0 "$ZERO" inspect one/model
says '3 labels: "fair", "good" and "poor"'
python3 - <<'PY'
import json
config = json.load(open("converted/config.json"))
config["id2label"] = {str(i): f"{i}x" + "é" * 250 for i in range(3)}
json.dump(config, open("converted/config.json", "w"))
PY
expect 0 "$ZERO" inspect converted
says 'é" and 2 more'
# Samples continue texts, which this model does not.
expect 0 "$ZERO" train --model one --data texts.jsonl --out further --overwrite --steps 2 --seq 128 --micro-batch 2 --threads 1 --sample-every 1
[ "$(cat out.txt err.txt | grep -c -- '--sample-every is left out: the model gives texts labels')" -eq 1 ] || fail "samples: $(cat out.txt err.txt)"

# Numbers are labels in their order, other fields are named, and a number is also a label's own.
expect 0 "$ZERO" train --model base --task classify --data texts-stars.jsonl --map text=review,label=stars --out stars --steps 2 \
    --seq 128 --micro-batch 2 --threads 1 --quiet
grep -q '"id2label": {"0": "1", "1": "3", "2": "10"}' stars/model/config.json || fail "labels: $(grep id2label stars/model/config.json)"
expect 0 "$ZERO" eval --model stars --data held-stars.jsonl --map text=review,label=stars
echo '{"text": "a bright cat", "label": 1}' >number.jsonl
echo '{"text": "a bright cat", "label": "good"}' >name.jsonl
expect 0 "$ZERO" eval --model one --data number.jsonl --json
by_number=$(cat out.txt)
expect 0 "$ZERO" eval --model one --data name.jsonl --json
[ "$by_number" = "$(cat out.txt)" ] || fail "label 1 is not \"good\": $by_number, $(cat out.txt)"
# Texts are shown with their labels: those of the data, or the model's.
for model in "--task classify --tokenizer bytes" "--model one"; do
    # shellcheck disable=SC2086 # words
    expect 0 "$ZERO" data show $model --data texts.jsonl --seq 128 --val none --micro-batch 1 --json
    python3 - <<'PY' || fail "shown, $model: $(head -c 400 out.txt)"
import json
wanted = {record["text"]: record["label"] for record in map(json.loads, open("texts.jsonl"))}
sample = json.load(open("out.txt"))
assert sample["targets"] == sample["examples"] == len(sample["parts"]) > 3, sample
assert all(part["label"] == wanted[part["text"]] and part["begins"] and not part["target"] for part in sample["parts"]), sample
PY
done
expect 0 "$ZERO" data show --task classify --tokenizer bytes --data texts.jsonl --seq 128 --val none --micro-batch 1
grep -q '^--- label good ---$' out.txt || fail "shown: $(cat out.txt)"
# Names that are numbers have no other numbers, and each is its own label.
echo '{"review": "a dull cat", "stars": 1}' >first.jsonl
expect 0 "$ZERO" eval --model stars --data first.jsonl --map text=review,label=stars --json
head -n 1 out.txt | grep -q '"label":"1"' || fail "the label 1: $(cat out.txt)"
echo '{"review": "a dull cat", "stars": 2}' >between.jsonl
refuses 65 'between.jsonl:1: the label "2" is none of the model' eval --model stars --data between.jsonl --map text=review,label=stars
# A long text loses its end, as in transformers.
expect 0 "$ZERO" eval --model one --data held.jsonl --seq 4
says 'longer than a window of 4 tokens'

train_labels=(train --task classify --seq 128 --micro-batch 1 --threads 1 --steps 2 --quiet)
printf '{"text": "a", "label": "good"}\n{"text": "b", "label": "odd"}\n' >odd.jsonl
refuses 65 'odd.jsonl:2: the label "odd" is none of the model' eval --model one --data odd.jsonl
refuses 65 'odd.jsonl:2: the label "odd"' "${train_labels[@]}" --model base --data texts.jsonl --val odd.jsonl --out x
for bad in '{"text": "a"}' '{"text": "a", "label": 1.5}' '{"text": "a", "label": true}' '{"text": "a", "label": ""}' '{"label": 1}'; do
    echo "$bad" >bad.jsonl
    refuses 65 'bad.jsonl:1: its "' "${train_labels[@]}" --model base --data bad.jsonl --out x
done
refuses 65 'at least two labels' "${train_labels[@]}" --model base --data name.jsonl --out x
refuses 65 'texts with labels are records' "${train_labels[@]}" --model base --data text.txt --out x
refuses 64 'reads text=FIELD and label=FIELD alone' "${train_labels[@]}" --model base --data texts.jsonl --map prompt=text,completion=label --out x
refuses 78 'must not see each other' "${train_labels[@]}" --model base --data texts.jsonl --attention causal --out x
refuses 78 'a training has one of them' "${train_labels[@]}" --model base --data texts.jsonl --preference simpo --out x
refuses 78 'must not see each other' data show --model one --data texts.jsonl --attention causal
refuses 64 'texts with labels (--task classify) have none' data show --model one --data texts.jsonl --preference dpo
refuses 65 'has no labels' eval --model base --task classify --data held.jsonl
refuses 78 'zero generate continues texts' generate --model one --prompt a --tokens 2
refuses 78 'a GGUF file is of a model that continues texts' convert --from one --to one.gguf
refuses 78 '"id2label"' train --model base --data text.txt --out one --resume --steps 40 --seq 128 --micro-batch 4 --threads 1 --quiet
