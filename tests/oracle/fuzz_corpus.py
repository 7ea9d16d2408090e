"""Writes those files of tests/fuzz/corpus that other programs make: torch, safetensors, tokenizers. Small ones: a mutation should hit something.

Usage: fuzz_corpus.py tests/fuzz/corpus
"""
import collections
import io
import json
import os
import pickle
import struct
import sys
import zipfile

import gguf
import numpy as np
import safetensors.torch
import tokenizers
import torch
from sentencepiece import sentencepiece_model_pb2 as spm

ROOT = sys.argv[1]


def put(target, name, data):
    os.makedirs(f"{ROOT}/{target}", exist_ok=True)
    with open(f"{ROOT}/{target}/{name}", "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def save(name, value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    put("torch_file", name + ".pt", buffer.getvalue())
    with zipfile.ZipFile(buffer) as archive:
        values = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        put("pickle", name + ".pkl", archive.read(values))


weights = torch.arange(6, dtype=torch.float32).reshape(2, 3)
save("tensors", {"wte": weights, "half": weights.half(), "brain": weights.bfloat16(), "t": weights.t(), "scalar": torch.tensor(1.5), "long": torch.tensor([1, 2])})
save("values", {"step": 100, "big": 1 << 40, "minus": -3, "lr": 0.001, "name": "fp32", "flags": [True, False, None], "nested": ({"a": (1, 2)}, [])})
save("deepspeed", {"module": collections.OrderedDict(wte=weights), "param_shapes": [collections.OrderedDict(wte=torch.Size([2, 3]))], "dp_world_size": 2,
                   "optimizer_state_dict": {"zero_stage": 2, "partition_count": [2], "single_partition_of_fp32_groups": [weights.flatten()],
                                            "base_optimizer_state": [{"state": {0: {"exp_avg": weights.flatten(), "step": torch.tensor(3.0)}}}]}})
save("model", {"wte": weights, "half": weights.half(), "tied": weights, "rows": weights[1:]})
LAYER = {"ln_1.weight": 1, "attn.c_attn.weight": (3, 1), "attn.c_proj.weight": (1, 1), "ln_2.weight": 1, "mlp.c_fc.weight": (4, 1), "mlp.c_proj.weight": (1, 4)}
save("nanogpt", {"model": {"transformer." + name: torch.ones(shape) for name, shape in {"wte.weight": (2, 1), "wpe.weight": (2, 1), "ln_f.weight": 1, **{"h.0." + name: shape for name, shape in LAYER.items()}}.items()},
                 "model_args": {"n_layer": 1, "n_head": 1, "n_embd": 1, "block_size": 2, "bias": False, "vocab_size": 2, "dropout": 0.0}, "iter_num": 3})
for protocol, characters in ((2, "\n ab"), (4, "xé€😀"), (5, ["ab", "c"])):
    itos = dict(enumerate(characters))
    put("nanogpt_tokens", f"protocol_{protocol}.pkl", pickle.dumps({"vocab_size": len(itos), "itos": itos, "stoi": {text: id for id, text in itos.items()}}, protocol))
    if protocol == 4:
        put("pickle", "protocol_4.pkl", pickle.dumps({"vocab_size": len(itos), "itos": itos, "stoi": {text: id for id, text in itos.items()}}, protocol))
save("parameter", {"p": torch.nn.Parameter(weights), "dtype": torch.float32, "device": torch.device("cpu"), "set": {1, 2}})

ramp = np.linspace(-1, 1, 300, dtype=np.float32)
edges = np.array([0, -0.0, 2.0**-149, 2.0**-127, 2.0**-126, 7 * 2.0**-126, 127 * 2.0**-126, np.finfo(np.float32).max, 1, -1], np.float32)
put("blocks", "bytes_fp32", b"\x00" + ramp.tobytes())
put("blocks", "halves_bf16", b"\x03" + (ramp.view(np.uint32) >> 16).astype(np.uint16).tobytes())
put("blocks", "bytes_fp16_carried", b"\x0c" + ramp.astype(np.float16).tobytes())
put("blocks", "edges", b"\x01" + edges.tobytes())
put("blocks", "subnormal", b"\x08" + (edges[2:6].tobytes()))
put("blocks", "not_finite", b"\x00" + np.where(np.arange(300) == 260, np.inf, ramp).astype(np.float32).tobytes())

put("safetensors", "types.safetensors", safetensors.torch.save({"a": weights, "b": weights.half(), "c": weights.bfloat16(), "i": torch.tensor([1, 2]), "s": torch.tensor(2.0)},
                                                             {"format": "pt"}))
put("safetensors", "empty.safetensors", safetensors.torch.save({}))
put("safetensors", "zero.safetensors", safetensors.torch.save({"transformer.wte.weight": torch.zeros(0, 3), "x": weights}))

byte_level = tokenizers.ByteLevelBPETokenizer()
byte_level.train_from_iterator(["the cat and the hat, the cat's hat", "12 cats"], vocab_size=265, special_tokens=["<|endoftext|>"])
put("tokenizer", "byte_level.json", byte_level.to_str())
by_piece = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
by_piece.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")])
by_piece.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.Replace("▁", " "), tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse(),
                                                 tokenizers.decoders.Strip(" ", 1, 0)])
