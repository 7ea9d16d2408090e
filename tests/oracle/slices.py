#!/usr/bin/env python3
"""Golden values of models that are cut into slices: what llama.py writes, for shapes that 2 and 4 slices divide unevenly.

    python3 tests/oracle/slices.py tests/layers/slices_golden.bin

Eight heads; 257 tokens, so that the last slice of the vocabulary is smaller; two heads of keys and values in the variants of Llama, so that
each of them belongs to several slices; tables of tokens tied and not; biases, and norms of queries and keys. Records as in llama_golden.bin.
"""
import sys

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

import llama

VOCAB, WIDTH, HEADS, CONTEXT = 257, 16, 8, 8
COMMON = dict(vocab_size=VOCAB, attn_implementation="eager", bos_token_id=None, eos_token_id=None, pad_token_id=None)
GROUPED = dict(hidden_size=WIDTH, intermediate_size=16, num_attention_heads=HEADS, num_key_value_heads=2, head_dim=4,
               max_position_embeddings=CONTEXT, **COMMON)

VARIANTS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(n_positions=CONTEXT, n_embd=WIDTH, n_layer=2, n_head=HEADS, resid_pdrop=0.0, embd_pdrop=0.0,
                                         attn_pdrop=0.0, **COMMON)),
    "grouped": (LlamaForCausalLM, LlamaConfig(**GROUPED, num_hidden_layers=2, tie_word_embeddings=False)),
    "normed": (Qwen3ForCausalLM, Qwen3Config(**GROUPED, num_hidden_layers=1, tie_word_embeddings=True)),
}


def main(path):
    torch.manual_seed(20240607)
    with open(path, "wb") as out:
        for variant, (kind, config) in VARIANTS.items():
            llama.record_variant(out, variant, kind, config)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main(sys.argv[1])
