#!/usr/bin/env python3
"""Models that transformers wrote, through the program and back; run by hand, it needs torch and transformers.

    python3 tests/oracle/pretrained.py build/zero              every model
    python3 tests/oracle/pretrained.py build/zero "llama tied" those rows of MODELS alone

For each of MODELS: a small model with random weights is saved by transformers, in several shards and in fp32, bf16 and fp16.
 - zero eval      loss against transformers' on the same windows
 - zero generate  200 greedy tokens, in fp32, against transformers' generate
 - zero train     one step at a vanishing rate; what it exports opens in transformers, with the logits of the model that went in
 - zero train     four steps on tensor ranks, for those of TENSOR_RANKS: what they export has in transformers the loss that zero eval finds, on one rank
                  and on tensor ranks, and about that of the export of one rank
 - plus what files may have besides: buffers of older versions, a head that repeats the table of tokens
Prints a line each; exit status 1 if one differs.
"""
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GPTNeoXConfig, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

CONTEXT = 256
SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT,
             bos_token_id=None, eos_token_id=None, pad_token_id=None)
NEOX = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
LLAMA3 = dict(rope_theta=1000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_theta=10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
MODELS = {
    "gpt2": lambda v: GPT2Config(vocab_size=v, n_positions=CONTEXT, n_embd=64, n_layer=3, n_head=4, bos_token_id=None, eos_token_id=None),
    "llama": lambda v: LlamaConfig(vocab_size=v, **SMALL),
    "llama tied": lambda v: LlamaConfig(vocab_size=v, tie_word_embeddings=True, **SMALL),
    "llama biased": lambda v: LlamaConfig(vocab_size=v, attention_bias=True, mlp_bias=True, **SMALL),
    "llama3 rope": lambda v: LlamaConfig(vocab_size=v, rope_parameters=LLAMA3, **SMALL),
    "linear rope": lambda v: LlamaConfig(vocab_size=v, rope_parameters=dict(rope_theta=10000.0, rope_type="linear", factor=4.0), **SMALL),
    "dynamic rope": lambda v: LlamaConfig(vocab_size=v, rope_parameters=dict(rope_theta=10000.0, rope_type="dynamic", factor=4.0), **SMALL),
    "yarn rope": lambda v: LlamaConfig(vocab_size=v, rope_parameters=YARN, **SMALL),
    "mistral": lambda v: MistralConfig(vocab_size=v, head_dim=32, sliding_window=None, **SMALL),
    "mistral window": lambda v: MistralConfig(vocab_size=v, sliding_window=CONTEXT, **{**SMALL, "max_position_embeddings": 512}),
    "qwen2": lambda v: Qwen2Config(vocab_size=v, tie_word_embeddings=True, **SMALL),
    "qwen3": lambda v: Qwen3Config(vocab_size=v, head_dim=32, tie_word_embeddings=True, **SMALL),
    "smollm2": lambda v: LlamaConfig(vocab_size=v, tie_word_embeddings=True, rms_norm_eps=1e-5, rope_parameters=dict(rope_theta=100000.0, rope_type="default"),
                                     **{**SMALL, "hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 1}),
    "neox": lambda v: GPTNeoXConfig(vocab_size=v, **NEOX),
    "neox linear rope": lambda v: GPTNeoXConfig(vocab_size=v, tie_word_embeddings=True, **NEOX, rope_parameters=dict(
        rope_theta=1000.0, rope_type="linear", factor=4.0, partial_rotary_factor=0.5)),
}
TENSOR_RANKS = {"gpt2": 2, "llama": 4, "neox": 2}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
failures = 0


def zero(*arguments):
    done = subprocess.run([ZERO, *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"zero {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def report(name, what, good, detail):
    global failures
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {name:16} {what:34} {detail}", flush=True)


def randomise(model):
    torch.manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if ("norm" in name or "ln_" in name) and name.endswith("weight") else 0.0
            parameter.copy_(centre + 0.15 * torch.randn(parameter.shape))


def characters(directory):
    """Ids of characters in the tokenizer that the program wrote."""
    vocab = json.load(open(directory + "/tokenizer.json"))["model"]["vocab"]
    return vocab if isinstance(vocab, dict) else {token: i for i, token in enumerate(vocab)}


def save(model, directory, dtype, tokenizer):
    copy.deepcopy(model).to(dtype).save_pretrained(directory, max_shard_size="100KB")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(tokenizer, name), directory)


def reference_loss(model, ids):
    windows = (len(ids) - 1) // CONTEXT
    with torch.no_grad():
        losses = [torch.nn.functional.cross_entropy(model(torch.tensor([ids[i * CONTEXT:(i + 1) * CONTEXT]])).logits[0], torch.tensor(ids[i * CONTEXT + 1:(i + 1) * CONTEXT + 1]))
                  for i in range(windows)]
    return float(torch.stack(losses).double().mean())


def check(name, config, work, text, tokenizer):
    vocab = characters(tokenizer)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    randomise(model)
    ids = [vocab[c] for c in open(text).read()]
    for kind, dtype in DTYPES.items():
        directory = os.path.join(work, name.replace(" ", "-") + "-" + kind)
        save(model, directory, dtype, tokenizer)
        back = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
        ours, want = float(zero("eval", "--model", directory, "--data", text, "--threads", "1").split()[1]), reference_loss(back, ids)
        report(name, f"loss of {kind} weights", abs(ours / want - 1) < 2e-6, f"{ours:.8f} {want:.8f}, {sum(f.endswith('.safetensors') for f in os.listdir(directory))} files")
    directory = os.path.join(work, name.replace(" ", "-") + "-fp32")
    prompt = open(text).read()[:20]
    ours = zero("generate", "--model", directory, "--prompt", prompt, "--tokens", "200", "--temperature", "0", "--threads", "1")
    token = {i: c for c, i in vocab.items()}
    with torch.no_grad():
        out = model.generate(torch.tensor([[vocab[c] for c in prompt]]), max_new_tokens=200, do_sample=False, pad_token_id=0)
    want = "".join(token[int(i)] for i in out[0])
    ours = ours if ours.startswith(prompt) else prompt + ours
    same = os.path.commonprefix([ours, want])
    report(name, "200 greedy tokens", len(same) == len(want), f"{len(same) - len(prompt)} alike")
    run = os.path.join(work, name.replace(" ", "-") + "-run")
    zero("train", "--model", directory, "--data", text, "--out", run, "--steps", "1", "--lr", "1e-12", "--ranks", "2", "--stage", "3", "--threads", "1", "--quiet")
    exported = AutoModelForCausalLM.from_pretrained(run + "/model", attn_implementation="eager").eval()
    with torch.no_grad():
        batch = torch.tensor([ids[:CONTEXT]])
        difference = (exported(batch).logits - model(batch).logits).abs().max() / model(batch).logits.abs().max()
    report(name, "logits of the exported directory", float(difference) < 1e-6 and exported.config.model_type == config.model_type,
           f"relative difference {float(difference):.2g}, {exported.config.model_type}, {exported.dtype}")


def check_tensor_ranks(name, ranks, work, text, tokenizer):
    """What tensor ranks train is one whole model in their export, about that of one rank, and transformers sees the same loss in it."""
    vocab = characters(tokenizer)
    ids = [vocab[c] for c in open(text).read()]
    start = os.path.join(work, name + "-fp32")
    split = ["--ranks", str(ranks), "--tensor", str(ranks), "--threads", "1"]
    losses = []
    for n, how in ((1, ["--threads", "1"]), (ranks, split)):
        run = os.path.join(work, f"{name}-tensor-{n}")
        zero("train", "--model", start, "--data", text, "--out", run, "--steps", "4", "--lr", "1e-3", "--quiet", *how)
        losses.append(reference_loss(AutoModelForCausalLM.from_pretrained(run + "/model", attn_implementation="eager").eval(), ids))
    one, want = losses
    report(name, f"training on {ranks} tensor ranks", abs(want / one - 1) < 2e-6, f"{want:.8f}, on one rank {one:.8f}")
    for where, how in (("one rank", ["--threads", "1"]), (f"{ranks} tensor ranks", split), (f"{ranks}, rows divided", [*split, "--sequence-parallel"])):
        ours = float(zero("eval", "--model", run + "/model", "--data", text, *how).split()[1])
        report(name, f"loss of that, {where}", abs(ours / want - 1) < 2e-6, f"{ours:.8f} {want:.8f}")


def check_extras(work, text):
    """The same loss where the files have more than the model: buffers of older versions, a tied head."""
    for name, extra, table in (("llama-tied", "model.layers.0.self_attn.rotary_emb.inv_freq", "model.embed_tokens.weight"),
                               ("gpt2", "transformer.h.0.attn.bias", "transformer.wte.weight")):
        directory = os.path.join(work, name + "-fp32")
        plain = zero("eval", "--model", directory, "--data", text, "--threads", "1").split()[1]
        tensors = {}
        for file in sorted(os.listdir(directory)):
            if file.endswith(".safetensors"):
                tensors.update(load_file(os.path.join(directory, file)))
                os.remove(os.path.join(directory, file))
        os.remove(os.path.join(directory, "model.safetensors.index.json"))
        tensors[extra] = torch.ones(8)
        tensors["lm_head.weight"] = tensors[table].clone()
        save_file(tensors, os.path.join(directory, "model.safetensors"))
        ours = zero("eval", "--model", directory, "--data", text, "--threads", "1").split()[1]
        report(name, "buffers and a head beside it", ours == plain, f"{ours} {plain}")


def main(only):
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as work:
        text = os.path.join(work, "text.txt")
        with open(text, "w") as out:
            out.write("".join(f"{i % 37} times {i % 11} is {(i % 37) * (i % 11)}, said the {'owl' if i % 3 else 'pussycat'}.\n" for i in range(60)))
        seed = os.path.join(work, "seed")
        zero("train", "--new", "gpt2:layers=1,heads=1,width=8,context=16", "--data", text, "--tokenizer", "chars", "--out", seed, "--steps", "1", "--quiet")
        tokenizer = seed + "/model"
        for name in only or MODELS:
            check(name, MODELS[name](len(characters(tokenizer))), work, text, tokenizer)
        if not only:
            check_extras(work, text)
        for name, ranks in TENSOR_RANKS.items():
            if not only or name in only:
                check_tensor_ranks(name, ranks, work, text, tokenizer)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}; {failures} differ")
    sys.exit(failures > 0)


if __name__ == "__main__":
    ZERO = os.path.abspath(sys.argv[1])
    main(sys.argv[2:])