trainer = tokenizers.trainers.BpeTrainer(vocab_size=40, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
by_piece.train_from_iterator(["the cat and the hat", "cats"], trainer)
put("tokenizer", "by_piece.json", by_piece.to_str())

vocabulary, merges = byte_level.get_vocab(), byte_level.to_str()
pairs = [" ".join(m) if isinstance(m, list) else m for m in json.loads(merges)["model"]["merges"]]
put("merges", "byte_level.txt", json.dumps(vocabulary) + "\n====\n#version: 0.2\n" + "\n".join(pairs) + "\n")



def put_sentencepiece(name, pieces, config=None, **normalizer):
    """pieces: text, score and type each."""
    model = spm.ModelProto()
    for text, score, kind in pieces:
        model.pieces.add(piece=text, score=score, type=kind)
    model.trainer_spec.model_type = 2
    model.trainer_spec.byte_fallback = any(kind == 6 for _, _, kind in pieces)
    model.normalizer_spec.remove_extra_whitespaces = False
    for key, value in normalizer.items():
        setattr(model.normalizer_spec, key, value)
    put("sentencepiece", name + ".model", model.SerializeToString() + (b"\n====\n" + json.dumps(config).encode() if config else b""))


def put_unigram(name, pieces, charsmap=b"", **settings):
    model = spm.ModelProto()
    for text, score, kind in pieces:
        model.pieces.add(piece=text, score=score, type=kind)
    model.trainer_spec.byte_fallback = any(kind == 6 for _, _, kind in pieces)
    model.trainer_spec.treat_whitespace_as_suffix = settings.pop("suffix", False)
    model.normalizer_spec.precompiled_charsmap = charsmap
    for key, value in settings.items():
        setattr(model.normalizer_spec, key, value)
    put("sentencepiece", name + ".model", model.SerializeToString())


ends, pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)], [(text, -i, 1) for i, text in enumerate(["ab", "\u2581a", "\u2581ab", "\u2581", "a", "b", "\n"])]
put_sentencepiece("unknown", ends + pieces)
put_sentencepiece("bytes", ends + [(f"<0x{byte:02X}>", 0, 6) for byte in range(256)] + pieces, {
    "tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": True, "added_tokens_decoder": {"266": {"content": "<x>", "special": True}}})
put_sentencepiece("symbols", ends + [("<s", 0, 4), ("bb", 0, 4)] + pieces, add_dummy_prefix=False)

HERE = os.path.join(os.path.dirname(__file__), "../tokenizer/sentencepiece/")
table = spm.ModelProto()
with open(HERE + "uni-table.model", "rb") as file:
    table.ParseFromString(file.read())
put_unigram("unigram", ends + [("<s", 0, 4), ("ab ", 0, 4)] + pieces, table.normalizer_spec.precompiled_charsmap)
put_unigram("unigram_bytes", ends + [(f"<0x{byte:02X}>", 0, 6) for byte in range(256)] + pieces, add_dummy_prefix=False, remove_extra_whitespaces=False)
put_unigram("unigram_suffix", ends + [("ab\u2581", -2.5, 1)] + pieces, suffix=True, escape_whitespaces=False)
for name in ("t5-table", "converted-table"):
    with open(HERE + name + ".json", "rb") as file:
        put("tokenizer", name.replace("-", "_") + ".json", file.read())

put("token_file", "gpt2.bin", struct.pack("<256i", 20240520, 1, 6, *[0] * 253) + struct.pack("<6H", 464, 3797, 11, 50256, 0, 1))
put("token_file", "llama3.bin", struct.pack("<256i", 20240801, 7, 3, *[0] * 253) + struct.pack("<3I", 128000, 15339, 128001))
put("token_file", "nanogpt.bin", struct.pack("<5H", 464, 3797, 11, 50256, 13))
for name, code, size in (("u16", 8, 2), ("i32", 4, 4)):
    lengths = [3, 2, 64 // size - 5]  # of the 64 bytes that the target has
    starts = [0, 3 * size, 5 * size]
    put("megatron", name + ".idx", b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, 3, 3) + struct.pack("<3i", *lengths) + struct.pack("<3q", *starts)
        + struct.pack("<3q", 0, 1, 3))

with open(os.path.join(os.path.dirname(__file__), "../chat/chat_golden.json")) as file:
    for entry in json.load(file):
        put("chat_template", entry["model"].replace("/", "-").replace(" ", "-") + ".jinja", entry["template"])


