#!/usr/bin/env python3
"""peers.py [--small] [--steps N] attention|gpt2|llama...: what PyTorch reaches on this card, one line of JSON an answer.

attention  causal attention, forward and backward, by flash and by cuDNN, and whether the same call gives the same bits
gpt2       training steps of GPT-2 124M, 64 x 1,024 tokens: torch.compile, autocast to bf16, fp32 weights, fused AdamW, clipping
llama      the same of Llama 1B, 2 x 4,096 tokens
--small    small shapes, and without a card by the processor
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# batch, heads, heads of keys and values, tokens, elements of a head
ATTENTIONS = {"124m": (64, 12, 12, 1024, 64), "1b": (4, 32, 8, 4096, 64), "8b": (2, 32, 8, 4096, 128)}
# layers, width, heads, heads of keys and values, width of the MLP, vocabulary, tokens, batch
MODELS = {"gpt2": (12, 768, 12, 12, 3072, 50304, 1024, 64), "llama": (16, 2048, 32, 8, 8192, 128256, 4096, 2)}
SMALL = {"gpt2": (2, 64, 2, 2, 256, 256, 32, 2), "llama": (2, 64, 4, 2, 128, 256, 32, 2)}


def say(**answer):
    print(json.dumps(answer), flush=True)


def finish():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def seconds_of(call, times):
    """Each call's seconds, after two that are not counted."""
    taken = []
    for i in range(times + 2):
        finish()
        begin = time.perf_counter()
        call()
        finish()
        if i >= 2:
            taken.append(time.perf_counter() - begin)
    return taken


def time_attention(name, backend, shape, times):
    batch, heads, kv_heads, tokens, width = shape
    q, k, v = (torch.randn(batch, n, tokens, width, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
               for n in (heads, kv_heads, kv_heads))
    slope = torch.randn(batch, heads, tokens, width, device=DEVICE, dtype=torch.bfloat16)

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=kv_heads != heads)

    def both():
        return torch.autograd.grad(forward(), (q, k, v), slope)

    with sdpa_kernel(backend):
        alone = statistics.median(seconds_of(forward, times))
        back = statistics.median(seconds_of(both, times)) - alone
        same = all(torch.equal(a, b) for a, b in zip(both(), both()))
    work = 2 * batch * heads * tokens * tokens * width  # of the half that is seen
    say(peer="attention", shape=name, backend=backend.name, forward_TFs=round(work / alone / 1e12, 1),
        backward_TFs=round(2.5 * work / max(back, 1e-9) / 1e12, 1), same=int(same))


def attention(options):
    for name, shape in ATTENTIONS.items():
        if options.small:
            shape = (1, *shape[1:3], 128, shape[4])
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION) if DEVICE == "cuda" else (SDPBackend.MATH,):
            try:
                time_attention(name, backend, shape, 2 if options.small else 10)
            except Exception as why:  # one that cannot is told, and the others go on
                say(peer="attention", shape=name, backend=backend.name, why=str(why).split("\n")[0][:160])


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, inner):
        super().__init__()
        self.llama = kv_heads != heads
        self.heads, self.kv_heads, self.head = heads, kv_heads, width // heads
        norm, bias = (nn.RMSNorm, False) if self.llama else (nn.LayerNorm, True)
        self.norm_attention, self.norm_mlp = norm(width), norm(width)
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.head, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.up = nn.Linear(width, inner * (2 if self.llama else 1), bias=bias)
        self.down = nn.Linear(inner, width, bias=bias)

    def rotate(self, x, turns):
        low, high = x.chunk(2, -1)
        return torch.cat([low * turns[0] - high * turns[1], high * turns[0] + low * turns[1]], -1).to(x.dtype)

    def attend(self, x, turns):
        batch, tokens, width = x.shape
        parts = self.qkv(x).split([n * self.head for n in (self.heads, self.kv_heads, self.kv_heads)], 2)
        q, k, v = (part.view(batch, tokens, -1, self.head).transpose(1, 2) for part in parts)
        if self.llama:
            q, k = self.rotate(q, turns), self.rotate(k, turns)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.llama)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))

    def mlp(self, x):
        if not self.llama:
            return self.down(F.gelu(self.up(x), approximate="tanh"))
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)

    def forward(self, x, turns):
        x = x + self.attend(self.norm_attention(x), turns)
        return x + self.mlp(self.norm_mlp(x))


class Model(nn.Module):
    def __init__(self, layers, width, heads, kv_heads, inner, vocabulary, tokens):
        super().__init__()
        llama = kv_heads != heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = None if llama else nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, inner) for _ in range(layers))
        self.norm = (nn.RMSNorm if llama else nn.LayerNorm)(width)
        head = width // heads
        angles = torch.outer(torch.arange(tokens).float(), 500000.0 ** (-torch.arange(0, head, 2).float() / head))
        self.register_buffer("turns", torch.stack([angles.cos(), angles.sin()]))

    def forward(self, ids, targets):
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x, self.turns)
        return F.cross_entropy(F.linear(self.norm(x), self.embedding.weight).flatten(0, 1).float(), targets.flatten())


def train(name, options):
    *shape, batch = (SMALL if options.small else MODELS)[name]
    vocabulary, tokens = shape[5], shape[6]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Model(*shape).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=DEVICE == "cuda")
    run = torch.compile(model) if DEVICE == "cuda" else model
    ids, targets = (torch.randint(0, vocabulary, (batch, tokens), device=DEVICE) for _ in range(2))

    def step():
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = run(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    begin = time.perf_counter()
    step()
    finish()
    first = time.perf_counter() - begin
    taken = statistics.median(seconds_of(step, options.steps))
    say(peer="torch.compile" if DEVICE == "cuda" else "torch", model=name, parameters=sum(p.numel() for p in model.parameters()),
        tokens=batch * tokens, ms=round(1e3 * taken, 2), tokens_s=round(batch * tokens / taken), first_s=round(first, 1),
        peak_GB=round(torch.cuda.max_memory_allocated() / 1e9, 2) if DEVICE == "cuda" else None, torch=torch.__version__)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("what", nargs="+", choices=["attention", "gpt2", "llama"])
    options = parser.parse_args()
    if DEVICE == "cpu" and not options.small:
        parser.error("there is no card: only --small runs without one")
    for what in options.what:
        if what == "attention":
            attention(options)
        else:
            train(what, options)


if __name__ == "__main__":
    main()
