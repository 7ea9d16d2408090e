#!/usr/bin/env python3
"""Writes tests/cli/generate/: a tiny GPT-2, a tiny Llama and a tiny Qwen3 with windows, and what transformers answers to some prompts; run by
hand, it needs torch and transformers.

    python3 tests/oracle/generate_golden.py tests [MODEL...]

DIR/MODEL/ gets config.json and model.safetensors (16 bits, so that it is small; both sides compute in fp32). Its tokenizer is one of
tests/tokenizer/tokenizers. MODEL.jsonl: for each prompt 200 greedy tokens, as `zero generate --json` writes them; MODEL.ended.jsonl: the same
where "eos_token_id" of generation_config.json is the list in MODEL.ends.json. Every prompt goes through transformers alone.

Weights are random, and so large that what is likeliest at a place depends on all before it. Tokens that are no printable text never are; the
seed is one where the likeliest token always is so by a margin that no order of sums closes.
"""
import copy
import json
import os
import shutil
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, PreTrainedTokenizerFast, Qwen3Config

TOKENS, CONTEXT, MARGIN = 200, 640, 1e-4
TEXT = "First Citizen: Before we proceed any further, hear me speak. All: Speak, speak. They'll come, we're here; I'm king. "
PROMPTS = ["Speak", "First Citizen:", TEXT * 2, "s", "a<|endoftext|>b</s>c", "1234 words", " two  spaces ", TEXT * 7]
BOTH = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)
MODELS = {
    "gpt2": ("smollm2", lambda v: GPT2Config(vocab_size=v, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=4, **BOTH)),
    "llama": ("llama2", lambda v: LlamaConfig(vocab_size=v, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                              max_position_embeddings=CONTEXT, tie_word_embeddings=True, **BOTH)),
    "sliding": ("llama2", lambda v: Qwen3Config(vocab_size=v, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                                max_position_embeddings=CONTEXT, tie_word_embeddings=True, use_sliding_window=True, sliding_window=24,
                                                layer_types=["sliding_attention", "full_attention", "sliding_attention"], **BOTH)),
}


def make(config, tokenizer, seed):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = ("norm" in name or "ln_" in name) and name.endswith("weight")
            parameter.copy_((norm + 0.35 * torch.randn(parameter.shape)).to(torch.float16))
        for i in range(config.vocab_size):
            text = tokenizer.decode([0, i])[len(tokenizer.decode([0])):]
            if i in tokenizer.all_special_ids or not text.isprintable() or not text.isascii() or tokenizer.convert_ids_to_tokens(i).startswith("<"):
                model.get_input_embeddings().weight[i] = 0
    return model


def answer(model, ids, ends):
    """New tokens, and the least distance between the likeliest token and the next."""
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), max_new_tokens=TOKENS, do_sample=False, eos_token_id=ends, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    two = torch.stack(out.logits)[:, 0].topk(2).values
    return out.sequences[0, len(ids):].tolist(), float((two[:, 0] - two[:, 1]).min())


def line(tokenizer, i, prompt, ids, new, ends):
    ended = bool(ends) and new[-1] in ends
    new = new[:-1] if ended else new
    text = tokenizer.decode(ids + new, clean_up_tokenization_spaces=False)[len(tokenizer.decode(ids, clean_up_tokenization_spaces=False)):]
    return json.dumps({"index": i, "prompt": prompt, "text": text, "tokens": len(new), "finish": "end" if ended else "length"}) + "\n"


def write(root, name):
    tokenizer_name, config = MODELS[name]
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{root}/tokenizer/tokenizers/{tokenizer_name}.json")
    prompts = [tokenizer(p).input_ids for p in PROMPTS]
    for seed in range(1000):
        model = make(config(len(tokenizer)), tokenizer, seed)
        new, margins = zip(*(answer(model, ids, None) for ids in prompts))
        if min(margins) > MARGIN and min(len(set(n)) for n in new) > 25:
            break
    else:
        sys.exit(f"{name}: no seed will do")
    ends = [new[0][20], new[1][100], 100000]
    directory = f"{root}/cli/generate/{name}"
    shutil.rmtree(directory, ignore_errors=True)
    copy.deepcopy(model).to(torch.float16).save_pretrained(directory)
    os.remove(directory + "/generation_config.json")
    for suffix, e in ((".jsonl", None), (".ended.jsonl", ends)):
        with open(directory + suffix, "w") as out:
            out.writelines(line(tokenizer, i, p, ids, answer(model, ids, e)[0], e) for i, (p, ids) in enumerate(zip(PROMPTS, prompts)))
    json.dump({"eos_token_id": ends}, open(directory + ".ends.json", "w"))
    print(f"{name}: seed {seed}, prompts of {[len(p) for p in prompts]} tokens, margin {min(margins):.3g}, {[len(set(n)) for n in new]} different tokens each")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in sys.argv[2:] or MODELS:
        write(sys.argv[1], name)
