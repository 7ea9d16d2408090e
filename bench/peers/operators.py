#!/usr/bin/env python3
"""Compiles what DeepSpeed compiles at its first use on a CPU, so that no measurement waits for it; needs ninja and a C++ compiler."""
import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # ninja is started by name
from deepspeed.accelerator import get_accelerator  # noqa: E402

for name in "FusedAdamBuilder", "ShareMemCommBuilder":
    get_accelerator().create_op_builder(name).load()
