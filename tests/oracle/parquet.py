"""Compares the rows that src/data reads from Parquet files with those that pyarrow has written, and writes the golden files of tests/data/parquet.

Usage: parquet.py build/tests/data/test_data_parquet [SEEDS [FIRST]]    SEEDS random schemas and files (200), in all four codecs
       parquet.py --golden tests/data/parquet
"""
import datetime
import json
import math
import os
import random
import subprocess
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq

CODECS = ["none", "snappy", "gzip", "zstd"]


def text(r):
    return "".join(r.choice("abc \n\"\\éß漢😀") for _ in range(r.choice([0, 1, 3, 10, 40])))


LEAVES = {
    "string": (pa.string(), text),
    "large_string": (pa.large_string(), text),
    "binary": (pa.binary(), lambda r: text(r).encode() if r.random() < 0.7 else bytes([r.choice([0, 255]), 65])),
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "int8": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "int16": (pa.int16(), lambda r: r.randrange(-2**15, 2**15)),
    "int32": (pa.int32(), lambda r: r.choice([r.randrange(-9, 9), r.randrange(-2**31, 2**31)])),
    "int64": (pa.int64(), lambda r: r.choice([r.randrange(-9, 9), r.randrange(-2**63, 2**63)])),
    "uint8": (pa.uint8(), lambda r: r.randrange(256)),
    "uint32": (pa.uint32(), lambda r: r.randrange(2**32)),
    "uint64": (pa.uint64(), lambda r: r.choice([r.randrange(2**63), r.randrange(2**63, 2**64)])),
    "float": (pa.float32(), lambda r: r.choice([0.5, -1.25, math.inf, math.nan, r.random()])),
    "double": (pa.float64(), lambda r: r.choice([0.1, -1e300, -math.inf, r.random()])),
    # left out
    "date": (pa.date32(), lambda r: datetime.date(2020, 1, 1 + r.randrange(28))),
    "timestamp": (pa.timestamp("us"), lambda r: datetime.datetime(2020, 1, 1 + r.randrange(28))),
    "decimal": (pa.decimal128(9, 2), lambda r: None),
    "fixed": (pa.binary(3), lambda r: b"abc"),
}
LEFT_OUT = ["date", "timestamp", "decimal", "fixed"]


def draw_type(r, depth):
    """A type as (kind, ...): ("leaf", name), ("list", item), ("struct", {name: type})."""
    kind = r.random()
    if depth == 0 or kind < 0.5:
        return ("leaf", r.choice(list(LEAVES)), r.random() < 0.2)
    if kind < 0.75:
        return ("list", draw_type(r, depth - 1), r.random() < 0.2)
    return ("struct", {name: draw_type(r, depth - 1) for name in r.sample(["role", "content", "x", "weight", "ü"], r.randrange(1, 4))}, r.random() < 0.2)


def field(name, of):
    return pa.field(name, arrow(of), nullable=not of[2])


def arrow(of):
    if of[0] == "leaf":
        return LEAVES[of[1]][0]
    if of[0] == "list":
        return pa.list_(field("element", of[1]))
    return pa.struct([field(name, inner) for name, inner in of[1].items()])


def draw_value(r, of, nulls):
    if not of[2] and r.random() < nulls:
        return None
    if of[0] == "leaf":
        value = LEAVES[of[1]][1](r)
        return value if value is not None or not of[2] else 0
    if of[0] == "list":
        return [draw_value(r, of[1], nulls) for _ in range(r.choice([0, 0, 1, 2, 5]))]
    return {name: draw_value(r, inner, nulls) for name, inner in of[1].items()}


def is_read(of):
    return of[1] not in LEFT_OUT if of[0] == "leaf" else is_read(of[1]) if of[0] == "list" else any(map(is_read, of[1].values()))


def as_json(of, value):
    """What a row's value has to become; the type is one that is read."""
    if value is None:
        return None
    if of[0] == "list":
        return [as_json(of[1], item) for item in value]
    if of[0] == "struct":
        return {name: as_json(inner, value[name]) for name, inner in of[1].items() if is_read(inner)}
    if of[1] == "binary":
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return None
        return None if "\0" in value else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return float(value) if isinstance(value, int) and value > 2**63 - 1 else value


