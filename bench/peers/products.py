#!/usr/bin/env python3
"""GF/s of PyTorch's product (1024 x 768) (768 x 3072) in bf16 and in fp32, best of three: products.py [--threads 2]

Without instructions for bf16 a processor multiplies it many times slower than fp32, and nobody would train in it there.
"""
import argparse
import time

import torch

ROWS, INNER, COLUMNS = 1024, 768, 3072

p = argparse.ArgumentParser()
p.add_argument("--threads", type=int, default=2)
p.add_argument("--serve", action="store_true", help="bench/compare's; there are no rounds here")
torch.set_num_threads(p.parse_args().threads)
rates = []
for dtype in torch.bfloat16, torch.float32:
    x, weight = torch.randn(ROWS, INNER).to(dtype), torch.randn(COLUMNS, INNER).to(dtype)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        torch.nn.functional.linear(x, weight)
        times.append(time.perf_counter() - start)
    rates.append(2e-9 * ROWS * INNER * COLUMNS / min(times[1:]))
print("peer products", *(f"{rate:.1f}" for rate in rates), flush=True)
