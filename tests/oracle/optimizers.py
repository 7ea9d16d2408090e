#!/usr/bin/env python3
"""Writes tests/engine/optimizer_golden.c: 20 updates of each optimizer, by PyTorch in double precision (LAMB, Lion and Adam with
uncorrected averages, which it lacks, by their papers' algorithms).  python tests/oracle/optimizers.py > tests/engine/optimizer_golden.c"""
import math
import textwrap

import torch

ROWS, COLUMNS, STEPS, LR = 10, 10, 20, 0.01
EPS = torch.finfo(torch.float32).eps


def start(i):
    return math.cos(0.37 * i)


def gradient(step, i):
    return math.sin(0.1 * (100 * step + i)) * (1 + i % 7)


def f32(values):
    return torch.tensor(values, dtype=torch.float32).double()


def lion(p, grads, b1, b2, wd):
    m = torch.zeros_like(p)
    for g in grads:
        c = b1 * m + (1 - b1) * g
        p = p * (1 - LR * wd) - LR * torch.sign(c)
        m = b2 * m + (1 - b2) * g
    return p


def adamw_uncorrected(p, grads, b1, b2, eps, wd):
    """AdamW whose averages stay as they are, though they start at zero: DeepSpeed's bias_correction false."""
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for g in grads:
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p * (1 - LR * wd) - LR * m / (v.sqrt() + eps)
    return p


def lamb(p, grads, b1, b2, eps, wd, corrects=True):
    """Algorithm 2 of "Large Batch Optimization for Deep Learning" (arXiv 1904.00962), line by line, on plain numbers: the moments m and v, both
    corrected for their start at zero, r = m^ / (sqrt(v^) + eps), and a step of lr phi(|x|) / |r + wd x| along r + wd x. phi is the identity, and
    DeepSpeed's bounds hold for the ratio; where either norm is 0 the ratio is 1. Without corrections m^ is m and v^ is v."""
    x, m, v = list(p), [0.0] * len(p), [0.0] * len(p)
    for t, g in enumerate(grads, 1):
        m = [b1 * a + (1 - b1) * b for a, b in zip(m, g)]
        v = [b2 * a + (1 - b2) * b * b for a, b in zip(v, g)]
        m_hat = [a / (1 - b1**t) for a in m] if corrects else m
        v_hat = [a / (1 - b2**t) for a in v] if corrects else v
        u = [a / (math.sqrt(b) + eps) + wd * c for a, b, c in zip(m_hat, v_hat, x)]
        x_norm, u_norm = math.sqrt(sum(a * a for a in x)), math.sqrt(sum(a * a for a in u))
        ratio = min(max(x_norm / u_norm, 0.01), 10) if x_norm > 0 and u_norm > 0 else 1
        x = [a - LR * ratio * b for a, b in zip(x, u)]
    return x


def by_torch(make):
    p = torch.nn.Parameter(p0.reshape(ROWS, COLUMNS).clone())
    optimizer = make([p])
    for g in grads:
        p.grad = g.reshape(ROWS, COLUMNS).clone()
        optimizer.step()
    return p.detach().flatten()


p0 = f32([start(i) for i in range(ROWS * COLUMNS)])
grads = [f32([gradient(s, i) for i in range(ROWS * COLUMNS)]) for s in range(STEPS)]
o = torch.optim
cases = {
    ("AdamW", '"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1'):
        by_torch(lambda p: o.AdamW(p, lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)),
    ("Adam", '"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1, "adam_w_mode": false'):
        by_torch(lambda p: o.Adam(p, lr=LR, weight_decay=0.1)),
    ("SGD", '"lr": 0.01'): by_torch(lambda p: o.SGD(p, lr=LR)),
    ("SGD", '"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1'): by_torch(lambda p: o.SGD(p, lr=LR, momentum=0.9, weight_decay=0.1)),
    ("SGD", '"lr": 0.01, "momentum": 0.9, "nesterov": true'): by_torch(lambda p: o.SGD(p, lr=LR, momentum=0.9, nesterov=True)),
    ("Adagrad", '"lr": 0.01, "weight_decay": 0.1'): by_torch(lambda p: o.Adagrad(p, lr=LR, weight_decay=0.1)),
    ("Lion", '"lr": 0.01, "betas": [0.9, 0.99], "weight_decay": 0.1'): lion(p0, grads, 0.9, 0.99, 0.1),
    ("Adafactor", '"weight_decay": 0.1'): by_torch(lambda p: o.Adafactor(p, lr=LR, eps=(EPS, 1e-3), weight_decay=0.1)),
    ("Adafactor", '"lr": 0.3, "beta2_decay": -0.5, "eps": [1e-4, 0.5], "d": 1.5'): by_torch(lambda p: o.Adafactor(p, lr=0.3, beta2_decay=-0.5, eps=(1e-4, 0.5), d=1.5)),
    ("LAMB", '"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1'): lamb(p0.tolist(), [g.tolist() for g in grads], 0.9, 0.999, 1e-8, 0.1),
    ("AdamW", '"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "bias_correction": false'):
        adamw_uncorrected(p0, grads, 0.9, 0.95, 1e-8, 0.1),
    ("LAMB", '"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1, "bias_correction": false'):
        lamb(p0.tolist(), [g.tolist() for g in grads], 0.9, 0.999, 1e-8, 0.1, corrects=False),
}


def table(numbers, a_line=6):
    """The numbers in columns, six a line."""
    words = ["%.9g," % x for x in numbers]
    words[-1] = words[-1][:-1]
    widths = [max(map(len, words[c::a_line])) for c in range(a_line)]
    rows = (words[at:at + a_line] for at in range(0, len(words), a_line))
    return ("\n" + " " * 11).join(" ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def literal(text, column):
    """A string of C at that column, in lines of at most 100."""
    lines = textwrap.wrap(text.replace('"', '\\"'), 97 - column, drop_whitespace=False, break_on_hyphens=False)
    return ("\n" + " " * column).join('"%s"' % line for line in lines)


print("// Written by tests/oracle/optimizers.py; do not edit.")
print('#include "optimizer_golden.h"\n')
print("const optimizer_golden optimizer_goldens[OPTIMIZER_GOLDENS] = {")
for (name, params), p in cases.items():
    print('    {.type = "%s",' % name)
    print("     .params = %s," % literal(params, 15))
    print("     .p = {%s}}," % table(p))
print("};")