def put_gguf(name, architecture, keys, tokenizer, tensors):
    """A model of one layer of width 32 with six tokens; `tensors` by name: sizes and type."""
    path = f"{ROOT}/gguf/{name}.gguf"
    os.makedirs(f"{ROOT}/gguf", exist_ok=True)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("model")
    for key, value in {"context_length": 8, "embedding_length": 32, "feed_forward_length": 32, "block_count": 1, "attention.head_count": 2, **keys}.items():
        put_key = {float: writer.add_float32, str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, list: writer.add_array}[type(value)]
        put_key(f"{architecture}.{key}", value)
    writer.add_tokenizer_model(tokenizer["model"])
    writer.add_token_list(tokenizer["tokens"])
    writer.add_token_types(tokenizer["types"])
    if "scores" in tokenizer:
        writer.add_token_scores(tokenizer["scores"])
    else:
        writer.add_tokenizer_pre(tokenizer["pre"])
        writer.add_token_merges(tokenizer["merges"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template("{{ messages }}")
    for tensor, (sizes, kind) in tensors.items():
        values = np.linspace(-1, 1, int(np.prod(sizes)), dtype=np.float32).reshape(sizes)
        if tensor == "rope_freqs.weight":  # Llama 3's: 8 for what turns less than once in 8,192 tokens, 1 for what turns four times
            turns = 8192 / (2 * np.pi * 500000.0 ** (np.arange(8) / 8))
            values = np.where(turns > 4, 1, np.where(turns < 1, 8, 1 / ((1 - (turns - 1) / 3) / 8 + (turns - 1) / 3))).astype(np.float32)
        writer.add_tensor(tensor, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


F32, F16, BF16, Q8_0, Q4_0 = (getattr(gguf.GGMLQuantizationType, kind) for kind in ("F32", "F16", "BF16", "Q8_0", "Q4_0"))
by_merges = {"model": "gpt2", "pre": "llama-bpe", "tokens": ["<|end|>", "a", "b", "ab", "\u0120", "\u0120a"], "types": [3, 1, 1, 1, 1, 1], "merges": ["a b", "\u0120 a"]}
by_score = {"model": "llama", "tokens": ["<unk>", "<0x0A>", "a", "b", "ab", "[PAD5]"], "types": [2, 6, 1, 1, 1, 5], "scores": [0.0, 0.0, -2.0, -2.0, -1.0, 0.0]}
vectors = {"output_norm.weight": ([32], F32), "blk.0.attn_norm.weight": ([32], F32), "blk.0.ffn_norm.weight": ([32], F32)}
rope = {"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 500000.0, "rope.dimension_count": 16}
put_gguf("llama", "llama", {**rope, "attention.head_count_kv": 1, "vocab_size": 6}, by_score, {
    "token_embd.weight": ([6, 32], Q8_0), "output.weight": ([6, 32], BF16), "rope_freqs.weight": ([8], F32), **vectors, "blk.0.attn_q.weight": ([32, 32], Q4_0),
    "blk.0.attn_k.weight": ([16, 32], Q4_0), "blk.0.attn_v.weight": ([16, 32], Q4_0), "blk.0.attn_output.weight": ([32, 32], Q4_0),
    **{f"blk.0.ffn_{w}.weight": ([32, 32], Q4_0) for w in ("gate", "up", "down")}})
put_gguf("qwen3", "qwen3", {**rope, "attention.head_count_kv": 1, "attention.key_length": 16, "attention.value_length": 16, "rope.scaling.type": "yarn", "rope.scaling.factor": 2.0,
                            "rope.scaling.original_context_length": 4, "attention.sliding_window": 5, "attention.sliding_window_pattern": [True]}, by_merges, {
    "token_embd.weight": ([6, 32], Q4_0), **vectors, "blk.0.attn_q.weight": ([32, 32], Q4_0), "blk.0.attn_q_norm.weight": ([16], F32), "blk.0.attn_k_norm.weight": ([16], F32),
    "blk.0.attn_k.weight": ([16, 32], Q4_0), "blk.0.attn_v.weight": ([16, 32], Q4_0), "blk.0.attn_output.weight": ([32, 32], Q4_0),
    **{f"blk.0.ffn_{w}.weight": ([32, 32], Q4_0) for w in ("gate", "up", "down")}})
biases = {f"blk.0.{n}.bias": ([32], F32) for n in ("attn_norm", "ffn_norm", "attn_output", "ffn_up", "ffn_down")}
packed = {"blk.0.attn_qkv.weight": ([96, 32], Q4_0), "blk.0.attn_qkv.bias": ([96], F32), "output_norm.bias": ([32], F32),
          **{f"blk.0.{n}.weight": ([32, 32], Q4_0) for n in ("attn_output", "ffn_up", "ffn_down")}}
put_gguf("gpt2", "gpt2", {"attention.layer_norm_epsilon": 1e-5}, {**by_merges, "pre": "gpt-2"},
         {"token_embd.weight": ([6, 32], F16), "position_embd.weight": ([8, 32], F32), **vectors, **biases, **packed})
put_gguf("gptneox", "gptneox", {"attention.layer_norm_epsilon": 1e-5, "use_parallel_residual": True, "rope.dimension_count": 4}, {**by_merges, "pre": "smollm"},
         {"token_embd.weight": ([6, 32], Q4_0), "output.weight": ([6, 32], Q4_0), **vectors, **biases, **packed})
