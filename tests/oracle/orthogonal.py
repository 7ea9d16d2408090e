#!/usr/bin/env python3
"""Writes tests/engine/orthogonal_golden.c: Muon's iteration on small matrices, by PyTorch's own function (standard) and DeepSpeed's (gram, in fp16).

    python tests/oracle/orthogonal.py DEEPSPEED/deepspeed/runtime/zero/muon/original_muon.py > tests/engine/orthogonal_golden.c

DeepSpeed's file is read as text, because of all that its package asks for the two functions need nothing.
"""
import ast
import sys
import types

import torch
from torch.optim import _muon

SHAPES = [(6, 10), (10, 6), (7, 7), (1, 5)]


def matrix(rows, columns):
    """Numbers that bf16 holds exactly."""
    numbers = [(37 * i * i + 11 * i) % 101 - 50 for i in range(rows * columns)]
    return (torch.tensor(numbers, dtype=torch.float32) / 1024).bfloat16().reshape(rows, columns)


def standard(u):
    return _muon._zeropower_via_newtonschulz(u, (_muon.DEFAULT_A, _muon.DEFAULT_B, _muon.DEFAULT_C), _muon.DEFAULT_NS_STEPS, _muon.EPS)


def gram_of(path):
    with open(path) as file:
        functions = [node for node in ast.parse(file.read()).body if isinstance(node, ast.FunctionDef) and node.name == "zeropower_via_gram_newtonschulz"]
    functions[0].decorator_list = []
    accelerator = types.SimpleNamespace(is_fp16_supported=lambda: True)
    names = {"torch": torch, "get_accelerator": lambda: accelerator}
    exec(compile(ast.Module(functions, []), path, "exec"), names)
    return lambda u: names[functions[0].name](u, 5).bfloat16()


def lines(x):
    words = ["%.9g," % v for v in x.flatten().tolist()]
    words[-1] = words[-1][:-1] + "}},"
    text, line = [], ""
    for word in words:
        if len(line) + len(word) > 83:
            text.append(line.rstrip())
            line = ""
        line += word + " "
    return ("\n" + " " * 16).join(text + [line.rstrip()])


print("// Written by tests/oracle/orthogonal.py; do not edit.")
print('#include "orthogonal_golden.h"\n')
print("const orthogonal_golden orthogonal_goldens[ORTHOGONAL_GOLDENS] = {")
for method, function in [("STANDARD", standard), ("GRAM", gram_of(sys.argv[1]))]:
    for rows, columns in SHAPES:
        print("    {.method = ZR_ORTHOGONAL_%s,\n     .rows = %d,\n     .cols = %d,\n     .result = {%s" % (method, rows, columns, lines(function(matrix(rows, columns)))))
print("};")
