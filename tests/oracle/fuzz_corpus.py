"""Writes those files of tests/fuzz/corpus that other programs make: torch, safetensors, tokenizers. Small ones: a mutation should hit something.

Usage: fuzz_corpus.py tests/fuzz/corpus
"""
import collections
import io
import json
import os
import struct
import sys
import zipfile

import safetensors.torch
import tokenizers
import torch

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
        pickle = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        put("pickle", name + ".pkl", archive.read(pickle))


weights = torch.arange(6, dtype=torch.float32).reshape(2, 3)
save("tensors", {"wte": weights, "half": weights.half(), "brain": weights.bfloat16(), "t": weights.t(), "scalar": torch.tensor(1.5), "long": torch.tensor([1, 2])})
save("values", {"step": 100, "big": 1 << 40, "minus": -3, "lr": 0.001, "name": "fp32", "flags": [True, False, None], "nested": ({"a": (1, 2)}, [])})
save("deepspeed", {"module": collections.OrderedDict(wte=weights), "param_shapes": [collections.OrderedDict(wte=torch.Size([2, 3]))], "dp_world_size": 2,
                   "optimizer_state_dict": {"zero_stage": 2, "partition_count": [2], "single_partition_of_fp32_groups": [weights.flatten()],
                                            "base_optimizer_state": [{"state": {0: {"exp_avg": weights.flatten(), "step": torch.tensor(3.0)}}}]}})
save("parameter", {"p": torch.nn.Parameter(weights), "dtype": torch.float32, "device": torch.device("cpu"), "set": {1, 2}})

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

put("token_file", "gpt2.bin", struct.pack("<256i", 20240520, 1, 6, *[0] * 253) + struct.pack("<6H", 464, 3797, 11, 50256, 0, 1))
put("token_file", "llama3.bin", struct.pack("<256i", 20240801, 7, 3, *[0] * 253) + struct.pack("<3I", 128000, 15339, 128001))
put("token_file", "nanogpt.bin", struct.pack("<5H", 464, 3797, 11, 50256, 13))
for name, code, size in (("u16", 8, 2), ("i32", 4, 4)):
    lengths = [3, 2, 64 // size - 5]  # of the 64 bytes that the target has
    starts = [0, 3 * size, 5 * size]
    put("megatron", name + ".idx", b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, 3, 3) + struct.pack("<3i", *lengths) + struct.pack("<3q", *starts)
        + struct.pack("<3q", 0, 1, 3))

with open(os.path.join(os.path.dirname(__file__), "../data/chat_golden.json")) as file:
    for entry in json.load(file):
        put("chat_template", entry["model"].replace("/", "-").replace(" ", "-") + ".jinja", entry["template"])
