"""Writes tests/formats/golden.safetensors with the reference implementation.

Element i of every floating tensor is (i - 3) / 4, of every signed integer tensor i - 3, of u8 i: exact in every type.
Usage: safetensors_golden.py OUT
"""
import math
import sys

import safetensors.numpy
import safetensors.torch
import torch

TENSORS = {
    "transformer.wte.weight": (torch.float32, (3, 4)),
    "transformer.h.0.ln_1.bias": (torch.float32, (5,)),
    "scalar": (torch.float32, ()),
    "empty": (torch.float32, (0, 3)),
    "half": (torch.float16, (2, 5)),
    "brain": (torch.bfloat16, (7,)),
    "double": (torch.float64, (2, 1, 3)),
    "int": (torch.int32, (3,)),
    "long": (torch.int64, (2, 2)),
    "byte": (torch.uint8, (5,)),
}
METADATA = {"format": "pt"}


def tensor(dtype, shape):
    index = torch.arange(math.prod(shape), dtype=torch.float64)
    if dtype.is_floating_point:
        index = (index - 3) / 4
    elif dtype != torch.uint8:
        index = index - 3
    return index.to(dtype).reshape(shape)


tensors = {name: tensor(dtype, shape) for name, (dtype, shape) in TENSORS.items()}
numpy_has = {name: t for name, t in tensors.items() if t.dtype != torch.bfloat16}
as_numpy = {name: t.numpy() for name, t in numpy_has.items()}
assert safetensors.torch.save(numpy_has, METADATA) == safetensors.numpy.save(as_numpy, METADATA)
safetensors.torch.save_file(tensors, sys.argv[1], METADATA)
