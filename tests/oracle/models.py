#!/usr/bin/env python3
"""Golden values of language models from PyTorch: weights, a batch, loss, logits and every gradient, by transformers' own models.

    python3 tests/oracle/models.py llama tests/layers/llama_golden.bin

A file has the variants of one architecture, a dictionary of FILES. One after another, each a small model of two layers; records are named VARIANT/NAME. The arithmetic is done in double precision, as far as
transformers lets it (rotary angles and norms are fp32 in every precision), on weights that single precision represents. Biases and norms
are random too: with zeros and ones their paths would go untested. "VARIANT/bf16.grad.NAME" and "fp16.grad.NAME" are what torch.autocast
makes of the same with all weights rounded to that type, as units read them. VARIANT/config is the config.json that transformers writes, a byte an element.
Format: records, each one line "f32|i32 NAME DIMENSIONS...\\n" followed by the elements, little-endian.
"""
import copy
import json
import sys
import tempfile

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

VOCAB, BATCH, SEQ = 29, 2, 7
SMALL = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=8, attn_implementation="eager", bos_token_id=None, eos_token_id=None, pad_token_id=None)


def rope(**settings):
    return {"rope_parameters": settings}


LLAMA = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SMALL, tie_word_embeddings=False)),
    "llama_tied": (LlamaForCausalLM, LlamaConfig(**{**SMALL, "num_key_value_heads": 4}, tie_word_embeddings=True, rms_norm_eps=1e-5)),
    "llama_biased": (LlamaForCausalLM, LlamaConfig(**{**SMALL, "num_key_value_heads": 1}, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "llama3": (LlamaForCausalLM, LlamaConfig(**{**SMALL, "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1}, tie_word_embeddings=True, **rope(
        rope_theta=100.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))),
    "linear": (LlamaForCausalLM, LlamaConfig(**SMALL, tie_word_embeddings=True, **rope(rope_theta=50.0, rope_type="linear", factor=2.5))),
    "dynamic": (LlamaForCausalLM, LlamaConfig(**SMALL, tie_word_embeddings=True, **rope(rope_theta=50.0, rope_type="dynamic", factor=2.5))),
    "yarn": (LlamaForCausalLM, LlamaConfig(**{**SMALL, "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1}, tie_word_embeddings=True, **rope(
        rope_theta=100.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=8.0, beta_slow=1.0))),
    "mistral": (MistralForCausalLM, MistralConfig(**SMALL, head_dim=8, sliding_window=7)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SMALL, tie_word_embeddings=True)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SMALL, head_dim=6, tie_word_embeddings=True)),
    "smollm2": (LlamaForCausalLM, LlamaConfig(**{**SMALL, "num_attention_heads": 3, "num_key_value_heads": 1, "hidden_size": 24}, tie_word_embeddings=True,
                                              rms_norm_eps=1e-5, initializer_range=0.041666666666666664, **rope(rope_theta=100000.0, rope_type="default"))),
}


def neox(part, tied, width=16, **settings):
    sizes = {**SMALL, "hidden_size": width, "num_attention_heads": 2, "intermediate_size": 12}
    del sizes["num_key_value_heads"]
    return GPTNeoXForCausalLM, GPTNeoXConfig(**sizes, tie_word_embeddings=tied, **rope(**{"rope_theta": 100.0, "rope_type": "default", **settings}, partial_rotary_factor=part))


