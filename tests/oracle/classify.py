#!/usr/bin/env python3
"""Classifiers in transformers and ours: gradients of a step, logits of texts, loss and accuracy of a set, in both directions.

    python3 tests/oracle/classify.py ZERO

ZERO is the program. A small language model of each architecture is made by transformers and trained by ours to give texts labels, in fp32, on
all texts in every step. Our gradients are the first moments after the first step, divided by 1 - beta1. What a text's label costs, measured
for each label alone, is a row of the logarithms of softmax. Then a classifier that transformers has made and saved is measured by ours.
Adapters of the language model and of a classifier are opened by peft, apart and merged by ours, and one that peft has saved is measured.
"""
import json
import random
import subprocess
import sys
import tempfile

import peft
import safetensors.torch
import tokenizers
import torch
import transformers

transformers.utils.logging.disable_progress_bar()
zero = sys.argv[1]
TEXTS, SHOWN, BETA1, SEQ = 50, 6, 0.9, 1024
WORDS = "the a cat dog runs sees big small red blue fish bird tree house near over under".split()
LABELS = {"poor": "dull", "fair": "plain", "good": "bright"}
END = "<|endoftext|>"
SMALL = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=SEQ)
CONFIGS = {
    "gpt2": lambda **k: transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=SEQ, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **k),
    "llama": lambda **k: transformers.LlamaConfig(num_key_value_heads=2, **SMALL, **k),
    "mistral": lambda **k: transformers.MistralConfig(num_key_value_heads=2, tie_word_embeddings=True, **SMALL, **k),
    "qwen2": lambda **k: transformers.Qwen2Config(num_key_value_heads=2, tie_word_embeddings=True, **SMALL, **k),
    "qwen3": lambda **k: transformers.Qwen3Config(num_key_value_heads=2, head_dim=8, **SMALL, **k),
    "gpt_neox": lambda **k: transformers.GPTNeoXConfig(**SMALL, **k),
}


def make_tokenizer():
    vocabulary = {END: 0, **{c: i + 1 for i, c in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END), len(vocabulary)


def make_texts():
    rows = []
    for i in range(TEXTS):
        label, word = list(LABELS.items())[i % len(LABELS)]
        words = random.choices(WORDS, k=random.randint(1, 7))
        words.insert(random.randint(0, len(words)), word)
        rows.append({"text": " ".join(words), "label": label})
    return rows


def write(path, rows):
    with open(path, "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def train(place, out, rate, steps, base="base", options=()):
    config = {"train_batch_size": 2, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0,
              "optimizer": {"type": "AdamW", "params": {"lr": rate, "betas": [BETA1, 0.999], "eps": 1e-8, "weight_decay": 0}},
              "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": rate, "warmup_max_lr": rate, "warmup_num_steps": 1}}}
    json.dump(config, open(f"{place}/config.json", "w"))
    subprocess.run([zero, "train", "--model", f"{place}/{base}", "--data", f"{place}/texts.jsonl", "--val", "none", "--out", f"{place}/{out}",
                    "--task", "classify", "--config", f"{place}/config.json", "--steps", str(steps), "--seq", str(SEQ), "--save-every", "1",
                    "--keep", "0", "--threads", "1", "--quiet", *options], check=True)
    moments = safetensors.torch.load_file(f"{place}/{out}/checkpoints/step-00000001/exp_avg.safetensors")
    return {name: value / (1 - BETA1) for name, value in moments.items()}


def measure(model, data, options=()):
    done = subprocess.run([zero, "eval", "--model", model, "--task", "classify", "--data", data, "--json", "--threads", "1", *options],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]), [json.loads(line) for line in done.stdout.splitlines()[:-1]]


def judge(model, tokenizer, rows):
    """Returns the mean loss, as a tensor with its graph, the accuracy, and the logits of the texts, in one padded batch."""
    batch = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    batch.pop("token_type_ids", None)
    labels = torch.tensor([model.config.label2id[row["label"]] for row in rows])
    out = model(**batch, labels=labels)
    return out.loss, (out.logits.argmax(-1) == labels).float().mean().item(), out.logits


def open_classifier(model_dir, **more):
    return transformers.AutoModelForSequenceClassification.from_pretrained(model_dir, dtype=torch.float32, **more).eval()


