#!/usr/bin/env python3
"""Weights in nf4 and int8, compared with bitsandbytes on this CPU: codes, scales, losses, training.

    python3 tests/oracle/quantised.py ZERO TEXT [--golden]

ZERO is the program, TEXT a text to train on; run it at the root of the project. --golden prints the values of
tests/base/test_quantised.c. The means of scales are sums in another order, so that a scale may have the next code: these are counted.
"""
import ctypes
import json
import subprocess
import sys
import tempfile

import bitsandbytes.functional as F
import numpy
import peft
import torch
import transformers

zero, text = sys.argv[1:3]
NF4, INT8 = 1, 2


def build(place):
    library = f"{place}/quantised.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", "-Isrc", "-Iinclude", "src/base/quantised.c", "src/base/dtype.c",
                    "-o", library, "-lm"], check=True)
    ours = ctypes.CDLL(library)
    ours.zr_nf4_scale.restype = ours.zr_int8_encode.restype = ctypes.c_float
    return ours


def at(array, index=0):
    return ctypes.c_void_p(array.ctypes.data + index * array.itemsize)


def sample(count): # as tests/base/test_quantised.c makes it
    i = numpy.arange(count)
    return ((i * 7919 + 13) % 2003 - 1001).astype(numpy.float32) / numpy.float32(1000)


