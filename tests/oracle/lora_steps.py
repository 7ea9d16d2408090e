#!/usr/bin/env python3
"""20 steps of adapters by peft and torch, compared with a training of ours: losses, and the adapter at the end.

    python3 tests/oracle/lora_steps.py ZERO BASE [LORA [STEPS]]

ZERO is the program, BASE a model's directory with byte tokens, LORA what --lora takes. The text is one window, so that every sample is the
same. The adapter begins as ours does: as a run with a rate of 0 leaves it.
"""
import json
import subprocess
import sys
import tempfile

import peft
import torch
import transformers

zero, base = sys.argv[1:3]
lora = sys.argv[3] if len(sys.argv) > 3 else "r=4,alpha=8"
steps = int(sys.argv[4]) if len(sys.argv) > 4 else 20
SEQ, RATE = 32, 1e-3
TEXT = b"The owl and the pussycat went to sea in a beautiful pea-green boat."[: SEQ + 1]


def train(out, rate, count):
    config = {"train_batch_size": 1, "gradient_clipping": 0,
              "optimizer": {"type": "AdamW", "params": {"lr": rate, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}}}
    json.dump(config, open(f"{out}.json", "w"))
    subprocess.run([zero, "train", "--model", base, "--lora", lora, "--data", f"{place}/text.txt", "--val", "none", "--config", f"{out}.json",
                    "--out", out, "--steps", str(count), "--seq", str(SEQ), "--quiet", "--threads", "1", "--seed", "3"], check=True)


with tempfile.TemporaryDirectory() as place:
    open(f"{place}/text.txt", "wb").write(TEXT)
    train(f"{place}/start", 0.0, 1)
    train(f"{place}/ours", RATE, steps)
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager").double()
    model = peft.PeftModel.from_pretrained(model, f"{place}/start/adapter", is_trainable=True).double().train()
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    vectors = [p for p in trained.values() if p.dim() == 1]  # magnitudes do not decay, as no vector does here
    adam = torch.optim.AdamW([{"params": [p for p in trained.values() if p.dim() > 1]}, {"params": vectors, "weight_decay": 0.0}] if vectors
                             else trained.values(), lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    tokens = torch.tensor([list(TEXT)])
    ours = [json.loads(line) for line in open(f"{place}/ours/metrics.jsonl")]
    ours = [line["loss"] for line in ours if "loss" in line]
    worst = 0.0
    for step in range(steps):
        logits = model(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:])
        worst = max(worst, abs(ours[step] / loss.item() - 1))
        adam.zero_grad()
        loss.backward()
        adam.step()
    end = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), f"{place}/ours/adapter")
    difference = max(((end.get_parameter(name).double() - p).abs().max() / p.abs().max()).item() for name, p in trained.items())
    print(f"{steps} steps: losses differ by {worst:.2g}, the adapter by {difference:.2g} at most; peft {peft.__version__}")
    sys.exit(not (worst < 1e-6 and difference < 1e-3))
