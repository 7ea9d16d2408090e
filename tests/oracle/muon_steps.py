#!/usr/bin/env python3
"""Muon and the average of the weights by torch, compared with trainings of ours: losses of each step, weights at the end, the average.

    python3 tests/oracle/muon_steps.py ZERO [STEPS]

ZERO is the program; torch is 2.9 or later. The model is a small Llama that ZERO makes. The text is one window, so that every sample is the same.
torch.optim.Muon updates the matrices of the blocks and torch.optim.AdamW all else, both in fp32 but for Muon's iteration, which is in bf16 there
and in standard here, and rounds in another order, so that losses come apart: by 1e-5 in 10 steps. The average is
torch.optim.swa_utils.AveragedModel's of the weights that our checkpoints have.
"""
import json
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import transformers
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

zero = sys.argv[1]
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 10
SEQ, RATE, DECAY, EMA = 32, 2e-3, 0.1, 0.9
TEXT = b"The owl and the pussycat went to sea in a beautiful pea-green boat."[: SEQ + 1]
ADAM = {"betas": (0.9, 0.95), "eps": 1e-10}


def train(out, source, count, params, *more):
    config = {"train_batch_size": 1, "gradient_clipping": 0, "optimizer": {"type": "Muon", "params": params}}
    json.dump(config, open(f"{out}.json", "w"))
    subprocess.run([zero, "train", *source, "--data", f"{place}/text.txt", "--val", "none", "--config", f"{out}.json", "--out", out, "--steps",
                    str(count), "--seq", str(SEQ), "--quiet", "--threads", "1", "--seed", "3", *more], check=True)
    return [line["loss"] for line in map(json.loads, open(f"{out}/metrics.jsonl")) if "loss" in line]


def load(directory):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").train()


def by_torch(base, adjust):
    """The losses of the steps, and the model at their end."""
    model = load(base)
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and ".layers." in name]
    rest = [p for name, p in model.named_parameters() if not (p.dim() == 2 and ".layers." in name)]
    muon = torch.optim.Muon(matrices, lr=RATE, weight_decay=DECAY, adjust_lr_fn=adjust)
    adam = torch.optim.AdamW([{"params": [p for p in rest if p.dim() > 1]}, {"params": [p for p in rest if p.dim() == 1], "weight_decay": 0.0}],
                             lr=RATE, weight_decay=DECAY, **ADAM)
    tokens = torch.tensor([list(TEXT)])
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).logits[0], tokens[0, 1:])
        losses.append(loss.item())
        model.zero_grad()
        loss.backward()
        muon.step()
        adam.step()
    return losses, dict(model.named_parameters())


def furthest(ours, theirs):
    """The largest difference of a weight, as a part of its tensor's largest."""
    return max(((ours[name] - p).abs().max() / p.abs().max()).item() for name, p in theirs.items() if name in ours)


with tempfile.TemporaryDirectory() as place:
    open(f"{place}/text.txt", "wb").write(TEXT)
    train(f"{place}/start", ["--new", f"llama:layers=2,heads=4,kv_heads=2,width=64,context={SEQ}"], 1, {"lr": 0.0})
    base, failed = f"{place}/start/model", False
    for adjust in ("original", "match_rms_adamw"):
        theirs, weights = by_torch(base, adjust)
        for method in ("standard", "gram"):
            out = f"{place}/{adjust}-{method}"
            ours = train(out, ["--model", base], steps,
                         {"lr": RATE, "weight_decay": DECAY, "ns_method": method, "adjust_lr_fn": adjust}, "--ema", str(EMA), "--save-every", "1",
                         "--keep", "0")
            worst = max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))
            apart = furthest(dict(load(f"{out}/model").named_parameters()), weights)
            print(f"{adjust}, {method}: {steps} steps, from {theirs[0]:.3f} to {theirs[-1]:.3f}: losses differ by {worst:.2g}, weights by {apart:.2g}")
            failed |= not worst < 1e-4
    model = load(base)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(EMA))
    for step in range(1, steps + 1):
        missing = model.load_state_dict(safetensors.torch.load_file(f"{out}/checkpoints/step-{step:08}/weights.safetensors"), strict=False)
        assert not missing.unexpected_keys and all("lm_head" in name for name in missing.missing_keys), missing
        averaged.update_parameters(model)
    assert furthest(dict(model.named_parameters()), dict(averaged.module.named_parameters())) > 1e-3
    apart = furthest(dict(load(f"{out}/ema").named_parameters()), dict(averaged.module.named_parameters()))
    print(f"the average differs by {apart:.2g}; torch {torch.__version__}")
    sys.exit(failed or not apart < 1e-6)
