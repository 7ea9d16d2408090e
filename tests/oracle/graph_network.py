#!/usr/bin/env python3
"""The network of examples/graph.c in plain torch, with a sparse matrix: losses of 50 steps, the weights and the accuracy after them.

    python3 tests/oracle/graph_network.py ZERO GRAPH

ZERO is the program, GRAPH the example. The graph and its features are drawn as examples/block_model.h draws them; the weights begin as
a run of no steps leaves them. Samples are the example's own, so the whole graph alone is compared.
"""
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file

zero, example = sys.argv[1:3]
NODES, BLOCKS, WIDTH, BATCH, KNOWN, STEPS = 1024, 4, 16, 32, 256, 50
state = 1


def draw():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
    return (state >> 40) / 2 ** 24


near = numpy.zeros((NODES, NODES))
for a in range(NODES):
    for b in range(a):
        if draw() < (1 / 16 if a % BLOCKS == b % BLOCKS else 1 / 128):
            near[a, b] = near[b, a] = 1
x = numpy.array([draw() - 0.5 for _ in range(NODES * WIDTH)]).astype(numpy.float32).reshape(NODES, WIDTH)
x[numpy.arange(NODES), numpy.arange(NODES) % BLOCKS] += numpy.float32(0.4)
near += numpy.eye(NODES)
degree = near.sum(1)
labels = torch.arange(NODES) % BLOCKS


def run(place, way, steps):
    said = subprocess.run([zero, "run", "--ranks", "2", example, "3", str(steps), way, "full", f"{place}/w"], check=True, capture_output=True, text=True)
    losses = [float(line.split()[3]) for line in said.stdout.splitlines() if line.startswith("step")]
    right = [int(line.split()[0]) for line in said.stdout.splitlines() if line.endswith("right")][0]
    return losses, right, load_file(f"{place}/w")


def compare(way, dtype):
    matrix = near / degree[:, None] if way == "mean" else near / numpy.sqrt(degree[:, None] * degree)
    sparse = torch.tensor(matrix).to(dtype).to_sparse_csr()
    features = torch.tensor(x).to(dtype)
    with tempfile.TemporaryDirectory() as place:
        w = {name: p.to(dtype).requires_grad_() for name, p in run(place, way, 0)[2].items()}
        losses, right, ours = run(place, way, STEPS)
    adam = torch.optim.AdamW(w.values(), lr=0.05, weight_decay=0)
    worst = 0.0
    for step in range(1, STEPS + 1):
        logits = sparse @ (torch.relu(sparse @ features @ w["w0"]) @ w["w1"])
        loss = torch.nn.functional.cross_entropy(logits[:KNOWN], labels[:KNOWN])
        if step % 10 == 0:
            worst = max(worst, abs(losses[step // 10 - 1] / loss.item() - 1))
        adam.zero_grad()
        loss.backward()
        adam.step()
    logits = sparse @ (torch.relu(sparse @ features @ w["w0"]) @ w["w1"])
    theirs = (logits.argmax(1) == labels)[KNOWN:].sum().item()
    apart = max(((ours[name] - p).abs().max() / p.abs().max()).item() for name, p in w.items())
    print(f"{way}, torch in {dtype}: losses differ by {worst:.2g}, weights by {apart:.2g} at most; {right} and {theirs} of {NODES - KNOWN} right")
    return worst < 1e-6 and apart < 1e-4 and right == theirs


sys.exit(not all([compare(way, dtype) for way in ("mean", "symmetric") for dtype in (torch.float64, torch.float32)]))