def nf4_of(ours, weight):
    flat = weight.float().numpy().ravel()
    blocks = flat.size // 64
    codes, scales = numpy.zeros(flat.size // 2, numpy.uint8), numpy.zeros(blocks, numpy.float32)
    for b in range(blocks):
        scales[b] = ours.zr_nf4_scale(at(flat, b * 64))
        ours.zr_nf4_encode(at(flat, b * 64), at(codes, b * 32))
    of_scales, shared = numpy.zeros(blocks, numpy.uint8), numpy.zeros(1 + (blocks + 255) // 256, numpy.float32)
    ours.zr_nf4_encode_scales(at(scales), ctypes.c_int64(blocks), at(of_scales), at(shared))
    return codes, of_scales, shared


def compare_nf4(ours, name, weight):
    theirs, state = F.quantize_4bit(weight, quant_type="nf4", compress_statistics=True, blocksize=64)
    codes, scales, shared = nf4_of(ours, weight)
    same = bool((codes == theirs.numpy().ravel()).all())
    others = int((scales != state.absmax.numpy()).sum())
    wide, decoded = numpy.zeros(scales.size, numpy.float32), numpy.zeros(weight.numel(), numpy.float32)
    # Decoded with their scales, so that what is compared is the decoding.
    theirs_shared = numpy.concatenate([[state.offset.item()], state.state2.absmax.numpy()]).astype(numpy.float32)
    ours.zr_nf4_decode_scales(at(state.absmax.numpy()), at(theirs_shared), ctypes.c_int64(0), ctypes.c_int64(scales.size), at(wide))
    ours.zr_weight_decode(NF4, at(codes), at(wide), ctypes.c_int64(0), ctypes.c_int64(decoded.size), at(decoded))
    values = F.dequantize_4bit(theirs, state).float().numpy().ravel()
    if weight.dtype == torch.bfloat16:
        decoded = torch.from_numpy(decoded).bfloat16().float().numpy()
    equal = bool((values == decoded).all())
    print(f"nf4  {name:24} codes {'equal' if same else 'DIFFER'}, values {'equal' if equal else 'DIFFER'}, "
          f"{others} of {scales.size} codes of scales differ, mean off by {abs(shared[0] - state.offset.item()):.1e}")
    return same and equal and others <= 1 + scales.size // 5000


def compare_int8(ours, name, weight):
    theirs, scales, _ = F.int8_vectorwise_quant(weight.half())
    rows, columns = weight.shape
    flat, codes = weight.float().numpy(), numpy.zeros((rows, columns), numpy.int8)
    mine = numpy.array([ours.zr_int8_encode(at(flat, r * columns), ctypes.c_int64(columns), at(codes, r * columns)) for r in range(rows)],
                       numpy.float32)
    same = bool((codes == theirs.numpy()).all() and (mine == scales.numpy()).all())
    print(f"int8 {name:24} codes and scales {'equal' if same else 'DIFFER'}")
    return same


def golden(ours):
    weight = torch.from_numpy(sample(128 * 64)).view(128, 64)
    theirs, state = F.quantize_4bit(weight, quant_type="nf4", compress_statistics=False, blocksize=64)
    print("codes of the first two blocks:", ", ".join(f"0x{c:02x}" for c in theirs.numpy().ravel()[:64]))
    theirs, state = F.quantize_4bit(weight * torch.linspace(0.1, 3, 128)[:, None], quant_type="nf4", compress_statistics=True, blocksize=64)
    print("codes of scales:", ", ".join(f"{c}" for c in state.absmax.numpy()))
    codes, scales, _ = F.int8_vectorwise_quant(weight.half())
    print("int8 of row 0:", ", ".join(f"{c}" for c in codes[0].tolist()), "scale", scales[0].item())


def run(*arguments):
    subprocess.run([zero, *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def loss_of(model, data, *options):
    out = subprocess.run([zero, "eval", "--model", model, "--data", data, "--tokenizer", "bytes", "--json", "--seq", "64", *options],
                         check=True, capture_output=True, text=True)
    return json.loads(out.stdout)["loss"]


def compare_models(place):
    """Losses of a model, quantised by transformers and saved, or by us; then six steps of adapters."""
    worst = 0.0
    run("train", "--new", "llama:layers=3,heads=4,kv_heads=2,width=256,inner=512,context=64,tied=0,vocab=257", "--data", text, "--threads", "2",
        "--steps", "20", "--lr", "0.003", "--out", f"{place}/base")
    data = open(text, "rb").read()[:64 * 12 + 1]
    open(f"{place}/part.txt", "wb").write(data)
    windows = torch.tensor(list(data))
    windows = torch.stack([windows[i * 64:i * 64 + 65] for i in range(12)])
    how = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                          bnb_4bit_compute_dtype=torch.float32)
    model = transformers.AutoModelForCausalLM.from_pretrained(f"{place}/base/model", quantization_config=how, dtype=torch.float32,
                                                              device_map="cpu")
    model.save_pretrained(f"{place}/saved")
    with torch.no_grad():
        logits = model(windows[:, :-1]).logits
    theirs = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), windows[:, 1:].reshape(-1)).item()
    for name, of, options in [("made by us", "base/model", ["--base", "nf4"]), ("saved by transformers", "saved", [])]:
        ours = loss_of(f"{place}/{of}", f"{place}/part.txt", *options)
        worst = max(worst, abs(ours - theirs))
        print(f"loss of nf4 {name:24} {ours:.9f}, of bitsandbytes {theirs:.9f}")
    # An adapter that has trained, on the base that it was trained on.
    run("train", "--model", f"{place}/base/model", "--base", "nf4", "--lora", "r=4,alpha=8", "--lr", "0.01", "--data", text, "--threads", "2",
        "--steps", "6", "--out", f"{place}/run")
    adapted = peft.PeftModel.from_pretrained(model, f"{place}/run/adapter").eval()
    with torch.no_grad():
        logits = adapted(windows[:, :-1]).logits
    theirs = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), windows[:, 1:].reshape(-1)).item()
    ours = loss_of(f"{place}/base/model", f"{place}/part.txt", "--base", "nf4", "--adapter", f"{place}/run")
    print(f"loss with an adapter of six steps {ours:.9f}, of peft on bitsandbytes {theirs:.9f}")
    return max(worst, abs(ours - theirs))


with tempfile.TemporaryDirectory() as place:
    ours = build(place)
    if "--golden" in sys.argv:
        golden(ours)
        sys.exit()
    torch.manual_seed(1)
    right = True
    normal = torch.randn(1024, 2048)
    spikes = torch.where(torch.rand(512, 512) < 0.001, 60.0, 1.0) * torch.randn(512, 512)
    blank = torch.randn(64, 256)
    blank[3] = 0
    for name, weight in [("normal", normal * 0.02), ("normal bf16", (normal * 0.02).bfloat16()), ("with spikes", spikes),
                         ("with a row of zeros", blank), ("uniform", torch.rand(256, 640) - 0.5)]:
        right = compare_nf4(ours, name, weight) and right
        if name != "with a row of zeros": # theirs divides by zero
            right = compare_int8(ours, name, weight) and right
    worst = compare_models(place)
sys.exit(not right or worst > 1e-5)
