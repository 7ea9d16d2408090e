"""Writes tests/config/elastic_golden.h: what DeepSpeed computes for random elasticity sections.

DeepSpeed 0.19.8 has removed the section; this needs 0.19.6 (or earlier) on PYTHONPATH.
Usage: elasticity.py ROWS OUT
"""
import logging
import random
import sys

from deepspeed.elasticity import compute_elastic_config
from deepspeed.elasticity.config import ElasticityError
from deepspeed.elasticity.elasticity import _get_compatible_gpus_v01

logging.disable(logging.CRITICAL)
random.seed(6)


def answer(section, ranks):
    """batch, valid numbers of ranks, micro-batch; None where DeepSpeed refuses. TypeError: where it falls over a list that it has not made."""
    try:
        batch, valid, micro = compute_elastic_config({"elasticity": section}, "0.19.6", world_size=ranks, return_microbatch=True)
    except (ElasticityError, ValueError):
        return None
    return (batch, valid, micro) if batch > 0 else None


def named(section):
    """The batch and the numbers of ranks that share it, whoever asks."""
    node = section["num_gpus_per_node"] if section["version"] == 0.2 else 1
    batch, valid = _get_compatible_gpus_v01(section["micro_batch_sizes"], section["max_train_batch_size"] // node, section["min_gpus"] // node,
                                            section["max_gpus"] // node, section["prefer_larger_batch"])
    return batch * node, [n * node for n in valid or []]


def section():
    most = random.choice([16, 100, 2000, 9999, 10000, 65536, random.randint(1, 50000)])
    low = random.choice([1, 1, 2, 8, 32, random.randint(1, 200)])
    return {
        "enabled": True, "max_train_batch_size": most, "version": random.choice([0.1, 0.2]),
        "micro_batch_sizes": [random.randint(1, random.choice([4, 12, 40])) for _ in range(random.randint(1, 5))],
        "min_gpus": low, "max_gpus": random.choice([10000, low, low + random.randint(0, 2000)]),
        "num_gpus_per_node": random.choice([1, 1, 2, 4, 8]), "prefer_larger_batch": random.random() < 0.7,
    }


rows = []
while len(rows) < int(sys.argv[1]):
    s = section()
    try:
        batch, valid = named(s)
    except ValueError:
        batch, valid = 0, []
    ranks = random.choice(valid) if valid and random.random() < 0.6 else random.randint(1, 300)
    try:
        got = answer(s, ranks)
    except TypeError:
        continue
    share = f"{{{got[0]}, {got[2]}}}" if got else "{0, 0}"
    micros = ", ".join(map(str, s["micro_batch_sizes"]))
    rows.append(f"    {{{{{int(s['version'] == 0.2)}, {s['max_train_batch_size']}, {{{micros}}}, {len(s['micro_batch_sizes'])}, {s['min_gpus']}, {s['max_gpus']}, "
                f"{s['num_gpus_per_node']}, {int(s['prefer_larger_batch'])}}}, {batch if valid else 0}, {len(valid)}, {sum(valid)}, {ranks}, {share}}},")

with open(sys.argv[2], "w") as out:
    out.write("// Made by tests/oracle/elasticity.py with DeepSpeed 0.19.6. The rule; its batch, how many numbers of ranks share it, their sum;\n"
              "// a number of ranks, and its batch and micro-batch (0: refused).\n"
              "static const struct elastic_row {\n    zr_elastic_rule rule;\n    int64_t batch, count, sum, ranks;\n"
              "    struct { int64_t train, micro; } share;\n} elastic_golden[] = {\n" + "\n".join(rows) + "\n};\n")
