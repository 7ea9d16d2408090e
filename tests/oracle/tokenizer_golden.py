"""Writes tests/data/tokenizers/: small tokenizers of each family, and for strings of every awkward kind what Hugging Face's `tokenizers`
makes of them: a list of [text, ids of ordinary text, ids with special tokens, their text, that without special tokens].

Usage: tokenizer_golden.py DIR
"""
import json, random, sys

import tokenizer_compare as compare

CORPUS = ["First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak. I'm, we're, they'll, he'd, she's\n" * 20,
          "naïve café; e\u0301 é, 1234 567,89 (x) 中文 word words king \t\n  <tag>\n\n" * 20]

rng = random.Random(5)
strings = [s for s in compare.adversarial()[:68] if len(s) <= 80] + [compare.random_string(rng)[:30] for _ in range(16)]
for name, tokenizer in compare.families(CORPUS, 340, None):
    tokenizer.save(f"{sys.argv[1]}/{name}.json", pretty=False)
    rows = [[s] + w for s, w in zip(strings, compare.expected(tokenizer, strings)) if "\0" not in s]
    with open(f"{sys.argv[1]}/{name}.cases", "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows) + "\n]\n")
