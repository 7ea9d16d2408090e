#!/usr/bin/env python3
"""Models with their adapters merged, compared with peft's: weights, and logits apart and merged.

    python3 tests/oracle/lora_merge.py ZERO TEXT [WORDS]

ZERO is the program, TEXT a text to train on, WORDS follow in --lora (",dora"). Errors of logits are relative to the largest one. One small model of each architecture is made, adapted and merged.
"""
import subprocess
import sys
import tempfile

import peft
import torch
import transformers

zero, text = sys.argv[1:3]
words = sys.argv[3] if len(sys.argv) > 3 else ""
S = "layers=2,heads=4,width=32,context=32"
SPECS = [f"gpt2:{S}", f"llama:kv_heads=2,inner=64,tied=0,vocab=257,{S}", f"qwen2:kv_heads=2,inner=64,vocab=257,{S}",
         f"qwen3:kv_heads=2,inner=64,head_dim=16,vocab=257,{S}", f"pythia-14m:{S}"]


def run(*arguments):
    subprocess.run([zero, *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def load(path): # in fp64, so that only the weights differ
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).double().eval()


worst = 0.0
for spec in SPECS:
    with tempfile.TemporaryDirectory() as place:
        run("train", "--new", spec, "--data", text, "--threads", "1", "--steps", "3", "--out", f"{place}/base")
        run("train", "--model", f"{place}/base/model", "--lora", "r=4,alpha=12" + words, "--lr", "0.03", "--data", text, "--threads", "1",
            "--steps", "6", "--out", f"{place}/run")
        run("convert", "--from", f"{place}/base/model", "--adapter", f"{place}/run", "--to", f"{place}/merged")
        theirs = peft.PeftModel.from_pretrained(load(f"{place}/base/model"), f"{place}/run/adapter").eval()
        ours, ids = load(f"{place}/merged"), torch.arange(32)[None] % 200
        with torch.no_grad():
            wanted, got = theirs(ids).logits, ours(ids).logits
            merged = theirs.merge_and_unload()
            weights = merged.state_dict()
            scale = wanted.abs().max()
            errors = [((wanted - got).abs().max() / scale).item(), ((merged(ids).logits - got).abs().max() / scale).item(),
                      max((weights[name] - value).abs().max().item() for name, value in ours.state_dict().items())]
        print(f"{spec.split(':')[0]:12} logits apart {errors[0]:.1e}, merged {errors[1]:.1e}, weights {errors[2]:.1e}")
        worst = max(worst, *errors)
sys.exit(worst > 1e-6)