def compare(place, what, model_dir, rows, adapter=None, model=None):
    """Compares theirs, by default of the directory, with what ours measures of the directory and the adapter."""
    model = model or open_classifier(model_dir)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model_dir)
    with torch.no_grad():
        loss, accuracy, logits = judge(model, tokenizer, rows)
    options = ("--adapter", adapter) if adapter else ()
    (own, texts), logs = measure(model_dir, f"{place}/texts.jsonl", options), torch.log_softmax(logits, -1)
    costs = [[measure(model_dir, write(f"{place}/one.jsonl", [{"text": row["text"], "label": label}]), options)[0]["loss"]
              for label in sorted(model.config.label2id, key=model.config.label2id.get)] for row in rows[:SHOWN]]
    off = [abs(own["loss"] / loss.item() - 1), abs(own["accuracy"] - accuracy), (torch.tensor(costs) + logs[:SHOWN]).abs().max().item()]
    labels = sorted(model.config.label2id, key=model.config.label2id.get)
    assert [text["predicted"] for text in texts] == [labels[i] for i in logits.argmax(-1)], texts
    assert [text["label"] for text in texts] == [row["label"] for row in rows], texts
    off.append((torch.tensor([text["probability"] for text in texts]) - logs.exp().max(-1).values).abs().max().item())
    print(f"{what:32} loss {own['loss']:.6f} off by {off[0]:.1e}, accuracy {own['accuracy']:.2f} by {off[1]:.1e}, logits by {off[2]:.1e}, probabilities by {off[3]:.1e}")
    assert own["texts"] == len(rows), own
    return max(off)


def read_labels(adapter):
    own = json.load(open(f"{adapter}/labels.json"))
    own["id2label"] = {int(i): label for i, label in own["id2label"].items()}
    return own


def try_adapters(name, place, tokenizer, rows):
    """Adapts the language model and then a classifier; the second time with magnitudes."""
    worst = 0.0
    for base, words in ("base", ""), ("theirs", ",dora"):
        out, adapter = f"{place}/adapted-{base}", f"{place}/adapted-{base}/adapter"
        train(place, f"adapted-{base}", 1e-2, 8, base, ("--lora", "r=4" + words))
        labels = read_labels(adapter) if base == "base" else {}
        model = peft.AutoPeftModelForSequenceClassification.from_pretrained(adapter, dtype=torch.float32, **labels).eval()
        assert model.peft_config["default"].modules_to_save == ["classifier", "score"] * 2, model.peft_config # peft adds its own each time
        worst = max(worst, compare(place, f"{name}, {base} adapted by ours", f"{place}/{base}", rows, adapter, model))
        subprocess.run([zero, "convert", "--from", f"{place}/{base}", "--adapter", out, "--to", f"{place}/merged-{base}", "--quiet"], check=True)
        merged = open_classifier(f"{place}/merged-{base}")
        assert merged.config.label2id == model.config.label2id, merged.config
        worst = max(worst, compare(place, f"{name}, {base} merged by ours", f"{place}/merged-{base}", rows),
                    (judge(merged, tokenizer, rows)[2] - judge(model, tokenizer, rows)[2]).abs().max().item())
    theirs = peft.get_peft_model(open_classifier(f"{place}/theirs"), peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules="all-linear"))
    for key, value in theirs.named_parameters():
        if value.requires_grad:
            torch.nn.init.normal_(value, std=0.2)
    theirs.eval().save_pretrained(f"{place}/peft")
    return max(worst, compare(place, f"{name}, adapted by theirs", f"{place}/theirs", rows, f"{place}/peft", theirs))


def try_architecture(name, place, tokenizer, vocabulary, rows):
    torch.manual_seed(5)
    config = CONFIGS[name](vocab_size=vocabulary, initializer_range=0.2, bos_token_id=0, eos_token_id=0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(f"{place}/base")
    tokenizer.save_pretrained(f"{place}/base")
    own = train(place, "start", 0.0, 1)
    model = open_classifier(f"{place}/start/model")
    judge(model, tokenizer, rows)[0].backward()
    theirs = {key.removeprefix("transformer."): value.grad for key, value in model.named_parameters()}
    assert set(own) == set(theirs), sorted(set(own) ^ set(theirs))[:4]
    largest = max(value.abs().max().item() for value in theirs.values())
    gradients = max((own[key] - value).abs().max().item() for key, value in theirs.items()) / largest
    print(f"{name:32} gradients off by {gradients:.1e}")
    train(place, "ours", 1e-2, 8)
    worst = max(gradients, compare(place, f"{name}, trained by ours", f"{place}/ours/model", rows))
    config.id2label, config.label2id, config.pad_token_id = dict(enumerate(LABELS)), {label: i for i, label in enumerate(LABELS)}, 0
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(f"{place}/theirs")
    tokenizer.save_pretrained(f"{place}/theirs")
    worst = max(worst, compare(place, f"{name}, by theirs", f"{place}/theirs", rows))
    return max(worst, try_adapters(name, place, tokenizer, rows))


random.seed(3)
tokenizer, vocabulary = make_tokenizer()
worst = 0.0
for name in CONFIGS:
    with tempfile.TemporaryDirectory() as place:
        rows = make_texts()
        write(f"{place}/texts.jsonl", rows)
        worst = max(worst, try_architecture(name, place, tokenizer, vocabulary, rows))
print(f"at most {worst:.2g} off; transformers {transformers.__version__}, peft {peft.__version__}")
sys.exit(not worst < 1e-5)
