#!/usr/bin/env python3
"""Writes tests/formats/torch: models as torch.save writes them, and files that have to be refused.

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
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=16, n_embd=4, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0))
for parameter in model.parameters():  # biases and norms too
    torch.nn.init.normal_(parameter, std=0.3)
put("gpt2/pytorch_model.bin", model.state_dict())
model.config.save_pretrained(f"{ROOT}/gpt2")
safetensors.torch.save_file({name: tensor.clone() for name, tensor in model.state_dict().items()}, f"{ROOT}/gpt2.safetensors")
