#!/usr/bin/env python3
"""Steps of training a GPT-2-shaped model on the CPU in a peer: PyTorch (eager, torch.compile), FSDP2 or DeepSpeed.

    train_step.py --mode eager|compile|fsdp|deepspeed [--stage 0..3] [--dtype fp32|bf16] [--bf16 autocast|master]
                  [--layers 12 --heads 12 --width 768 --seq 256 --batch 4 --vocab 50257] [--threads 2] [--steps 10] [--serve]

Several ranks: one process each, with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set (torchrun does; bench/compare too).
Rank 0 prints lines that begin with "peer": `note TEXT`, `first MS`, `warm MS`, then for each round `round STEPS MEDIAN_MS`.
With --serve every line of stdin is a round's number of steps, on all ranks alike, so that several peers can take turns without
paying their start again; without it there is one round of --steps.
"""
import argparse
import contextlib
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE, BETAS, DECAY, CLIP = 1e-4, (0.9, 0.95), 0.1, 1.0


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(a.vocab, a.width), nn.Embedding(a.seq, a.width)
        self.h = nn.ModuleList(Block(a.width, a.heads) for _ in range(a.layers))
        self.ln_f = nn.LayerNorm(a.width)
        self.head = nn.Linear(a.width, a.vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1), targets.flatten())


def note(text):
    if int(os.environ.get("RANK", "0")) == 0:
        print("peer", text, flush=True)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=RATE, betas=BETAS, weight_decay=DECAY, fused=True)


class Plain:
    """One process, eager or compiled; bf16 by autocast over fp32 weights. FSDP2 steps in the same way."""

    def __init__(self, a, model):
        self.autocast = a.dtype == "bf16" and a.mode != "fsdp"
        self.parameters = list(model.parameters())
        self.model = torch.compile(model) if a.mode == "compile" else model
        self.optimizer = adamw(self.parameters)

    def step(self, ids, targets):
        with torch.autocast("cpu", torch.bfloat16) if self.autocast else contextlib.nullcontext():
            loss = self.model(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class Master:
    """One process, weights and gradients in bf16, fp32 master weights beside them."""

    def __init__(self, a, model):
        self.masters = [p.detach().clone() for p in model.parameters()]
        model.bfloat16()
        self.weights = list(model.parameters())
        self.model = torch.compile(model) if a.mode == "compile" else model
        for master in self.masters:
            master.grad = torch.empty_like(master)
        self.optimizer = adamw(self.masters)

    @torch.no_grad()
    def update(self):
        torch._foreach_copy_([m.grad for m in self.masters], [w.grad for w in self.weights])
        nn.utils.clip_grad_norm_(self.masters, CLIP)
        self.optimizer.step()
        torch._foreach_copy_(self.weights, self.masters)

    def step(self, ids, targets):
        self.model(ids, targets).backward()
        self.update()
        for weight in self.weights:
            weight.grad = None


def shard(a, model):
    """FSDP2, a unit a block: parameters gathered in bf16 and gradients reduced in fp32 where --dtype is bf16."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    dist.init_process_group("gloo")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if a.dtype == "bf16" else MixedPrecisionPolicy()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.h:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


class DeepSpeed:
    """Its own AdamW, compiled on first use; torch.optim.AdamW where that does not build here."""

    keys = {}  # more of its configuration

    def __init__(self, a, model):
        import deepspeed
        deepspeed.init_distributed("gloo")
        try:
            self.engine = self.start(deepspeed, a, model, {})
            note("note its own AdamW")
        except (RuntimeError, ImportError, OSError) as failure:
            note(f"note its AdamW does not build here ({str(failure).splitlines()[0][:80]}): torch.optim.AdamW")
            self.engine = self.start(deepspeed, a, model, {"torch_adam": True})

    def start(self, deepspeed, a, model, extra):
        config = {
            "train_micro_batch_size_per_gpu": a.batch, "gradient_clipping": CLIP, "zero_optimization": {"stage": a.stage},
            "bf16": {"enabled": a.dtype == "bf16"}, "steps_per_print": 1 << 30,
            "optimizer": {"type": "AdamW", "params": {"lr": RATE, "betas": list(BETAS), "weight_decay": DECAY, **extra}},
            **self.keys,
        }
        return deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)[0]

    def step(self, ids, targets):
        loss = self.engine(ids, targets)
        self.engine.backward(loss)
        self.engine.step()
        return loss


def make(a):
    model = GPT(a)
    if a.mode == "deepspeed":
        return DeepSpeed(a, model)
    if a.mode == "fsdp":
        return Plain(a, shard(a, model))
    return (Master if a.dtype == "bf16" and a.bf16 == "master" else Plain)(a, model)


def timed_step(a, trainer):
    ids = torch.randint(a.vocab, (a.batch, a.seq + 1))
    start = time.perf_counter()
    trainer.step(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
    return 1e3 * (time.perf_counter() - start)


def take_rounds(a, trainer):
    """The first two steps, then rounds as they are asked for. Samples are the same on all ranks."""
    torch.manual_seed(1)
    for name in "first", "warm":
        note(f"{name} {timed_step(a, trainer):.3f}")
    for line in sys.stdin if a.serve else [a.steps]:
        times = sorted(timed_step(a, trainer) for _ in range(int(line)))
        note(f"round {len(times)} {(times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2:.3f}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(layers=12, heads=12, width=768, seq=256, batch=4, vocab=50257, threads=2, steps=10).items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--mode", choices=["eager", "compile", "fsdp", "deepspeed"], default="eager")
    p.add_argument("--stage", type=int, choices=range(4), default=3)
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--bf16", choices=["autocast", "master"], default="autocast")
    p.add_argument("--serve", action="store_true")
    return p.parse_args()


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    take_rounds(a, make(a))


if __name__ == "__main__":
    main()
