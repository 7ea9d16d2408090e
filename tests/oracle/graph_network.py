#!/usr/bin/env python3
"""The network of examples/graph.c in plain torch, with sparse matrices: losses of 50 steps, the weights and the accuracy after them.

    python3 tests/oracle/graph_network.py ZERO GRAPH

ZERO is the program, with libzero.so next to it, GRAPH the example. The graph and its features are drawn as examples/block_model.h
draws them; the weights begin as a run of no steps leaves them. Of a sample, the nodes of its columns are zero_graph_sample's; that
they are neighbours, each once, and as many as there should be, is checked here, and the matrix is made here of the whole one.
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
from safetensors.torch import load_file

warnings.filterwarnings("ignore", message="Sparse CSR")
zero, example = sys.argv[1:3]
NODES, BLOCKS, WIDTH, BATCH, MOST, KNOWN, STEPS = 1024, 4, 16, 32, 6, 256, 50
LIBRARY = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(zero)), "libzero.so"))
LIBRARY.zero_graph_nodes.restype = ctypes.POINTER(ctypes.c_int32)
state = 1


class Options(ctypes.Structure):  # zero_graph_options
    _fields_ = [("struct_size", ctypes.c_size_t), ("nodes", ctypes.c_int64), ("edges", ctypes.c_int64), ("from_", ctypes.c_void_p),
                ("to", ctypes.c_void_p), ("starts", ctypes.c_void_p), ("weights", ctypes.c_int), ("self_loops", ctypes.c_int)]


def draw():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
    return (state >> 40) / 2 ** 24


near, pairs = numpy.zeros((NODES, NODES)), []
for a in range(NODES):
    for b in range(a):
        if draw() < (1 / 16 if a % BLOCKS == b % BLOCKS else 1 / 128):
            near[a, b] = near[b, a] = 1
            pairs += [(a, b), (b, a)]
x = numpy.array([draw() - 0.5 for _ in range(NODES * WIDTH)]).astype(numpy.float32).reshape(NODES, WIDTH)
x[numpy.arange(NODES), numpy.arange(NODES) % BLOCKS] += numpy.float32(0.4)
near += numpy.eye(NODES)
degree = near.sum(1)
labels = torch.arange(NODES) % BLOCKS
MATRICES = {"mean": near / degree[:, None], "symmetric": near / numpy.sqrt(degree[:, None] * degree)}


def checked(status):
    assert status == 0, f"the library says {status}"


def library_graph():
    out, (of, to) = ctypes.c_void_p(), numpy.array(pairs, dtype=numpy.int32).T.copy()
    options = Options(ctypes.sizeof(Options), NODES, len(pairs), of.ctypes.data, to.ctypes.data, None, 1, 1)
    checked(LIBRARY.zero_graph_create(ctypes.byref(options), ctypes.byref(out), None))
    return out


GRAPH = library_graph()


def sampled(matrix, rows, step, seed):
    """Returns the nodes of a sample's columns, -1 for none, and the matrix of the sums over them."""
    out, count = ctypes.c_void_p(), ctypes.c_int64()
    checked(LIBRARY.zero_graph_sample(GRAPH, rows.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(rows)), ctypes.c_int64(MOST), ctypes.c_uint64(seed),
                                      ctypes.c_uint64(step), ctypes.byref(out), None))
    columns = numpy.ctypeslib.as_array(LIBRARY.zero_graph_nodes(out, ctypes.byref(count)), (len(rows) * (1 + MOST),)).copy()
    LIBRARY.zero_graph_destroy(out)
    assert count.value == len(columns) and (columns[:len(rows)] == rows).all()
    small = numpy.zeros((len(rows), len(columns)))
    for r, node in enumerate(rows):
        at = len(rows) + r * MOST + numpy.flatnonzero(columns[len(rows) + r * MOST:][:MOST] >= 0)
        if node < 0:
            assert len(at) == 0
            continue
        taken = min(int(degree[node]), MOST)
        assert len(set(columns[at])) == len(at) in (taken - 1, taken) and near[node, columns[at]].all() and node not in columns[at]
        at = numpy.append(at, r) if len(at) < taken else at  # the loop, whose column is the node's own
        small[r, at] = matrix[node, columns[at]] * degree[node] / taken
    return columns, small


def run(place, way, nodes, steps):
    said = subprocess.run([zero, "run", "--ranks", "2", example, "3", str(steps), way, nodes, f"{place}/w"], check=True, capture_output=True, text=True)
    losses = [float(line.split()[3]) for line in said.stdout.splitlines() if line.startswith("step")]
    right = [int(line.split()[0]) for line in said.stdout.splitlines() if line.endswith("right")][0]
    return losses, right, load_file(f"{place}/w")


def network(w, outer, inner, features):
    return outer @ (torch.relu(inner @ features @ w["w0"]) @ w["w1"])


def logits_of(w, dtype, matrix, first, last, step):
    """Returns the logits of nodes first to last - 1; step: of the samples, None: the graph is whole."""
    def sparse(array):
        return torch.tensor(array).to(dtype).to_sparse_csr()

    if step is None:
        return network(w, *[sparse(matrix)] * 2, torch.tensor(x).to(dtype))[first:last]
    parts = []
    for batch in range(first, last, BATCH):
        nodes, outer = sampled(matrix, numpy.arange(batch, batch + BATCH, dtype=numpy.int32), step, 2)
        nodes, inner = sampled(matrix, nodes, step, 1)
        features = torch.tensor(numpy.where(nodes[:, None] < 0, 0, x[nodes])).to(dtype)
        parts.append(network(w, sparse(outer), sparse(inner), features))
    return torch.cat(parts)


def compare(way, nodes, dtype):
    matrix = MATRICES[way]
    with tempfile.TemporaryDirectory() as place:
        w = {name: p.to(dtype).requires_grad_() for name, p in run(place, way, nodes, 0)[2].items()}
        losses, right, ours = run(place, way, nodes, STEPS)
    adam = torch.optim.AdamW(w.values(), lr=0.05, weight_decay=0)
    theirs = []
    for step in range(STEPS):
        loss = torch.nn.functional.cross_entropy(logits_of(w, dtype, matrix, 0, KNOWN, step if nodes == "sampled" else None), labels[:KNOWN])
        theirs.append(loss.item())
        adam.zero_grad()
        loss.backward()
        adam.step()
    logits = logits_of(w, dtype, matrix, KNOWN, NODES, STEPS if nodes == "sampled" else None)
    count = (logits.argmax(1) == labels[KNOWN:]).sum().item()
    apart = max(((ours[name] - p).abs().max() / p.abs().max()).item() for name, p in w.items())
    worst = max(abs(a / b - 1) for a, b in zip(losses, theirs, strict=True))
    print(f"{way}, {nodes}, torch in {dtype}: {STEPS} losses differ by {worst:.2g}, weights by {apart:.2g} at most; {right} and {count} of {NODES - KNOWN} right")
    if dtype == torch.float64:
        print("    losses of steps 1, 10 and 50: " + " ".join(f"{theirs[n - 1]:.9g}" for n in (1, 10, 50)))  # tests/examples/graph.sh has them
    return worst < 1e-6 and apart < 1e-5 and right == count


ways = [(way, nodes, dtype) for nodes in ("full", "sampled") for way in ("mean", "symmetric") for dtype in (torch.float64, torch.float32)]
sys.exit(not all([compare(*way) for way in ways]))
