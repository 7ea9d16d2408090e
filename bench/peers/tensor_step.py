#!/usr/bin/env python3
"""Steps of training a Llama-shaped model by tensor parallelism on the CPU in a peer: PyTorch's DTensor or DeepSpeed's AutoTP.

    tensor_step.py --mode dtensor|sequence|autotp --model DIR --samples FILE [--dtype fp32|bf16] [--bf16 autocast|master]
                   [--seq 256 --batch 4] [--threads 1] [--steps 10] [--serve]

DIR has config.json and model.safetensors in Hugging Face's layout; FILE has windows of seq + 1 bytes, a token each. Every rank computes with
the same samples. `sequence`: DTensor with sequence parallelism. The first steps take the windows of FILE, and rank 0 prints `peer loss L`
for each, so that bench/compare sees whether it is the model that libzero trains; then samples are random, and it goes on as train_step.py.
"""
import argparse
import contextlib
import json
import os
import pathlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel,
                                               parallelize_module)

from train_step import CLIP, DeepSpeed, adamw, note, take_rounds


class Attention(nn.Module):
    """Heads are counted from what the projections return, because a rank has its own heads alone."""

    def __init__(self, c):
        super().__init__()
        self.head = c["head_dim"]
        queries, keys = c["num_attention_heads"] * self.head, c["num_key_value_heads"] * self.head
        self.q_proj = nn.Linear(c["hidden_size"], queries, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(c["hidden_size"], keys, bias=False) for _ in "kv")
        self.o_proj = nn.Linear(queries, c["hidden_size"], bias=False)

    def heads(self, x):
        return x.view(*x.shape[:2], -1, self.head).transpose(1, 2)

    @staticmethod
    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * cos.to(x.dtype) + turned * sin.to(x.dtype)

    def forward(self, x, cos, sin):
        q, k, v = self.heads(self.q_proj(x)), self.heads(self.k_proj(x)), self.heads(self.v_proj(x))
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return self.o_proj(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False) for _ in "gu")
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = Attention(c), MLP(c)
        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(c["hidden_size"], c["rms_norm_eps"]) for _ in "ab")

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.RMSNorm(c["hidden_size"], c["rms_norm_eps"])


