#!/usr/bin/env python3
"""Writes tests/compute/blocks_golden.c: codes, scales and carries of numbers in blocks, in double precision by the formulas of ZeRO++ (arXiv 2306.10209,
3.1: symmetric blocks) and of LoCo (arXiv 2407.04480, as DeepSpeed's loco_swizzled_quant_kernel computes it).
  python tests/oracle/blocks.py > tests/compute/blocks_golden.c
With --compare it prints how far numbers are after coding, relative to their size, by these formulas and by DeepSpeed's scale of 2^bits / (2 largest)."""
import sys

import numpy as np

BLOCK, BETA = 256, float(np.float32(0.8))
# bits, elements, steps with a carry (1: the codes without one), the power of two that the numbers lie below, whether most are small
CASES = [(8, 260, 1, 0, 0), (4, 260, 1, 0, 0), (8, 300, 1, 127, 1), (4, 300, 1, 127, 1), (8, 256, 1, -118, 1), (4, 256, 1, -122, 0), (8, 64, 4, 1, 0), (4, 64, 6, 1, 0),
         (4, 64, 6, -20, 1)]


def numbers(seed, step, n, power, small):
    """As test_blocks.c makes them: exactly, so that both have the same bits."""
    i = np.arange(n, dtype=np.uint64) + np.uint64(1000 * step + 1)
    word = (i * np.uint64(2654435761) + i * i * np.uint64(seed) * np.uint64(40503)) % np.uint64(1 << 32)
    x = word.astype(np.float64) / 2.0**32 * 2 - 1
    return (x * x * x if small else x).astype(np.float32).astype(np.float64) * 2.0**power


def encode(x, bits):
    """Returns codes, scales, and how close the nearest quotient is to a tie."""
    codes, scales, tie = [], [], 1
    for block in np.split(x, range(BLOCK, len(x), BLOCK)):
        scale = np.abs(block).max() / (2 ** (bits - 1) - 1)
        quotients = block / scale
        codes.append(np.rint(quotients))
        scales.append(scale)
        tie = min(tie, np.abs(np.abs(quotients) % 1 - 0.5).min())
    return np.concatenate(codes), scales, tie


def steps_of(seed, bits, n, steps, power, small):
    carry, tie = np.zeros(n), 1
    for step in range(steps):
        x = numbers(seed, step, n, power, small) + carry
        codes, scales, now = encode(x, bits)
        tie = min(tie, now)
        carry = BETA * carry + (1 - BETA) * (x - codes * np.repeat(scales, BLOCK)[:n])
    return codes, scales, carry, tie


def deepspeed(x, bits):
    scale = 2**bits / (2 * np.abs(x).max(axis=1, keepdims=True))
    return np.clip(np.rint(x * scale), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1) / scale


def ours(x, bits):
    scale = np.abs(x).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    return np.rint(x / scale) * scale


def compare():
    draw = np.random.default_rng(1)
    for name, x in (("normal", draw.normal(size=(4000, BLOCK))), ("Laplace", draw.laplace(size=(4000, BLOCK))), ("uniform", draw.uniform(-1, 1, (4000, BLOCK)))):
        for bits in 8, 4:
            for way, of in (("largest / (2^(bits-1) - 1)", ours), ("DeepSpeed", deepspeed)):
                lost = of(x, bits) - x
                largest = np.abs(x) == np.abs(x).max(axis=1, keepdims=True)
                print(f"{name:8} {bits} bits  {way:27} rms {np.sqrt((lost**2).mean() / (x**2).mean()):.5f}  bias {(lost * np.sign(x)).mean() / np.abs(x).mean():+.6f}  "
                      f"of the largest {np.abs(lost[largest] / x[largest]).max():.4f}")


def table(words, a_line):
    return ",\n".join("        " + ", ".join(words[i:i + a_line]) for i in range(0, len(words), a_line))


if "--compare" in sys.argv:
    compare()
    sys.exit()
print("// Written by tests/oracle/blocks.py; do not edit.\n// clang-format off")
print('#include "blocks_golden.h"\n\nconst blocks_golden blocks_goldens[] = {')
for case in CASES:
    bits, n, steps, power, small = case
    # Not within 0.003 of a tie, because a scale of 17 bits moves a quotient by as much as 0.002.
    seed = next(s for s in range(1, 10000) if steps_of(s, *case)[3] > 0.003)
    codes, scales, carry, _ = steps_of(seed, *case)
    print(f"    {{.bits = {bits}, .n = {n}, .steps = {steps}, .power = {power}, .small = {small}, .seed = {seed},")
    print(f"     .scales = {{{', '.join('%.17g' % s for s in scales)}}},")
    print("     .codes = {\n" + table(["%d" % c for c in codes], 18) + "},")
    if steps > 1:
        print("     .carry = {\n" + table(["%.9g" % c for c in carry], 5) + "},")
    print("    },")
print("};\nconst int blocks_golden_count = ZR_COUNT(blocks_goldens);")