def encodings(r, of, path, out):
    """Draws an encoding for each leaf that is not packed by a dictionary."""
    if of[0] == "list":
        return encodings(r, of[1], path + ".list.element", out)
    if of[0] == "struct":
        for name, inner in of[1].items():
            encodings(r, inner, path + "." + name, out)
        return None
    choices = {"string": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"], "int32": ["PLAIN", "DELTA_BINARY_PACKED"], "bool": ["PLAIN", "RLE"]}
    kind = {"large_string": "string", "binary": "string", "int64": "int32", "uint32": "int32", "uint64": "int32", "int8": "int32", "int16": "int32", "uint8": "int32"}.get(of[1], of[1])
    out[path] = r.choice(choices.get(kind, ["PLAIN"]))
    return None


def write(r, path, schema, rows, codec):
    table = pa.Table.from_pylist(rows, schema=pa.schema([field(name, of) for name, of in schema.items()]))
    how = {"compression": codec, "version": r.choice(["1.0", "2.4", "2.6"]), "data_page_version": r.choice(["1.0", "2.0"]),
           "row_group_size": r.choice([1, 7, 100, 10000]), "data_page_size": r.choice([1, 64, 1 << 20]), "write_batch_size": r.choice([1, 3, 1024]),
           "use_dictionary": r.random() < 0.5, "write_page_index": r.random() < 0.5, "dictionary_pagesize_limit": r.choice([1, 100, 1 << 20])}
    if not how["use_dictionary"] and r.random() < 0.7:
        how["column_encoding"] = {}
        for name, of in schema.items():
            encodings(r, of, name, how["column_encoding"])
    pq.write_table(table, path, **how)
    return how, table.to_pylist()


def lines(schema, rows):
    return [{name: as_json(of, row[name]) for name, of in schema.items() if is_read(of)} for row in rows]


def same(a, b):
    """Equal, and of the same types: 1 is not 1.0, nor True."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def compare(program, seeds, first):
    rows_read = 0
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "f.parquet")
        for seed in range(first, first + seeds):
            r = random.Random(seed)
            schema = {name: draw_type(r, r.randrange(4)) for name in r.sample(["messages", "text", "id", "a b", "meta"], r.randrange(1, 5))}
            rows = [{name: draw_value(r, of, r.choice([0, 0.1, 0.6])) for name, of in schema.items()} for _ in range(r.choice([0, 1, 5, 50, 300]))]
            for codec in CODECS:
                how, back = write(r, path, schema, rows, codec)
                said = subprocess.run([program, path], capture_output=True, text=True, check=False)
                found, wanted = [json.loads(line) for line in said.stdout.splitlines()], lines(schema, back)
                if said.returncode or not same(found, wanted):
                    sys.exit(f"seed {seed}, {codec}, {how}, {schema}: {said.stderr or [(f, w) for f, w in zip(found, wanted) if not same(f, w)][:1] or (len(found), len(wanted))}")
                rows_read += len(rows)
    print(f"{seeds} schemas in {len(CODECS)} codecs: {rows_read} rows are those that pyarrow {pa.__version__} has written")


def golden(directory):
    os.makedirs(directory, exist_ok=True)
    r = random.Random(7)
    leaf = lambda kind, required=False: ("leaf", kind, required)
    turn = ("struct", {"role": leaf("string"), "content": leaf("string"), "weight": leaf("int32")}, False)
    share = ("struct", {"from": leaf("string"), "value": leaf("string")}, False)

    def put(name, schema, rows, **how):
        table = pa.Table.from_pylist(rows, schema=pa.schema([field(key, of) for key, of in schema.items()]))
        pq.write_table(table, f"{directory}/{name}.parquet", store_schema=False, write_statistics=False, **how)
        with open(f"{directory}/{name}.jsonl", "w", encoding="utf-8") as file:
            for line in lines(schema, pq.read_table(f"{directory}/{name}.parquet").to_pylist()):
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    talks = [[{"role": "user", "content": f"{i} plus {i}?", "weight": None}, {"role": "assistant", "content": f"It is {2 * i}.", "weight": i % 2}] for i in range(6)]
    put("messages", {"id": leaf("int64"), "messages": ("list", turn, False)}, [{"id": i, "messages": talk} for i, talk in enumerate(talks)], compression="snappy", row_group_size=4)
    put("conversations", {"system": leaf("string"), "conversations": ("list", share, False)},
        [{"system": None if i % 2 else "s", "conversations": [{"from": "human", "value": m[0]["content"]}, {"from": "gpt", "value": m[1]["content"]}]} for i, m in enumerate(talks)],
        compression="none", use_dictionary=False)
    kinds = {kind: leaf(kind) for kind in LEAVES}
    put("types", kinds, [{kind: draw_value(r, of, 0.2) for kind, of in kinds.items()} for _ in range(12)], compression="snappy", data_page_size=64)
    deep = {"a": ("list", ("list", leaf("string"), False), False), "b": ("struct", {"c": ("list", turn, False), "d": leaf("bool", True)}, False)}
    put("nested", deep, [{name: draw_value(r, of, 0.25) for name, of in deep.items()} for _ in range(12)], compression="snappy", row_group_size=5)
    flat = {"text": leaf("string"), "answer": leaf("string", True), "n": leaf("int64"), "yes": leaf("bool")}
    rows = [{"text": None if i % 5 == 3 else f"prefix {i // 3} and more", "answer": "x" * (i % 4), "n": i * i - 7 * i, "yes": i % 3 == 0} for i in range(40)]
    put("deltas", flat, rows, compression="none", use_dictionary=False, data_page_version="2.0",
        column_encoding={"text": "DELTA_BYTE_ARRAY", "answer": "DELTA_LENGTH_BYTE_ARRAY", "n": "DELTA_BINARY_PACKED", "yes": "RLE"})
    for name, how in {"gzip": {"compression": "gzip"}, "zstd": {"compression": "zstd"}, "version2": {"compression": "snappy", "data_page_version": "2.0"}}.items():
        put(name, flat, rows[:12], **how)

    endless = pa.Table.from_pylist([{"n": [7] * 5000000}], schema=pa.schema([pa.field("n", pa.list_(pa.field("element", pa.int32(), nullable=False)))]))
    pq.write_table(endless, f"{directory}/endless.parquet", store_schema=False, write_statistics=False, write_batch_size=1 << 23, data_page_size=1 << 26)


if sys.argv[1] == "--golden":
    golden(sys.argv[2])
else:
    compare(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200, int(sys.argv[3]) if len(sys.argv) > 3 else 0)
