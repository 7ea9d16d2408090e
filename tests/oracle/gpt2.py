#!/usr/bin/env python3
"""Golden values of GPT-2 from PyTorch: weights, a batch, loss, logits and every gradient, by transformers' GPT2LMHeadModel.

    python3 tests/oracle/gpt2.py tests/layers/gpt2_golden.bin

"bf16.grad.NAME" and "fp16.grad.NAME" are what torch.autocast makes of the same: how far mixed precision is from the truth.

The arithmetic is done in double precision on weights that single precision represents, so that the file is an oracle for
any single-precision implementation. Biases and norms are random too: with zeros and ones their paths would go untested.
Format: records, each one line "f32|i32 NAME DIMENSIONS...\n" followed by the elements, little-endian.
"""
import copy
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB, CONTEXT, WIDTH, HEADS, LAYERS, BATCH, SEQ = 29, 8, 16, 2, 2, 2, 7


def record(out, kind, name, tensor):
    dtype = {"f32": torch.float32, "i32": torch.int32}[kind]
    out.write(" ".join([kind, name, *map(str, tensor.shape)]).encode() + b"\n")
    out.write(tensor.detach().to(dtype).contiguous().numpy().astype("<f4" if kind == "f32" else "<i4").tobytes())


def autocast_gradients(model, dtype, tokens, targets):
    single = copy.deepcopy(model).float()
    single.zero_grad()
    with torch.autocast("cpu", dtype=dtype):
        logits = single(tokens).logits
    torch.nn.functional.cross_entropy(logits.float().reshape(-1, VOCAB), targets.reshape(-1), ignore_index=-100).backward()
    return {name: parameter.grad for name, parameter in single.named_parameters()}


def main(path):
    torch.manual_seed(20240607)
    config = GPT2Config(vocab_size=VOCAB, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
                        bos_token_id=None, eos_token_id=None, attn_implementation="eager",
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = GPT2LMHeadModel(config).double().train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
            parameter.copy_((centre + 0.3 * torch.randn(parameter.shape)).float().double())
    tokens = torch.randint(VOCAB, (BATCH, SEQ))
    targets = torch.randint(VOCAB, (BATCH, SEQ))
    targets[1, 3] = -100  # not counted
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1), ignore_index=-100)
    loss.backward()
    mixed = {name: autocast_gradients(model, dtype, tokens, targets) for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16))}
    with open(path, "wb") as out:
        record(out, "i32", "tokens", tokens)
        record(out, "i32", "targets", targets)
        record(out, "f32", "loss", loss.reshape(1))
        record(out, "f32", "logits", logits)
        for name, parameter in model.named_parameters():
            name = name.removeprefix("transformer.")
            record(out, "f32", name, parameter)
            record(out, "f32", "grad." + name, parameter.grad)
            for kind, gradients in mixed.items():
                record(out, "f32", f"{kind}.grad.{name}", gradients["transformer." + name])
    print(f"torch {torch.__version__}: loss {loss.item():.15g}")


if __name__ == "__main__":
    main(sys.argv[1])
