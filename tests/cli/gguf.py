"""Reads GGUF and safetensors files by their layouts alone, and writes adapters. For test_gguf.sh.

    gguf.py keys FILE KEY...            prints the values of keys
    gguf.py same FILE MODEL             compares an f32 file with a model directory as llama.cpp's converter would write it
    gguf.py adapter DIR MODEL NAME...   makes an adapter of rank 2, as peft saves it, for these modules of block 0
    gguf.py halves FILE DIR MODEL       compares an adapter's file with its directory
"""
import json
import os
import struct
import sys

KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, path):
        self.data, self.at = open(path, "rb").read(), 0
        magic, version, tensors, keys = self.take("<4sIQQ")
        assert magic == b"GGUF" and version == 3
        self.keys, self.tensors, order = {}, {}, []
        for _ in range(keys):
            name = self.text()
            self.keys[name] = self.value(self.take("<I")[0])
            order.append(name)
        assert order[0] == "general.architecture"
        listed = []
        for _ in range(tensors):
            name, dims = self.text(), self.take("<I")[0]
            sizes = self.take(f"<{dims}Q")[::-1]
            listed.append((name, sizes, *self.take("<IQ")))
        begin = -(-self.at // 32) * 32
        for name, sizes, kind, offset in listed:
            count = 1
            for size in sizes:
                count *= size
            assert offset % 32 == 0
            self.tensors[name] = (sizes, kind, struct.unpack_from(f"<{count}f", self.data, begin + offset) if kind == 0 else None)
        assert len(self.data) % 32 == 0

    def take(self, layout):
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def text(self):
        length = self.take("<Q")[0]
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.take("<" + KINDS[kind])[0]
        of, count = self.take("<IQ")
        return [self.value(of) for _ in range(count)]


def load(path):
    data = open(path, "rb").read()
    length = struct.unpack_from("<Q", data)[0]
    head = json.loads(data[8:8 + length])
    head.pop("__metadata__", None)
    out = {}
    for name, entry in head.items():
        assert entry["dtype"] == "F32"
        begin, end = entry["data_offsets"]
        out[name] = (tuple(entry["shape"]), struct.unpack_from(f"<{(end - begin) // 4}f", data, 8 + length + begin))
    return out


def rows_of(tensor):
    shape, values = tensor
    width = shape[1] if len(shape) == 2 else 1
    return [values[i:i + width] for i in range(0, len(values), width)]


def neighbours(rows, heads):
    """Of each head, element i and element i + half next to each other."""
    size = len(rows) // heads
    return [rows[h * size + i + side * size // 2] for h in range(heads) for i in range(size // 2) for side in range(2)]


def three_parts(rows, heads):
    size = len(rows) // heads // 3
    return [rows[(h * 3 + part) * size + i] for part in range(3) for h in range(heads) for i in range(size)]


NAMES = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
         "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down", "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm", **{f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"}, "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", **{f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")}, "gpt_neox.embed_in": "token_embd",
         "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output", "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
         "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}


def in_gguf(name):
    for prefix in ("transformer.h.", "model.layers.", "gpt_neox.layers."):
        if name.startswith(prefix):
            block, rest = name[len(prefix):].split(".", 1)
            bare, ending = rest.rsplit(".", 1)
            return f"blk.{block}.{NAMES[bare]}.{ending}"
    bare, ending = name.rsplit(".", 1)
    return f"{NAMES[bare.removeprefix('transformer.')]}.{ending}"


def ordered(name, tensor, config):
    """The rows of a tensor of the model in GGUF's order."""
    rows, kind = rows_of(tensor), config["model_type"]
    heads = config.get("num_attention_heads", config.get("n_head"))
    if kind == "gpt2" and len(tensor[0]) == 2 and ".h." in name:
        rows = list(zip(*rows))
    if kind in ("llama", "mistral") and (".q_proj" in name or ".k_proj" in name):
        rows = neighbours(rows, heads if ".q_proj" in name else config["num_key_value_heads"])
    if kind == "gpt_neox" and "query_key_value" in name:
        rows = three_parts(rows, heads)
    return [tuple(row) for row in rows]


def same(path, directory):
    file, model = Reader(path), load(f"{directory}/model.safetensors")
    config = json.load(open(f"{directory}/config.json"))
    names = {in_gguf(name): name for name in model}
    repeats = config["model_type"] == "gpt_neox" and config["tie_word_embeddings"]
    assert set(file.tensors) == set(names) | ({"output.weight"} if repeats else set()), set(file.tensors) ^ set(names)
    for name, of in names.items():
        assert rows_of((file.tensors[name][0], file.tensors[name][2])) == ordered(of, model[of], config), f"{name} differs from {of}"
    if repeats:
        assert file.tensors["output.weight"] == file.tensors["token_embd.weight"]


def adapter(directory, model, modules):
    os.makedirs(directory, exist_ok=True)
    weights, head, data = load(f"{model}/model.safetensors"), {}, b""
    flipped = json.load(open(f"{model}/config.json"))["model_type"] == "gpt2"
    for module in modules:
        shape = weights[f"{module}.weight"][0]
        out, in_ = shape[::-1] if flipped else shape
        for half, sizes in (("A", (2, in_)), ("B", (out, 2))):
            count = sizes[0] * sizes[1]
            head[f"base_model.model.{module}.lora_{half}.weight"] = {"dtype": "F32", "shape": sizes, "data_offsets": [len(data), len(data) + 4 * count]}
            data += struct.pack(f"<{count}f", *[i * 0.25 + len(head) for i in range(count)])
    text = json.dumps(head).encode()
    open(f"{directory}/adapter_model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
    json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 6, "use_rslora": False, "bias": "none", "use_dora": False, "alpha_pattern": {}, "modules_to_save": None,
               "target_modules": sorted({module.rsplit(".", 1)[1] for module in modules}),
               "base_model_name_or_path": "nobody/knows"}, open(f"{directory}/adapter_config.json", "w"))


def halves(path, directory, model):
    file, written = Reader(path), load(f"{directory}/adapter_model.safetensors")
    config = json.load(open(f"{model}/config.json"))
    assert len(file.tensors) == len(written) > 0
    for name, tensor in written.items():
        module, half = name.removeprefix("base_model.model.").rsplit(".lora_", 1)
        of = in_gguf(module + ".weight")
        rows = rows_of(tensor)
        if half[0] == "B":  # rows of the weight; gpt2's are the weight's already
            rows = ordered(module + ".weight", tensor, {**config, "model_type": config["model_type"].replace("gpt2", "")})
        found = file.tensors[f"{of}.lora_{half[0].lower()}"]
        assert rows_of((found[0], found[2])) == [tuple(row) for row in rows], name


if __name__ != "__main__":
    pass
elif sys.argv[1] == "keys":
    print(*[Reader(sys.argv[2]).keys.get(key) for key in sys.argv[3:]])
elif sys.argv[1] == "same":
    same(*sys.argv[2:4])
elif sys.argv[1] == "adapter":
    adapter(sys.argv[2], sys.argv[3], sys.argv[4:])
else:
    halves(*sys.argv[2:5])
