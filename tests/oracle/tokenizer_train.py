"""Compares a tokenizer that `zero tokenizer train` wrote with what the `tokenizers` library learns from the same text.

Usage: tokenizer_train.py DIR TEXT VOCABULARY [TEXT...]: DIR/tokenizer.json must have the same vocabulary and merges; transformers, where it
is here, must open DIR and encode the text to the library's ids.
"""
import json, sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

directory, texts, size = sys.argv[1], [sys.argv[2]] + sys.argv[4:], int(sys.argv[3])
t = Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
t.decoder = decoders.ByteLevel()
corpus = [open(p, encoding="utf-8", newline="").read() for p in texts]
t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, min_frequency=2, special_tokens=["<|endoftext|>"],
                                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
theirs = json.loads(t.to_str())["model"]
ours = json.load(open(f"{directory}/tokenizer.json"))["model"]
merges = [" ".join(m) if isinstance(m, list) else m for m in theirs["merges"]]
for i, (a, b) in enumerate(zip(ours["merges"], merges)):
    if a != b:
        sys.exit(f"merge {i}: {a!r} here, {b!r} the library")
assert len(ours["merges"]) == len(merges), (len(ours["merges"]), len(merges))
assert ours["vocab"] == theirs["vocab"]
assert Tokenizer.from_file(f"{directory}/tokenizer.json").encode(corpus[0]).ids == t.encode(corpus[0]).ids
try:
    import transformers
except ImportError:
    transformers = None
if transformers:
    auto = transformers.AutoTokenizer.from_pretrained(directory)
    assert auto(corpus[0])["input_ids"] == t.encode(corpus[0]).ids and auto.eos_token == "<|endoftext|>" and auto.decode(auto("Hello  it's")["input_ids"]) == "Hello  it's"
print(f"{len(merges)} merges: the same{', and transformers opens it' if transformers else ''}")
