"""Opens with AutoTokenizer what zero train exports of each kind of tokenizer, for each architecture, and compares the ids of many texts.

    python tests/oracle/tokenizer_exports.py build/zero /tmp/work

Needs transformers. A qwen2 is opened by PreTrainedTokenizerFast: transformers 5 opens each of them with Qwen2's own pre-tokenizer.
"""
import json
import os
import random
import shutil
import subprocess
import sys

import tokenizers
import transformers

transformers.logging.set_verbosity_error()
ZERO, WORK = sys.argv[1:3]
ARCHITECTURES = ("gpt2", "llama", "mistral", "qwen2", "qwen3")
FLAGS = dict(single_word=False, lstrip=False, rstrip=False, normalized=True, special=False)


def texts():
    draw = random.Random(3)
    kinds = [(32, 127), (0x80, 0x3000), (0x4E00, 0x9FFF), (0x1F300, 0x1FA00), (32, 33), (10, 11)]
    made = ["", "a", " a", "  a\n\n b\tc ", "Hello world! don't WE'LL", "12345 6 7", "e\u0301 \u00a0\u3000", "\r\n\n  \n", "x<|endoftext|> y", "\u200b\ufeff \u00bd"]
    made += [a + s + b for s in ("<u>", "<p>", "wörd") for a in ("", "x", " ", "a  ") for b in ("", " ", "y", "  y\n")]
    return made + ["".join(chr(draw.randrange(*draw.choice(kinds))) for _ in range(draw.randrange(1, 40))) for _ in range(400)]


def run(*arguments):
    subprocess.run([ZERO, *arguments], check=True, stdout=subprocess.DEVNULL)


def export(architecture, tokenizer, text):
    out = os.path.join(WORK, "run")
    shutil.rmtree(out, ignore_errors=True)
    run("train", "--new", architecture + ":layers=1,heads=2,width=16,context=32", "--data", text, "--out", out, "--steps", "1", "--threads", "1", "--quiet", "--eval-every", "0", "--tokenizer", tokenizer)
    return out + "/model"


def compare(name, tokenizer, text, ids):
    for architecture in ARCHITECTURES:
        model = export(architecture, tokenizer, text)
        opens = transformers.PreTrainedTokenizerFast if architecture == "qwen2" else transformers.AutoTokenizer
        opened = opens.from_pretrained(model)
        wrong = [one for one in texts() if opened(one)["input_ids"] != ids(one)]
        print(f"{name:12} {architecture:8} {type(opened).__name__:18} {len(texts())} texts, {len(wrong)} differ {wrong[:1]}")
        if wrong:
            sys.exit(1)


def two_files(name, vocab, merges, **files):
    directory = os.path.join(WORK, name)
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    for file, content in dict(files, vocab=vocab).items():
        with open(f"{directory}/{file}.json", "w") as out:
            json.dump(content, out)
    with open(directory + "/merges.txt", "w") as out:
        out.write("#version: 0.2\n" + "\n".join(merges) + "\n")
    return directory


def main():
    os.makedirs(WORK, exist_ok=True)
    text = os.path.join(WORK, "text.txt")
    with open(text, "w") as out:
        out.write("\n".join(texts() * 20))
    own = os.path.join(WORK, "own")
    run("tokenizer", "train", "--data", text, "--vocab", "600", "--out", own, "--overwrite")
    learnt = tokenizers.Tokenizer.from_file(own + "/tokenizer.json")
    compare("own", own, text, lambda one: learnt.encode(one).ids)
    compare("bytes", "bytes", text, lambda one: list(one.encode()))
    number = {c: i for i, c in enumerate(sorted(set(open(text, newline="").read())))}
    compare("chars", "chars", text, lambda one: [number[c] for c in one if c in number])

    model = json.load(open(own + "/tokenizer.json"))["model"]
    count, merges = len(model["vocab"]), [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    decoder = {count: dict(FLAGS, content="<u>", lstrip=True), count + 1: dict(FLAGS, content="<p>", special=True, rstrip=True), count + 2: dict(FLAGS, content="wörd", single_word=True)}
    cases = {
        "plain": {},
        "added": {"added_tokens": {"<u>": count, "<p>": count + 1}},
        "decoder": {"tokenizer_config": {"added_tokens_decoder": decoder, "pad_token": "<p>"}},
        "map": {"added_tokens": {"<u>": count, "<p>": count + 1}, "special_tokens_map": {"pad_token": "<p>", "eos_token": "<|endoftext|>"}},
        "prefix": {"tokenizer_config": {"add_prefix_space": True}},
        "bos": {"tokenizer_config": {"add_bos_token": True}},
    }
    for name, files in cases.items():
        directory = two_files(name, model["vocab"], merges, **files)
        gpt2 = transformers.GPT2Tokenizer.from_pretrained(directory)
        compare(name, directory, text, lambda one: gpt2(one)["input_ids"])


main()
