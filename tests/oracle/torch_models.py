#!/usr/bin/env python3
"""Writes tests/formats/torch: models as torch.save writes them, nanoGPT's among them, and files that have to be refused.

Element i of every tensor in types is (i - 3) / 4, of an integer one i - 3: exact in every type.
Usage: torch_models.py tests/formats/torch
"""
import collections
import json
import math
import os
import sys

import safetensors.torch
import torch
from transformers import GPT2Config, GPT2LMHeadModel

ROOT = sys.argv[1]


def counted(shape, dtype=torch.float32):
    index = torch.arange(math.prod(shape), dtype=torch.float64)
    return ((index - 3) / 4 if dtype.is_floating_point else index - 3).to(dtype).reshape(shape)


def put(name, value, **how):
    os.makedirs(os.path.dirname(f"{ROOT}/{name}"), exist_ok=True)
    torch.save(value, f"{ROOT}/{name}", **how)


whole = counted((4, 5))
types = collections.OrderedDict(single=counted((3, 4)), brain=counted((7,), torch.bfloat16), half=counted((2, 5), torch.float16),
                                double=counted((2, 1, 3), torch.float64), long=counted((2, 2), torch.int64), scalar=torch.tensor(-0.75),
                                empty=torch.zeros(0, 3), head=whole, rows=whole[1:3], tied=whole, parameter=torch.nn.Parameter(counted((3,))))
put("types.bin", types)
names = list(types)
files = {name: f"pytorch_model-0000{1 + (i > 4)}-of-00002.bin" for i, name in enumerate(names)}
for file in sorted(set(files.values())):
    put("shards/" + file, {name: types[name] for name in names if files[name] == file})
with open(f"{ROOT}/shards/pytorch_model.bin.index.json", "w") as out:
    json.dump({"metadata": {}, "weight_map": files}, out, indent=1)
    out.write("\n")


class Call:
    def __reduce__(self):
        return (os.system, ("false",))


put("turned.bin", {"weight": counted((2, 3)).t()})
put("nested.pt", {"epoch": 3, "weight": counted((2,))})
put("listed.pt", [counted((2,))])
put("calls.bin", {"weight": counted((2,)), "extra": Call()})
put("legacy.bin", {"weight": counted((2,))}, _use_new_zipfile_serialization=False)

torch.manual_seed(20261128)
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=16, n_embd=2, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0))
for parameter in model.parameters():  # biases and norms too
    torch.nn.init.normal_(parameter, std=0.3)
put("gpt2/pytorch_model.bin", model.state_dict())
model.config.save_pretrained(f"{ROOT}/gpt2")
safetensors.torch.save_file({name: tensor.clone() for name, tensor in model.state_dict().items()}, f"{ROOT}/gpt2.safetensors")


class Norm(torch.nn.Module):  # nanoGPT's: a bias is optional
    def __init__(self, width, bias):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(torch.nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.c_attn = torch.nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = torch.nn.Linear(width, width, bias=bias)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=-1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class MLP(torch.nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.c_fc = torch.nn.Linear(width, 4 * width, bias=bias)
        self.c_proj = torch.nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        return self.c_proj(torch.nn.functional.gelu(self.c_fc(x)))


class Block(torch.nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.ln_1, self.attn = Norm(width, bias), Attention(width, heads, bias)
        self.ln_2, self.mlp = Norm(width, bias), MLP(width, bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(torch.nn.Module):
    def __init__(self, n_layer, n_head, n_embd, block_size, bias, vocab_size, dropout):
        super().__init__()
        self.transformer = torch.nn.ModuleDict(dict(
            wte=torch.nn.Embedding(vocab_size, n_embd), wpe=torch.nn.Embedding(block_size, n_embd),
            h=torch.nn.ModuleList(Block(n_embd, n_head, bias) for _ in range(n_layer)), ln_f=Norm(n_embd, bias)))
        self.lm_head = torch.nn.Linear(n_embd, vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, tokens):
        t = self.transformer
        x = t.wte(tokens) + t.wpe(torch.arange(tokens.shape[1]))
        for block in t.h:
            x = block(x)
        return self.lm_head(t.ln_f(x))


def as_gpt2(name, tensor):
    """The tensor as Hugging Face's GPT-2 has it."""
    return tensor.t().contiguous() if tensor.dim() == 2 and ".h." in name else tensor.clone()


def nanogpt(name, prefix, **arguments):
    arguments = dict(n_head=2, n_embd=4, block_size=8, vocab_size=11, dropout=0.0, **arguments)
    model = NanoGPT(**arguments)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    optimizer = {"state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 6e-4, "betas": (0.9, 0.95), "fused": True, "params": [0]}]}
    saved = {"model": {prefix + key: value for key, value in model.state_dict().items()}, "optimizer": optimizer, "model_args": arguments, "iter_num": 3,
             "best_val_loss": torch.tensor(4.2), "config": {"dataset": "shakespeare_char", "compile": True, "learning_rate": 6e-4, "init_from": "scratch"}}
    put(f"nanogpt/{name}.pt", saved)
    tensors = {key: as_gpt2(key, value) for key, value in model.state_dict().items() if key != "lm_head.weight"}
    for key in list(tensors) if not arguments["bias"] else []:
        if key.endswith(".weight") and "transformer.w" not in key:
            tensors[key.replace(".weight", ".bias")] = torch.zeros(tensors[key].shape[-1])  # of a norm, or (in, out)
    safetensors.torch.save_file(tensors, f"{ROOT}/nanogpt/{name}.safetensors")
    os.chmod(f"{ROOT}/nanogpt/{name}.safetensors", 0o644)
    return model, saved


if __name__ == "__main__":
    nanogpt("biased", "", n_layer=1, bias=True)
    model, saved = nanogpt("ckpt", "_orig_mod.", n_layer=2, bias=False)
    head = {"_orig_mod.lm_head.weight": torch.zeros(11, 4)}
    one = {name: value for name, value in saved["model"].items() if ".h.1." not in name}
    put("nanogpt/untied.pt", {"model": {**one, **head}, "model_args": {**saved["model_args"], "n_layer": 1}})
