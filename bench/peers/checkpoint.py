"""torch.distributed.checkpoint: weights and both moments of GPT-2 124M in fp32, saved with fsync, loaded cold. checkpoint.py DIR: GB/s of both."""
import os
import pathlib
import shutil
import sys
import time

import torch
import torch.distributed.checkpoint as dcp

SHAPES = [(50257, 768), (1024, 768)] + 12 * [(768,), (768,), (768, 2304), (2304,), (768, 768), (768,), (768,), (768,), (768, 3072), (3072,), (3072, 768), (768,)] + 2 * [(768,)]
directory = pathlib.Path(sys.argv[1]) / f"torch-bench.{os.getpid()}"
state = {f"{v}.{i}": torch.rand(shape) for v in ("weights", "exp_avg", "exp_avg_sq") for i, shape in enumerate(SHAPES)}
size = sum(4 * t.numel() for t in state.values())


def each_file(use):
    for path in directory.rglob("*"):
        fd = os.open(path, os.O_RDONLY)
        use(fd)
        os.close(fd)


try:
    begin = time.monotonic()
    dcp.save(state, checkpoint_id=directory, storage_writer=dcp.FileSystemWriter(directory, sync_files=True))
    saved = time.monotonic() - begin
    each_file(lambda fd: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED))
    begin = time.monotonic()
    dcp.load(state, checkpoint_id=directory)
    loaded = time.monotonic() - begin
finally:
    shutil.rmtree(directory, ignore_errors=True)
print(size / saved * 1e-9, size / loaded * 1e-9)
