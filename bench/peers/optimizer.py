#!/usr/bin/env python3
"""AdamW over flat fp32 parameters in PyTorch: clip_grad_norm_, the fused step, and the cast to a 16-bit copy.

    optimizer.py [--parameters 100000000] [--threads 2] [--steps 10] [--serve]

The parameters lie in 64 tensors, gradients are fp32. Prints and reads the lines that train_step.py does.
"""
import argparse
import sys
import time

import torch

TENSORS = 64


def main():
    p = argparse.ArgumentParser()
    for name, value in dict(parameters=100_000_000, threads=2, steps=10).items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--serve", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    masters = [torch.randn(a.parameters // TENSORS) for _ in range(TENSORS)]
    halves = [m.bfloat16() for m in masters]
    for master in masters:
        master.grad = torch.randn_like(master)
    optimizer = torch.optim.AdamW(masters, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def timed_step():
        start = time.perf_counter()
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        optimizer.step()
        torch._foreach_copy_(halves, masters)
        return 1e3 * (time.perf_counter() - start)

    for name in "first", "warm":
        print(f"peer {name} {timed_step():.3f}", flush=True)
    for line in sys.stdin if a.serve else [a.steps]:
        times = sorted(timed_step() for _ in range(int(line)))
        print(f"peer round {len(times)} {(times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2:.3f}", flush=True)


if __name__ == "__main__":
    main()