NEOX = {
    "neox": neox(0.25, tied=False),
    "neox_half": neox(0.5, tied=True),
    "neox_whole": neox(1.0, tied=False),
    "neox_llama3": neox(0.5, tied=True, width=24, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64),
}
GPT2 = (GPT2LMHeadModel, GPT2Config(vocab_size=VOCAB, n_positions=8, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                    bos_token_id=None, eos_token_id=None, attn_implementation="eager"))
GPT2_ERF = {"gpt2_erf": (GPT2[0], GPT2Config(**{**GPT2[1].to_dict(), "activation_function": "gelu"}, attn_implementation="eager"))}
ALL = "all-linear"
# With adapters of peft; the text is what --lora says of the same.
LORA = {
    "lora_llama": (*LLAMA["llama"], "r=3,alpha=5", dict(r=3, lora_alpha=5, target_modules=ALL)),
    "lora_some": (*LLAMA["qwen3"], "r=4,alpha=3,targets=q_proj+v_proj,rslora", dict(r=4, lora_alpha=3, target_modules=["q_proj", "v_proj"], use_rslora=True)),
    "lora_biased": (*LLAMA["llama_biased"], "r=2,targets=k_proj+o_proj+down_proj", dict(r=2, lora_alpha=4, target_modules=["k_proj", "o_proj", "down_proj"])),
    "lora_gpt2": (*GPT2, "r=2,alpha=3", dict(r=2, lora_alpha=3, target_modules=ALL)),
    "lora_neox": (*NEOX["neox_half"], "r=2,alpha=3", dict(r=2, lora_alpha=3, target_modules=ALL)),
}
# The same with magnitudes, whose values are around 1.
DORA = {
    "dora_llama": (*LLAMA["llama"], "r=3,alpha=5,dora", dict(r=3, lora_alpha=5, target_modules=ALL, use_dora=True)),
    "dora_some": (*LLAMA["qwen3"], "r=4,alpha=3,targets=q_proj+v_proj,rslora,dora",
                  dict(r=4, lora_alpha=3, target_modules=["q_proj", "v_proj"], use_rslora=True, use_dora=True)),
    "dora_biased": (*LLAMA["llama_biased"], "r=2,targets=k_proj+o_proj+down_proj,dora",
                    dict(r=2, lora_alpha=4, target_modules=["k_proj", "o_proj", "down_proj"], use_dora=True)),
    "dora_gpt2": (*GPT2, "r=2,alpha=3,dora", dict(r=2, lora_alpha=3, target_modules=ALL, use_dora=True)),
    "dora_neox": (*NEOX["neox_half"], "r=2,alpha=3,dora", dict(r=2, lora_alpha=3, target_modules=ALL, use_dora=True)),
}
# Windows of several documents, each computed alone.
DOCUMENTS = {
    "documents_gpt2": GPT2,
    "documents_llama": LLAMA["llama3"],
    "documents_qwen": LLAMA["qwen3"],
    "documents_neox": NEOX["neox_half"],
}
# Windows shorter than the sequence: in all layers, in the last ones, and in those of a list; with documents, and with adapters.
WINDOW = dict(use_sliding_window=True, sliding_window=3)
SLIDING = {
    "sliding_mistral": (MistralForCausalLM, MistralConfig(**SMALL, head_dim=8, sliding_window=3)),
    "sliding_pair": (MistralForCausalLM, MistralConfig(**SMALL, sliding_window=2, tie_word_embeddings=True)),
    "sliding_qwen2": (Qwen2ForCausalLM, Qwen2Config(**SMALL, **WINDOW, max_window_layers=1)),
    "sliding_qwen3": (Qwen3ForCausalLM, Qwen3Config(**SMALL, **WINDOW, head_dim=6, layer_types=["sliding_attention", "full_attention"], tie_word_embeddings=True)),
    "sliding_unused": (Qwen2ForCausalLM, Qwen2Config(**SMALL, use_sliding_window=False, sliding_window=3, max_window_layers=0)),
}
LENGTHS = ((3, 4), (1, 2, 4))  # of the documents in each window
MIXED = ("llama", "qwen3", "lora_llama", "lora_gpt2", "dora_llama", "dora_gpt2")  # with gradients under autocast
SLIDING["sliding_documents"] = (*SLIDING["sliding_mistral"], None, None, LENGTHS)
SLIDING["sliding_lora"] = (*SLIDING["sliding_qwen3"], "r=3,alpha=5", dict(r=3, lora_alpha=5, target_modules=ALL))
FILES = {"sliding": SLIDING, "llama": LLAMA, "neox": NEOX, "gpt2_erf": GPT2_ERF, "lora": LORA, "dora": DORA, "documents": {name: (*of, None, None, LENGTHS) for name, of in DOCUMENTS.items()}}


