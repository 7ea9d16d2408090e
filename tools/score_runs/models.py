"""The model of a row: from its cells, from what is known of its name, or as wide as such models are."""
import math

from score_runs import words
from score_runs.machines import RowError

NEAR = 0.1  # how far the size of a known model may lie from what a row says: |log|
MOST_BILLIONS = 1e7
SHAPE = ("layers", "width", "heads", "kv_heads", "ffn", "vocab")
COLUMNS = {"layers": "layers", "width": "hidden", "heads": "heads", "kv_heads": "kv_heads", "ffn": "ffn", "vocab": "vocab"}
MOST = {"layers": 1e5, "width": 1e7, "heads": 1e5, "kv_heads": 1e5, "ffn": 1e8, "vocab": 1e8}

# Published models that tables only name: a part of the name, billions of parameters, the shape, tokens of a sample.
KNOWN = [
    ("llama-1b", 1.1, (16, 2048, 32, 8, 8192, 131072), 4096),
    ("llama-3b", 3.2, (28, 3072, 24, 8, 8192, 131072), 4096),
    ("llama-8b", 8, (32, 4096, 32, 8, 14336, 131072), 4096),
    ("llama-70b", 70, (80, 8192, 64, 8, 28672, 131072), 4096),
    ("llama-80b", 80, (80, 8192, 64, 8, 28672, 131072), 4096),
    ("llama 3", 8, (32, 4096, 32, 8, 14336, 128256), 8192),
    ("llama 3", 70.6, (80, 8192, 64, 8, 28672, 128256), 8192),
    ("llama 3", 405, (126, 16384, 128, 8, 53248, 128256), 8192),
    ("llama", 6.7, (32, 4096, 32, 32, 11008, 32000), 2048),
    ("llama", 13, (40, 5120, 40, 40, 13824, 32000), 2048),
    ("llama", 32.5, (60, 6656, 52, 52, 17920, 32000), 2048),
    ("llama", 65.2, (80, 8192, 64, 64, 22016, 32000), 2048),
    ("llama", 69, (80, 8192, 64, 8, 28672, 32000), 4096),
    ("mpt", 6.7, (32, 4096, 32, 32, 16384, 50368), 2048),
    ("mpt", 30, (48, 7168, 56, 56, 28672, 50368), 8192),
]


def parameters_of(run):
    """The parameters of a complete shape."""
    h = float(run["width"])
    kv = h / run["heads"] * run["kv_heads"]
    attention = 2 * h * h + 2 * h * kv
    mlp = (3.0 if run["gated"] else 2.0) * h * run["ffn"]
    tables = (1.0 if run["tied"] else 2.0) * h * run["vocab"]
    return run["layers"] * (attention + mlp + 4 * h) + tables


def usual_heads(width, tensor):
    """Heads of about 128 elements that divide the width and the tensor ranks, and are aligned."""
    fitting = [head for head in range(64, 257, 8) if width % (head * max(1, tensor)) == 0]
    return width // min(fitting, key=lambda head: abs(head - 128)) if fitting else max(1, width // 128)


def complete_shape(run):
    """Fills in what zero simulate takes for a part of the shape that is 0, of a run whose grid is known."""
    run["heads"] = run["heads"] or usual_heads(run["width"], run["tensor"])
    run["kv_heads"] = run["kv_heads"] or run["heads"]
    usual = -(-(run["width"] * 8 // 3) // 256) * 256 if run["gated"] else 4 * run["width"]
    run["ffn"] = run["ffn"] or usual
    run["parameters"] = run["parameters"] or parameters_of(run)


def find_known(model, billions):
    """The known model whose name has a part that the row's has, and whose size is nearest; None: there is none."""
    best, nearest = None, NEAR
    for known in KNOWN:
        apart = abs(math.log(billions / known[1]))
        if apart < nearest and words.name_has(model, known[0]):
            best, nearest = known, apart
    return best


def guess_shape(run, parameters):
    """Chooses a shape with these parameters: as wide as 128 times its layers, like GPT-3, or by the layers or the width that
    the row has."""
    width = math.ceil(math.cbrt(parameters / 12 / (128 * 128)) * 128 / 256) * 256.0
    if run["width"] > 0:
        width = float(run["width"])
    elif run["layers"] > 0:
        width = max(1.0, words.rounded(math.sqrt(parameters / 12 / run["layers"]) / 128)) * 128.0
    run["width"] = int(width)
    layers = max(1, words.rounded(parameters / (12 * width * width)))
    run["layers"] = run["layers"] or int(min(layers, 1e5))


def is_gated(run, model):
    """Decides by the number of parameters whether the MLP has three products."""
    if run["parameters"] <= 0 or run["ffn"] <= 0 or run["heads"] <= 0:
        return words.has(model, "llama")
    complete = dict(run, kv_heads=run["kv_heads"] or run["heads"])
    plain = parameters_of(dict(complete, gated=False, tied=True))
    gated = parameters_of(dict(complete, gated=True, tied=False))
    return abs(math.log(gated / run["parameters"])) < abs(math.log(plain / run["parameters"]))


def batch_tokens(reading):
    """The tokens of a batch that stand in parentheses after its samples, "1020 (4.19M tokens)"; 0: there are none."""
    _, remark, text = reading.cell("global_batch").partition("(")
    return words.tokens(text) if remark else 0.0


def take(reading, key, column, value):
    """Sets a value that no cell has, with a remark."""
    if reading.run[key] <= 0:
        reading.run[key] = value
        reading.remark("%s %d" % (column, value))


def find_shape(reading, billions):
    """Fills in the parts of the shape that no cell has."""
    run = reading.run
    if billions <= 0:
        billions = min(words.name_billions(reading.model), MOST_BILLIONS)
        if billions <= 0:
            raise RowError("neither layers and hidden nor params_B are given, and the model's name tells no size")
        run["parameters"] = billions * 1e9
        reading.remark("params_B %g" % billions)
    known = find_known(reading.model, billions)
    if known is None:
        guess_shape(run, run["parameters"])
        reading.remark("layers %d, hidden %d" % (run["layers"], run["width"]))
        return
    for key, value in zip(SHAPE, known[2]):
        take(reading, key, COLUMNS[key], value)
    run["parameters"] = 0.0
    if batch_tokens(reading) <= 0:
        take(reading, "seq", "seq", known[3])


def read_model(reading):
    run = reading.run
    billions = min(words.billions(reading.cell("params_B")), MOST_BILLIONS)
    run["parameters"] = billions * 1e9
    for key in SHAPE:
        run[key] = reading.whole(COLUMNS[key], MOST[key])
    run["seq"] = reading.length("seq", 1e9)
    if run["layers"] <= 0 or run["width"] <= 0:
        find_shape(reading, billions)
    take(reading, "vocab", "vocab", 32000 if words.has(reading.model, "llama") else 50257)
    run["gated"] = is_gated(run, reading.model)
    run["tied"] = not run["gated"]
