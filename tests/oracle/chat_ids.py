#!/usr/bin/env python3
"""Writes tests/chat/chat_ids.json: the ids of conversations, and which of them the assistant said, as transformers finds both
(apply_chat_template with return_assistant_tokens_mask), for the small tokenizers of tests/tokenizer/tokenizers. test_chat_ids compares.

Usage: chat_ids.py            the file that is kept
       chat_ids.py N SEED     N random conversations a format on standard output: test_chat_ids FILE compares those"""
import json, os, random, sys
from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "..")

# The templates of chat_golden.py, with what the assistant says marked for transformers.
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n'}}{% if message['role'] == 'assistant' %}"
          "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}")
LLAMA3 = ("{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}{% if message['role'] == 'assistant' %}"
          "{% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}{% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}")
LLAMA2 = ("{% for message in messages %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + message['content'].strip() + ' [/INST]' }}{% else %}"
          "{% generation %}{{ ' ' + message['content'].strip() + ' ' + eos_token }}{% endgeneration %}{% endif %}{% endfor %}")
MISTRAL = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}"
           "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}{% endif %}{% endfor %}")
CASES = [("qwen2", "chatml", CHATML, None, "<|im_end|>"), ("smollm2", "chatml", CHATML, None, "<|im_end|>"),
         ("llama3", "llama3", LLAMA3, "<|begin_of_text|>", "<|eot_id|>"), ("llama2", "llama2", LLAMA2, "<s>", "</s>"), ("llama2", "mistral", MISTRAL, "<s>", "</s>")]
PIECES = ["Hello", " there", "\n", "\n\n", "  ", "1234", "'s", "naïve", "e\u0301", "漢字", "\U0001f600", ".", "!?", "<|im_end|>", "</s>", "[INST]", "\t", " a b c", "we're", "\u00a0", "x"]


def conversation(rng):
    turns = [{"role": "user" if i % 2 == 0 else "assistant", "content": "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 6)))} for i in range(2 * rng.randrange(1, 4))]
    return turns


def rows(rng, count):
    for name, form, template, bos, eos in CASES:
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(TESTS, "tokenizer", "tokenizers", name + ".json"), bos_token=bos, eos_token=eos)
        tokenizer.chat_template = template
        for _ in range(count):
            messages = conversation(rng)
            out = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
            yield {"tokenizer": name, "format": form, "bos": bos or "", "eos": eos, "messages": messages, "ids": out["input_ids"], "mask": "".join(map(str, out["assistant_masks"]))}


def main():
    count, seed = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (12, 3)
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows(random.Random(seed), count)) + "\n]\n"
    if len(sys.argv) > 2:
        sys.stdout.write(text)
        return
    with open(os.path.join(TESTS, "chat", "chat_ids.json"), "w", encoding="utf-8") as file:
        file.write(text)


main()