class Llama(nn.Module):
    """Modules have the names of transformers' Llama, which AutoTP's rules go by."""

    def __init__(self, c, seq):
        super().__init__()
        self.model = Trunk(c)
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        frequencies = c["rope_theta"] ** (-torch.arange(0, c["head_dim"], 2) / c["head_dim"])
        self.angles = torch.outer(torch.arange(seq), frequencies).repeat(1, 2)  # (seq, head_dim) fp32, whatever the weights have

    def forward(self, ids, targets):
        x, cos, sin = self.model.embed_tokens(ids), self.angles.cos(), self.angles.sin()
        for block in self.model.layers:
            x = block(x, cos, sin)
        logits = self.lm_head(self.model.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def read_model(directory, seq):
    config = json.loads(pathlib.Path(directory, "config.json").read_text())
    if config["tie_word_embeddings"]:
        raise ValueError("the table of tokens is tied: it takes tied=0")
    model = Llama(config, seq)
    model.load_state_dict(load_file(pathlib.Path(directory, "model.safetensors")))
    return model


def plan(sequence):
    """How DTensor divides each module. With sequence parallelism the residual stream and the norms are divided by positions."""
    stream = Shard(1) if sequence else Replicate()
    whole = {"input_layouts": (stream,), "desired_input_layouts": (Replicate(),)} if sequence else None
    trunk = {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
             "lm_head": ColwiseParallel(input_layouts=stream, output_layouts=Shard(-1), use_local_output=False)}
    block = {f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"}
    block |= {f"mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")}
    block |= {name: RowwiseParallel(output_layouts=stream) for name in ("self_attn.o_proj", "mlp.down_proj")}
    if sequence:
        trunk["model.norm"] = SequenceParallel()
        block |= {name: SequenceParallel() for name in ("input_layernorm", "post_attention_layernorm")}
        block["mlp"] = PrepareModuleInput(**whole)
        block["self_attn"] = PrepareModuleInput(input_layouts=(stream, None, None), desired_input_layouts=(Replicate(), None, None))
    return trunk, block


def divide(model, sequence):
    from torch.distributed.device_mesh import init_device_mesh
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    trunk, block = plan(sequence)
    parallelize_module(model, mesh, trunk)
    for layer in model.model.layers:
        parallelize_module(layer, mesh, block)
    return model


class Divided:
    """DTensor's model. AdamW takes the parts that this rank has, as plain tensors: the weights themselves, or fp32 masters of bf16 ones."""

    def __init__(self, a, model):
        self.model, self.autocast = model, a.dtype == "bf16" and a.bf16 == "autocast"
        parts = self.parts()
        if a.dtype == "bf16" and a.bf16 == "master":
            self.leaves = [part.clone() for part in parts]
            model.bfloat16()
        else:
            self.leaves = parts
        self.whole = [not isinstance(w, DTensor) or w.placements[0].is_replicate() for w in model.parameters()]
        self.optimizer = adamw(self.leaves)

    def parts(self):
        return [(w.to_local() if isinstance(w, DTensor) else w).detach() for w in self.model.parameters()]

    @staticmethod
    def gradient(weight):
        """That of the part, in fp32; a whole weight's is summed where ranks saw other positions."""
        grad = weight.grad
        if isinstance(weight, DTensor):
            grad = grad.redistribute(placements=weight.placements).to_local()
        return grad.float()

    @torch.no_grad()
    def clip(self):
        """By the whole model's norm: what every rank has counts once."""
        squares = {kind: nn.utils.get_total_norm([p.grad for p, whole in zip(self.leaves, self.whole) if whole is kind]) ** 2
                   for kind in (False, True)}
        dist.all_reduce(squares[False])
        nn.utils.clip_grads_with_norm_(self.leaves, CLIP, (squares[False] + squares[True]).sqrt())

    @torch.no_grad()
    def update(self):
        for leaf, weight in zip(self.leaves, self.model.parameters()):
            leaf.grad = self.gradient(weight)
            weight.grad = None
        self.clip()
        self.optimizer.step()
        parts = self.parts()
        if parts[0].dtype != self.leaves[0].dtype:
            torch._foreach_copy_(parts, self.leaves)

    def step(self, ids, targets):
        with loss_parallel():
            with torch.autocast("cpu", torch.bfloat16) if self.autocast else contextlib.nullcontext():
                loss = self.model(ids, targets)
            loss.backward()
        self.update()
        return loss


class AutoTP(DeepSpeed):
    """By its own rules for Llama, at ZeRO stage 1: at stage 0 DeepSpeed 0.19.8 updates bf16 weights without fp32 masters."""

    def __init__(self, a, model):
        self.keys = {"tensor_parallel": {"autotp_size": int(os.environ["WORLD_SIZE"]), "preset_model": "llama"}}
        super().__init__(a, model)


def say_losses(a, trainer):
    """Those of the first steps, before their updates."""
    samples = torch.tensor(list(pathlib.Path(a.samples).read_bytes())).view(-1, a.batch, a.seq + 1)
    for batch in samples:
        loss = trainer.step(batch[..., :-1].contiguous(), batch[..., 1:].contiguous())
        note(f"loss {float(loss.full_tensor() if isinstance(loss, DTensor) else loss):.9g}")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(seq=256, batch=4, threads=1, steps=10).items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--mode", choices=["dtensor", "sequence", "autotp"], default="dtensor")
    p.add_argument("--model", required=True)
    p.add_argument("--samples", required=True)
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--bf16", choices=["autocast", "master"], default="autocast")
    p.add_argument("--serve", action="store_true")
    p.set_defaults(stage=1)
    return p.parse_args()


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    model = read_model(a.model, a.seq)
    a.vocab = model.lm_head.out_features
    trainer = AutoTP(a, model) if a.mode == "autotp" else Divided(a, divide(model, a.mode == "sequence"))
    say_losses(a, trainer)
    take_rounds(a, trainer)


if __name__ == "__main__":
    main()