def record(out, kind, name, tensor):
    dtype = {"f32": torch.float32, "i32": torch.int32}[kind]
    out.write(" ".join([kind, name, *map(str, tensor.shape)]).encode() + b"\n")
    out.write(tensor.detach().to(dtype).contiguous().numpy().astype("<f4" if kind == "f32" else "<i4").tobytes())


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-100)


def autocast_gradients(model, dtype, tokens, targets):
    single = copy.deepcopy(model).float()
    single.zero_grad()
    with torch.no_grad():
        for parameter in single.parameters():
            parameter.copy_(parameter.to(dtype).float())
    with torch.autocast("cpu", dtype=dtype):
        logits = single(tokens).logits
    loss_of(logits.float(), targets).backward()
    return {name: parameter.grad for name, parameter in single.named_parameters() if parameter.grad is not None}


def plain_name(name, head):
    """The name in files: without "transformer." before GPT-2's, and of an adapter as it lies next to the weight."""
    for part, instead in (("base_model.model.", ""), ("transformer.", ""), (".base_layer.", "."), (".default.", "."), ("lora_magnitude_vector.weight", "lora_magnitude_vector"), ("lm_head.weight", head)):
        name = name.replace(part, instead)
    return name


def alone(model, tokens, lengths):
    """The logits of windows whose documents are computed each by itself."""
    return torch.stack([torch.cat([model(part[None]).logits[0] for part in window.split(of)]) for window, of in zip(tokens, lengths)])


def record_variant(out, variant, kind, config, text_of_lora=None, lora=None, lengths=None):
    """All records of a model with random weights. Names are those of the whole model's file: GPT-2's without "transformer." before them."""
    head = "embed_out.weight" if config.model_type == "gpt_neox" else "lm_head.weight"
    model = kind(config).double().train()
    if lora:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **lora)).double().train()
        record(out, "i32", variant + "/lora", torch.tensor(list(text_of_lora.encode())))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name or "magnitude" in name or (".ln_" in name and name.endswith("weight")) else 0.0
            parameter.copy_((centre + 0.3 * torch.randn(parameter.shape)).float().double())
    tokens = torch.randint(config.vocab_size, (BATCH, SEQ))
    targets = torch.randint(config.vocab_size, (BATCH, SEQ))
    targets[1, 3] = -100  # not counted
    logits = alone(model, tokens, lengths) if lengths else model(tokens).logits
    loss = loss_of(logits, targets)
    loss.backward()
    if lengths:
        record(out, "i32", variant + "/positions", torch.tensor([[i for length in of for i in range(length)] for of in lengths]))
    with tempfile.TemporaryDirectory() as directory:
        config.save_pretrained(directory)
        text = open(directory + "/config.json", "rb").read()
    record(out, "i32", variant + "/config", torch.tensor(list(text)))
    record(out, "i32", variant + "/tokens", tokens)
    record(out, "i32", variant + "/targets", targets)
    record(out, "f32", variant + "/loss", loss.reshape(1))
    record(out, "f32", variant + "/logits", logits)
    mixed = {name: autocast_gradients(model, dtype, tokens, targets)
             for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)) if variant in MIXED}
    for name, parameter in model.named_parameters():
        plain = plain_name(name, head)
        record(out, "f32", f"{variant}/{plain}", parameter)
        if parameter.grad is None:
            continue
        record(out, "f32", f"{variant}/grad.{plain}", parameter.grad)
        for precision, gradients in mixed.items():
            record(out, "f32", f"{variant}/{precision}.grad.{plain}", gradients[name])
    print(f"{variant}: {json.loads(text)['model_type']}, loss {loss.item():.15g}")


def main(file, path):
    torch.manual_seed(20240607)
    with open(path, "wb") as out:
        for variant, what in FILES[file].items():
            record_variant(out, variant, *what)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
