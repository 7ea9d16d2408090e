#!/usr/bin/env python3
"""Writes tests/compute/states_golden.c: 30 updates of AdamW whose states have eight bits, by bitsandbytes on a CPU, and in bf16, by torch.
python tests/oracle/states.py > tests/compute/states_golden.c

bitsandbytes' own quantizer for CPUs rounds a number to one of 65,536 points before it looks the code up, which makes zeros of what is below
1.5e-5 of a block's scale; its kernels for GPUs, like the paper, take the nearest code. The latter is what is written here, by the quantizer that
bitsandbytes has for other devices; how many codes and how much the weights differ from the former is said on stderr."""
import math
import sys

import bitsandbytes as bnb
import torch
from bitsandbytes.backends.cpu import ops

COUNT, STEPS, BLOCK = 300, 30, 256
HYPER = dict(lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


def gradient(step, i):
    return math.sin(0.1 * (100 * step + i)) * (1 + i % 7) * 10.0 ** -(i % 5)


def f32(values):
    return torch.tensor(values, dtype=torch.float32)


grads = [f32([gradient(s, i) for i in range(COUNT)]) for s in range(STEPS)]


def start():
    return torch.nn.Parameter(f32([math.cos(0.37 * i) for i in range(COUNT)]))


def nearest(values, code, absmax_out, out, blocksize):
    """The nearest codes, as the quantizer of bitsandbytes/backends/default/ops.py finds them."""
    borders = (code[:-1] + code[1:]) / 2
    for k, block in enumerate(values.split(blocksize)):
        absmax_out[k] = block.abs().max()
        out[k * blocksize:k * blocksize + block.numel()] = torch.bucketize(block * (1.0 / absmax_out[k].clamp(min=1e-38)), borders).to(torch.uint8)


def by_bitsandbytes(quantizer):
    ops._quant_blockwise_fp32_direct = quantizer
    p = start()
    optimizer = bnb.optim.AdamW8bit([p], min_8bit_size=0, **HYPER)
    for g in grads:
        p.grad = g.clone()
        optimizer.step()
    state = optimizer.state[p]
    return p.detach(), state["state1"], state["state2"], state["absmax1"], state["absmax2"]


def in_bf16():
    """PyTorch's AdamW in fp32, with states that are rounded to bf16 after each update."""
    p = start()
    optimizer = torch.optim.AdamW([p], **HYPER)
    for g in grads:
        p.grad = g.clone()
        optimizer.step()
        for name in ("exp_avg", "exp_avg_sq"):
            optimizer.state[p][name].copy_(optimizer.state[p][name].bfloat16().float())
    return p.detach()


def table(numbers, form, a_line):
    words = [form % x for x in numbers]
    rows = (words[at:at + a_line] for at in range(0, len(words), a_line))
    return "\n".join("    " + " ".join(row) for row in rows)


def vector(declaration, numbers, form, a_line):
    print("const %s = {\n// clang-format off\n%s\n// clang-format on\n};" % (declaration, table(numbers.tolist(), form, a_line)))


its_own = ops._quant_blockwise_fp32_direct
want, points = by_bitsandbytes(nearest), by_bitsandbytes(its_own)
print("by 65,536 points: %d of %d codes of the first state differ, %d of the second; weights by up to %.2g" %
      ((want[1] != points[1]).sum(), COUNT, (want[2] != points[2]).sum(), (want[0] - points[0]).abs().max()), file=sys.stderr)
print("// Written by tests/oracle/states.py; do not edit.")
print('#include "states_golden.h"\n')
vector("float golden_p[GOLDEN_COUNT]", want[0], "%.9g,", 6)
vector("uint8_t golden_codes0[GOLDEN_COUNT]", want[1], "%d,", 16)
vector("uint8_t golden_codes1[GOLDEN_COUNT]", want[2], "%d,", 16)
vector("float golden_scales0[GOLDEN_BLOCKS]", want[3], "%.9g,", 6)
vector("float golden_scales1[GOLDEN_BLOCKS]", want[4], "%.9g,", 6)
vector("float golden_p_bf16[GOLDEN_COUNT]", in_bf16(), "%.9g,", 6)
