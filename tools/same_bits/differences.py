"""What of two programs' outputs differs for tools/same-bits, and which of it is meant."""

import json
import struct


class Difference:
    def __init__(self, kind, where, old, new, explained=()):
        self.kind = kind  # "tensors", "metrics", "plan", "json", "text", "exit", "file"
        self.where, self.old, self.new = where, old, new
        self.explained = explained  # names of ALLOWED that account for the whole of it

    def __str__(self):
        return f"{self.where}: {shown(self.old)} / {shown(self.new)}"


def is_computed(difference):
    """Not a plan, bytes, messages, files or exit codes: what another formula may change."""
    if difference.kind == "metrics":
        return difference.where.endswith((".loss", ".val_loss", ".grad_norm", ".lr", ".loss_scale"))
    return difference.kind in ("tensors", "text")


# Differences that a change means to make: a name for --allow, the reason, and whether one of a case is among them.
ALLOWED = {
    "lamb": (
        "LAMB corrects the bias of its moments before the trust ratio",
        lambda case, d: "lamb" in case.traits and is_computed(d),
    ),
    "masked": (
        "loss and gradient are means over the targets of a step, not means of micro-batches' means",
        lambda case, d: "masked" in case.traits and is_computed(d),
    ),
    "default-schedule": (
        "a schedule that no file asks for does not begin at rate 0",
        lambda case, d: "default-schedule" in case.traits and is_computed(d),
    ),
    "last-checkpoint": (
        "what a run's end saves is from before it finishes a delayed update, so that a longer run goes on as a straight one",
        lambda case, d: "last-checkpoint" in case.traits and d.kind in ("metrics", "tensors", "text"),
    ),
    "extents": (
        "saving ranks tell the first one where the rectangles lie that they have written, not stretches alone",
        lambda case, d: d.kind == "metrics" and d.where.endswith(".comm.broadcast.bytes"),
    ),
    "workspace": (
        "a product's scratch is planned for every shape that is met: workspace, and the sums that hold it",
        lambda case, d: "workspace" in d.explained,
    ),
}

TIMES = {"ms", "tok_s"}


