#!/usr/bin/env python3
"""Time of a training step of a GPT-2-shaped model in PyTorch on the CPU, fp32: one process (eager), or FSDP2 under torchrun.

    train_step.py --layers 12 --heads 12 --width 768 --seq 256 --batch 4 --vocab 50257 --threads 2 [--steps 10] [--fsdp]

Prints one line: median milliseconds a step and tokens a second of all ranks together.
"""
import argparse
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


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


def main():
    p = argparse.ArgumentParser()
    for name, value in dict(layers=12, heads=12, width=768, seq=256, batch=4, vocab=50257, threads=2, steps=10).items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--fsdp", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    ranks = 1
    model = GPT(a)
    if a.fsdp:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        dist.init_process_group("gloo")
        ranks = dist.get_world_size()
        mesh = init_device_mesh("cpu", (ranks,))
        for block in model.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=not a.fsdp)
    times = []
    for step in range(a.steps + 3):
        ids = torch.randint(a.vocab, (a.batch, a.seq + 1))
        start = time.perf_counter()
        loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - start)
    median = sorted(times[3:])[a.steps // 2]
    if int(os.environ.get("RANK", "0")) == 0:
        name = "FSDP2" if a.fsdp else "PyTorch eager"
        print(f"{name} {torch.__version__}: {1e3 * median:.1f} ms a step, {ranks * a.batch * a.seq / median:.0f} tokens/s", flush=True)
    if a.fsdp:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
