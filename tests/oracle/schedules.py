#!/usr/bin/env python3
"""Writes tests/engine/schedule_golden.c: the rates of 100 updates by transformers' schedules.  VENV/bin/python tests/oracle/schedules.py >
tests/engine/schedule_golden.c

transformers makes its first update with the rate of its step 0, which is 0, and its last with that of step 99. The program's update t, counted from 1,
has the rate of step t, so that no update is wasted at the start; and where the least rate is 0, transformers' decay is asked to end one step after the
last update, so that none is wasted at the end."""
import torch
from transformers import optimization as o

LR, UPDATES = 3e-4, 100


def rates(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    schedule = make(optimizer)
    out = []
    for _ in range(UPDATES):
        optimizer.step()
        schedule.step()
        out.append(schedule.get_last_lr()[0])
    return out


def wsd(warmup, decay, shape, ratio=0):
    return rates(lambda optimizer: o.get_wsd_schedule(optimizer, warmup, decay + (ratio == 0), num_stable_steps=UPDATES - warmup - decay, decay_type=shape,
                                                      min_lr_ratio=ratio))


cases = {
    '"type": "constant", "warmup": 7': rates(lambda p: o.get_constant_schedule_with_warmup(p, 7)),
    '"type": "linear", "warmup": 10': rates(lambda p: o.get_linear_schedule_with_warmup(p, 10, UPDATES + 1)),
    '"type": "cosine", "warmup": "10%"': rates(lambda p: o.get_cosine_with_min_lr_schedule_with_warmup(p, 10, UPDATES, min_lr_rate=0.1)),
    '"type": "cosine", "warmup": 10, "min_lr_ratio": 0': rates(lambda p: o.get_cosine_schedule_with_warmup(p, 10, UPDATES + 1)),
    '"type": "wsd", "warmup": 5': wsd(5, 20, "linear"),
    '"type": "wsd", "warmup": 5, "decay": "40%", "decay_type": "cosine"': wsd(5, 40, "cosine"),
    # transformers' warm-up begins at the least rate, the program's does not; with one update both are the same
    '"type": "wsd", "warmup": 1, "decay": 30, "decay_type": "1-sqrt", "min_lr_ratio": 0.05': wsd(1, 30, "1-sqrt", 0.05),
}

print("// Written by tests/oracle/schedules.py; do not edit.")
print('#include "schedule_golden.h"\n\n// clang-format off')
print("const schedule_golden schedule_goldens[SCHEDULE_GOLDENS] = {")
for params, lr in cases.items():
    words = ["%.17g," % x for x in lr]
    words[-1] = words[-1][:-1]
    widths = [max(map(len, words[c::4])) for c in range(4)]
    rows = (words[at:at + 3] for at in range(0, len(words), 3))
    text = params.replace('"', '\\"')
    cut = text.rfind(" ", 0, 84) + 1 if len(text) > 84 else 0
    lines = [text[:cut], text[cut:]] if cut else [text]
    print("    {.params = %s," % ("\n" + " " * 15).join('"%s"' % line for line in lines))
    print("     .lr = {%s}}," % ("\n" + " " * 12).join(" ".join(map(str.ljust, row, widths)).rstrip() for row in rows))
print("};")
