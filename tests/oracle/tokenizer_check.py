"""Opens what the library wrote with Hugging Face's libraries: the same ids, and the same text back.

Usage: tokenizer_check.py DIR, where DIR holds text.bin, and for each kind KIND/tokenizer.json, KIND/tokenizer_config.json and
KIND/ids.bin (int32, little-endian). Exit 77: the libraries are not here.
"""
import sys

try:
    import tokenizers
except ImportError:
    print("SKIPPED: this Python has no `tokenizers`")
    sys.exit(77)
try:
    import transformers
except ImportError:
    transformers = None
    print("this Python has no `transformers`: only `tokenizers` is asked")


def check(kind, text, ids, encode, decode):
    got = encode(text)
    assert got == ids, f"{kind}: ids differ at {next((i for i, p in enumerate(zip(got, ids)) if p[0] != p[1]), min(len(got), len(ids)))}"
    back = decode(ids)
    assert back == text, f"{kind}: the text that comes back differs"


root = sys.argv[1]
text = open(f"{root}/text.bin", "rb").read().decode("utf-8")
for kind in ("bytes", "chars"):
    raw = open(f"{root}/{kind}/ids.bin", "rb").read()
    ids = [int.from_bytes(raw[i:i + 4], "little") for i in range(0, len(raw), 4)]
    library = tokenizers.Tokenizer.from_file(f"{root}/{kind}/tokenizer.json")
    check(f"{kind}, tokenizers", text, ids, lambda t: library.encode(t).ids, library.decode)
    if transformers:
        auto = transformers.AutoTokenizer.from_pretrained(f"{root}/{kind}")
        check(f"{kind}, transformers", text, ids, lambda t: auto(t)["input_ids"], auto.decode)
        assert len(auto) == library.get_vocab_size()
print(f"{len(text)} characters: the same ids and text")
