"""Writes tests/tokenizer/tokenizers/: small tokenizers of each family, and for strings of every awkward kind what Hugging Face's `tokenizers`
makes of them: a list of [text, ids of ordinary text, ids with special tokens, their text, that without special tokens]. And a text
with runs that overlap themselves, learnt.txt, with the merges that the library learns from it.

And pieces.cases: a list of [text, its pieces by GPT-2, Llama 3, Qwen 2].

Usage: tokenizer_golden.py DIR
"""
import json, random, sys

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

import tokenizer_compare as compare

CORPUS = ["First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak. I'm, we're, they'll, he'd, she's\n" * 20,
          "naïve café; e\u0301 é, 1234 567,89 (x) 中文 word words king \t\n  <tag>\n\n" * 20]

rng = random.Random(5)
strings = [s for s in compare.adversarial()[:compare.FIXED] if len(s) <= 80] + [compare.random_string(rng)[:30] for _ in range(16)]
for name, tokenizer in compare.families(CORPUS, 340, None):
    tokenizer.save(f"{sys.argv[1]}/{name}.json", pretty=False)
    rows = [[s] + w for s, w in zip(strings, compare.expected(tokenizer, strings)) if "\0" not in s]
    with open(f"{sys.argv[1]}/{name}.cases", "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows) + "\n]\n")

cutters = [pre_tokenizers.Split(Regex(r), "isolated") for r in (compare.GPT2, compare.WORDS + r"\p{N}{1,3}" + compare.REST, compare.WORDS + r"\p{N}" + compare.REST)]
with open(f"{sys.argv[1]}/pieces.cases", "w", encoding="utf-8") as f:
    rows = [[s] + [[p for p, _ in c.pre_tokenize_str(s)] for c in cutters] for s in strings + [compare.random_string(rng) for _ in range(60)] if "\0" not in s]
    f.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows) + "\n]\n")

corpus = "".join(rng.choice(["a", "ab", "aab", "ba", " the", " he", "é", "=", "\n", "12"]) * rng.randint(1, 9) + rng.choice(["", " ", "\n"]) for _ in range(400))
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.train_from_iterator([corpus], trainers.BpeTrainer(vocab_size=380, min_frequency=2, special_tokens=["<|endoftext|>"],
                                                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
open(f"{sys.argv[1]}/learnt.txt", "w", encoding="utf-8", newline="").write(corpus)
merges = json.loads(tokenizer.to_str())["model"]["merges"]
open(f"{sys.argv[1]}/learnt.merges", "w", encoding="utf-8").write("".join((" ".join(m) if isinstance(m, list) else m) + "\n" for m in merges))
