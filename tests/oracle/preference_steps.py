#!/usr/bin/env python3
"""The first three steps of DPO, ORPO, SimPO and KTO by trl, compared with trainings of ours: losses, and gradients of the first step.

    python3 tests/oracle/preference_steps.py ZERO

ZERO is the program. A small Llama is made and trained whole and with adapters, in fp32, on all pairs in every step. Our gradients are the
first moments after the first step, divided by 1 - beta1. trl's ORPO takes its language loss as a mean over the tokens of a batch, ours as
one over pairs, so trl gets one pair a batch there and adds up. trl meets each answer of KTO with the one before it, within a batch; ours
are in one batch, too.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
import datasets
import peft
import safetensors.torch
import tokenizers
import torch
import transformers
import trl
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

zero = sys.argv[1]
PAIRS, STEPS, RATE, BETA1, SEQ = 6, 3, 1e-3, 0.9, 512
WORDS = "the a cat dog runs sees big small red blue fish bird tree house near over under".split()
END = "<|endoftext|>"


def some(most):
    return " ".join(random.choice(WORDS) for _ in range(random.randint(1, most)))


def make_model(place):
    vocabulary = {END: 0, **{c: i + 1 for i, c in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END)
    torch.manual_seed(5)
    config = transformers.LlamaConfig(vocab_size=len(vocabulary), hidden_size=32, intermediate_size=48, num_hidden_layers=2, initializer_range=0.2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=SEQ, eos_token_id=0, bos_token_id=None)
    transformers.LlamaForCausalLM(config).save_pretrained(f"{place}/base")
    tokenizer.save_pretrained(f"{place}/base")
    return tokenizer


def make_data(place):
    random.seed(3)
    pairs = [{"prompt": f"Q: {some(4)}?\n", "chosen": f"yes {some(5)}", "rejected": f"no {some(5)}"} for _ in range(PAIRS)]
    labels = [{"prompt": f"Q: {some(4)}?\n", "completion": f"{'yes' if i % 3 else 'no'} {some(5)}", "label": i % 3 != 0} for i in range(PAIRS)]
    for name, rows in (("pairs", pairs), ("labels", labels)):
        with open(f"{place}/{name}.jsonl", "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
    return {"pairs": datasets.Dataset.from_list(pairs), "labels": datasets.Dataset.from_list(labels)}


def ours(place, out, loss, lora, rate, steps):
    data = "labels" if loss.startswith("kto") else "pairs"
    config = {"train_batch_size": WINDOWS, "train_micro_batch_size_per_gpu": WINDOWS, "gradient_clipping": 0,
              "optimizer": {"type": "AdamW", "params": {"lr": rate, "betas": [BETA1, 0.999], "eps": 1e-8, "weight_decay": 0}},
              "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": rate, "warmup_max_lr": rate, "warmup_num_steps": 1}}}
    json.dump(config, open(f"{place}/{out}.json", "w"))
    subprocess.run([zero, "train", "--model", f"{place}/base", "--data", f"{place}/{data}.jsonl", "--val", "none", "--out", f"{place}/{out}",
                    "--preference", loss, "--config", f"{place}/{out}.json", "--steps", str(steps), "--seq", str(SEQ), "--save-every", "1",
                    "--keep", "0", "--threads", "1", "--quiet", *(["--lora", lora] if lora else [])], check=True)
    losses = [json.loads(line).get("loss") for line in open(f"{place}/{out}/metrics.jsonl")]
    moments = safetensors.torch.load_file(f"{place}/{out}/checkpoints/step-00000001/exp_avg.safetensors")
    return [x for x in losses if x is not None], {name: value / (1 - BETA1) for name, value in moments.items()}


class Watch(transformers.TrainerCallback):
    """Takes the gradients of the first step."""

    def __init__(self):
        self.gradients = {}

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        if not self.gradients:
            self.gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def theirs(place, tokenizer, data, loss, model, reference):
    name, *settings = loss.split(",")
    settings = {key: float(value) for key, value in (s.split("=") for s in settings)}
    batch = 1 if name == "orpo" else PAIRS
    common = {"output_dir": f"{place}/trl", "per_device_train_batch_size": batch, "gradient_accumulation_steps": PAIRS // batch, "max_steps": STEPS,
              "learning_rate": RATE, "lr_scheduler_type": "constant", "adam_beta1": BETA1, "adam_epsilon": 1e-8, "weight_decay": 0.0,
              "max_grad_norm": 0.0, "logging_steps": 1, "report_to": [], "save_strategy": "no", "use_cpu": True, "bf16": False,
              "gradient_checkpointing": False, "disable_tqdm": True, "beta": settings.get("beta", 2.0 if name == "simpo" else 0.1)}
    watch, made = Watch(), {"model": model, "processing_class": tokenizer, "train_dataset": data["labels" if name == "kto" else "pairs"]}
    if name == "dpo":
        trainer = trl.DPOTrainer(args=trl.DPOConfig(max_length=None, **common), ref_model=reference, **made)
    elif name == "kto":
        trainer = trl.KTOTrainer(args=trl.KTOConfig(max_length=None, desirable_weight=settings.get("desirable", 1.0),
                                                    undesirable_weight=settings.get("undesirable", 1.0), **common), ref_model=reference, **made)
    elif name == "orpo":
        trainer = ORPOTrainer(args=ORPOConfig(max_length=SEQ, disable_dropout=True, **common), **made)
    else:
        trainer = CPOTrainer(args=CPOConfig(max_length=SEQ, loss_type="simpo", cpo_alpha=0.0, simpo_gamma=settings.get("gamma", 1.0), **common), **made)
    trainer.add_callback(watch)
    losses, compute = [], trainer.compute_loss

    def kept(*arguments, **named):
        value = compute(*arguments, **named)
        losses.append(float((value[0] if isinstance(value, tuple) else value).detach()))
        return value

    trainer.compute_loss = kept
    trainer.train()
    count = PAIRS // batch
    return [sum(losses[i:i + count]) / count for i in range(0, len(losses), count)], watch.gradients


def compare(what, own, other):
    losses = max(abs(a / b - 1) for a, b in zip(own[0], other[0]))
    theirs_of = {name.replace("base_model.model.", "").replace(".default.", "."): value for name, value in other[1].items()}
    assert len(own[0]) == STEPS == len(other[0]) and set(own[1]) == set(theirs_of), (own[0], other[0], sorted(set(own[1]) ^ set(theirs_of))[:4])
    largest = max(value.abs().max().item() for value in theirs_of.values())
    gradients = max((own[1][name] - value).abs().max().item() for name, value in theirs_of.items()) / largest
    print(f"{what:40} losses {' '.join(f'{x:.6f}' for x in own[0])}, off by {losses:.1e}; gradients by {gradients:.1e}")
    return max(losses, gradients)


with tempfile.TemporaryDirectory() as place:
    tokenizer, worst, WINDOWS = make_model(place), 0.0, 1
    data = make_data(place)
    for loss in ("dpo", "dpo,beta=0.5", "orpo", "simpo", "simpo,beta=1.5,gamma=0.3", "kto", "kto,beta=0.5,desirable=1.5,undesirable=0.75"):
        for lora in (None, "r=4,alpha=8"):
            own = ours(place, "ours", loss, lora, RATE, STEPS)
            model, reference = (transformers.AutoModelForCausalLM.from_pretrained(f"{place}/base", dtype=torch.float32) for _ in range(2))
            if lora: # it begins as ours does
                ours(place, "start", loss, lora, 0.0, 1)
                model, reference = peft.PeftModel.from_pretrained(model, f"{place}/start/adapter", is_trainable=True), None
            other = theirs(place, tokenizer, data, loss, model, reference)
            worst = max(worst, compare(f"{loss}{', adapters' if lora else ''}", own, other))
            subprocess.run(f"rm -r {place}/ours {place}/start 2>/dev/null", shell=True, check=False)
    print(f"at most {worst:.2g} off; trl {trl.__version__}, transformers {transformers.__version__}")
    sys.exit(not worst < 1e-5)