def shown(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 90 else text[:87] + "..."


def workspace_of(holder):
    """Bytes of workspace in an object of metrics.jsonl or of a plan's rows; None: it says nothing of them."""
    if "mem" in holder:
        return holder["mem"].get("workspace", {}).get("planned")
    return holder.get("bytes", {}).get("workspace")


def json_differences(kind, where, old, new, holders=(None, None)):
    """All differences of two values; holders: the objects around them that know of their workspace."""
    if isinstance(old, dict) and isinstance(new, dict):
        if isinstance(old.get("mem", old.get("bytes")), dict):  # else bytes of a kind of messages
            holders = (old, new)
        for key, value in old.items():
            if kind == "metrics" and key in TIMES:
                continue
            if key not in new:
                yield Difference(kind, f"{where}.{key}", value, "(nothing)")
            else:
                yield from json_differences(kind, f"{where}.{key}", value, new[key], holders)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            yield from json_differences(kind, f"{where}[{i}]", a, b, holders)
    elif old != new or type(old) is not type(new):
        yield Difference(kind, where, old, new, explanation(where, old, new, holders))


def explanation(where, old, new, holders):
    """Names of ALLOWED that account for the whole of a difference of two numbers."""
    before, after = (workspace_of(h) if h else None for h in holders)
    if None in (before, after) or before == after or not (isinstance(old, int) and isinstance(new, int)):
        return ()
    sums = (".workspace", ".workspace.planned", ".workspace.held", ".total", ".tiers.device")
    return ("workspace",) if where.endswith(sums) and new - old == after - before else ()


def read_lines(path):
    """Objects of metrics.jsonl; the last one may be half there."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def metrics_differences(name, old, new):
    old, new = read_lines(old), read_lines(new)
    for i, (a, b) in enumerate(zip(old, new)):
        yield from json_differences("metrics", f"{name}, line {i + 1} (step {a.get('step')})", a, b)
    if len(old) != len(new):
        yield Difference("metrics", f"{name}, lines", len(old), len(new))


ELEMENT = {"F64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "I8": 1, "BOOL": 1}


def tensors_of(data):
    """(metadata, {name: (dtype, shape, bytes)}) of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    about = header.pop("__metadata__", {})

    def bytes_of(offsets):
        return data[8 + size + offsets[0]:8 + size + offsets[1]]

    return about, {name: (t["dtype"], t["shape"], bytes_of(t["data_offsets"])) for name, t in header.items()}


def value_of(dtype, raw):
    if dtype == "BF16":
        return struct.unpack("<f", b"\0\0" + raw)[0]
    form = {"F64": "<d", "F32": "<f", "F16": "<e", "I32": "<i", "U32": "<I", "I64": "<q"}.get(dtype)
    return struct.unpack(form, raw)[0] if form else raw.hex()


def tensor_difference(where, old, new):
    """The first element in which two tensors of one name differ; None: in none."""
    if old[:2] != new[:2]:
        return Difference("tensors", where, f"{old[0]} {old[1]}", f"{new[0]} {new[1]}")
    if old[2] == new[2]:
        return None
    size = ELEMENT[old[0]]
    count = len(old[2]) // size
    pairs = [[each[2][i * size:i * size + size] for each in (old, new)] for i in range(count)]
    differing = [i for i, (a, b) in enumerate(pairs) if a != b]
    values = [value_of(old[0], raw) for raw in pairs[differing[0]]]
    return Difference("tensors", f"{where}[{differing[0]}] ({len(differing)} of {count} elements)", *values)


def tensors_differences(name, old, new):
    old, new = old.read_bytes(), new.read_bytes()
    if old == new:
        return
    (about, before), (about_new, after) = tensors_of(old), tensors_of(new)
    found = False
    for tensor in before:
        if tensor not in after:
            difference = Difference("tensors", f'{name} "{tensor}"', "there", "not there")
        else:
            difference = tensor_difference(f'{name} "{tensor}"', before[tensor], after[tensor])
        if difference:
            found = True
            yield difference
    for tensor in after:
        if tensor not in before:
            found = True
            yield Difference("tensors", f'{name} "{tensor}"', "not there", "there")
    if not found:
        yield Difference("tensors", f"{name}, its header", about, about_new)


def text_differences(name, old, new):
    old, new = (path.read_text(errors="replace").splitlines() for path in (old, new))
    for i in range(max(len(old), len(new))):
        a, b = (lines[i] if i < len(lines) else "(end)" for lines in (old, new))
        if a != b:
            yield Difference("text", f"{name}, line {i + 1}", a, b)
            return


def file_differences(name, old, new):
    if name.endswith(".safetensors"):
        yield from tensors_differences(name, old, new)
    elif name.endswith("metrics.jsonl"):
        yield from metrics_differences(name, old, new)
    elif name.endswith(".json"):
        yield from json_differences("json", name, json.loads(old.read_text()), json.loads(new.read_text()))


def is_compared(path):
    """Not config.json of a run, receipts and manifests, which tell how it was made: versions, new keys' defaults."""
    if path.name.endswith((".safetensors", "metrics.jsonl")):
        return True
    return path.suffix == ".json" and path.parent.name in ("model", "best") and path.name != "receipt.json"


def folder_differences(old, new):
    files = sorted(p for p in old.rglob("*") if p.is_file() and is_compared(p))
    for path in files:
        name = str(path.relative_to(old))
        if new.joinpath(name).is_file():
            yield from file_differences(name, path, new.joinpath(name))
        else:
            yield Difference("file", name, "there", "not there")


def command_differences(case, old, new):
    for (name, arguments), (code, out, said), (code_new, out_new, said_new) in zip(case.commands, old, new):
        if code != code_new:
            yield Difference("exit", f"{name}, exit code", f"{code} ({said})", f"{code_new} ({said_new})")
        elif said != said_new and code:
            yield Difference("text", f"{name}, its error", said, said_new)
        elif "plan" in arguments and code == 0:
            plans = [json.loads(path.read_text()) for path in (out, out_new)]
            yield from json_differences("plan", name, *plans)
        else:
            yield from text_differences(name, out, out_new)
