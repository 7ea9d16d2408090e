"""Compares the library's tokenizers with Hugging Face's `tokenizers`: ids and text of whole files, random Unicode and adversarial strings.

Usage: tokenizer_compare.py PROBE WORK [--gpt2 DIR] [--text FILE] [--strings N] [--seed S]
PROBE is tests/tokenizer/tokenizer_probe as built; WORK a directory for what is made. Tokenizers of each family are trained here on the text,
with the normalizer, pre-tokenizer and decoder that the published ones have. Exit 1 at the first difference, which is printed.
"""
import argparse, json, os, random, statistics, struct, subprocess, sys, time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def byte_level(pre, specials, corpus, size, normalizer=None, ignore_merges=False, before=None):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    if ignore_merges:  # a token that no merge makes
        raw = json.loads(t.to_str())
        raw["model"]["vocab"]["speaking"] = len(raw["model"]["vocab"])
        t = Tokenizer.from_str(json.dumps(raw))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    if before:
        t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single=f"{before} $A", special_tokens=[(before, t.token_to_id(before))])])
    return t


def split(regex):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated", invert=False),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama2(corpus, size, metaspace, fallback=True, fuse=True):
    """SentencePiece's BPE: words are learnt apart; afterwards the text is one word, as in the published files."""
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=fallback, fuse_unk=fuse))
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, special_tokens=specials, limit_alphabet=80, show_progress=False))
    raw = json.loads(t.to_str())
    raw["added_tokens"] = [a for a in raw["added_tokens"] if a["id"] < 3]
    merges = raw["model"]["merges"]
    spaces = ["▁▁", "▁▁▁▁"]  # runs of spaces, as Llama has them
    for s in spaces:
        raw["model"]["vocab"][s] = len(raw["model"]["vocab"])
    merges += [["▁", "▁"], ["▁▁", "▁▁"]]
    if metaspace:
        raw["normalizer"] = None
        raw["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": metaspace, "split": False}
    else:
        raw["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
        raw["pre_tokenizer"] = None
    raw["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                       {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    raw["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                             "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                             "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return Tokenizer.from_str(json.dumps(raw))


def odd(t):
    """With added tokens of every kind."""
    t.add_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False), AddedToken("<r>", rstrip=True, normalized=False), AddedToken("<lr>", lstrip=True, rstrip=True),
                  AddedToken("word", single_word=True), AddedToken("king", single_word=True, lstrip=True, normalized=False), AddedToken("<m", normalized=False), AddedToken("é tok"),
                  AddedToken("\n\n\n")])
    return t


def families(corpus, size, gpt2):
    chat = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    yield "llama3", byte_level(split(WORDS + r"\p{N}{1,3}" + REST), chat, corpus, size, ignore_merges=True, before="<|begin_of_text|>")
    yield "qwen2", byte_level(split(WORDS + r"\p{N}" + REST), chat, corpus, size, normalizer=normalizers.NFC())
    yield "smollm2", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]), chat, corpus, size)
    yield "llama2", llama2(corpus, size + 120, None)
    yield "llama2-first", llama2(corpus, size + 120, "first")
    yield "llama2-always", llama2(corpus, size + 120, "always")
    yield "unknown-fused", llama2(corpus, size + 60, None, fallback=False)
    yield "unknown-apart", llama2(corpus, size + 60, "always", fallback=False, fuse=False)
    yield "odd", odd(byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), ["<|endoftext|>"], corpus, size))
    yield "odd-nfc", odd(byte_level(split(WORDS + r"\p{N}" + REST), ["<|endoftext|>"], corpus, size, normalizer=normalizers.NFC()))
    yield "odd-llama2", odd(llama2(corpus, size + 120, None))
    if gpt2:
        t = Tokenizer(models.BPE.from_file(f"{gpt2}/vocab.json", f"{gpt2}/merges.txt"))
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        t.decoder = decoders.ByteLevel()
        t.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
        yield "gpt2", t
        yield "gpt2-files", t


def adversarial():
    fixed = ["", " ", "  ", "\n", "\n\n", " \n", "\n ", "a", " a", "  a", "\t\ta", "a  b   c    d", "a\r\nb\r\n\r\nc", "I'm WE'RE they'LL he'D she'S 'tis ''s 'ſ O'Neil's", "1234567890 12 345,678.90 ٣٤٥ ½²Ⅷ",
             "x\u00a0y\u2003z\u3000w\u200bv\ufeffu", "e\u0301 é \u0301 a\u0300\u0316\u0301", "가 각 \u1100\u1161\u11a8", "👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽", "中文字符和English混排，标点。", "العربية עברית हिन्दी ไทย",
             "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext", "<|im_start|>user\nHi<|im_end|>\n", "<s>", "</s> <s>a", "<unk>", "<0x0A>", "▁", "▁▁a", "a▁b", " ▁", "<mask>", "a <mask> b", "  <mask>  ",
             "<r>  x", "x <lr> y", "<r> <mask>", "word wordy sword word-word word.word", "king  king kings", "<m<mask><r>", "é tok e\u0301 tok", "\n\n\n\n", "a\n\n\nb", "\x00\x01\x7f", "\U0001f600" * 40, "a" * 300,
             " " * 500, "\n" * 77, "ab " * 200, "!?.,;:" * 30, "\u0344\ufb2c\U0001d160", "\ud7a3\u11ff", "ſſ 'K 'Ꝏ", "\u2028\u2029\u0085\x0b\x0c", "\u0378\ue000\U000e0001\U0010ffff", "ß ẞ ŉ ǰ ΐ İ ı", "'\u017fx", "a'\u017f", "speaking speaking",
             "speakhearingthewordofthekingbeforeweproceedanyfurtherheHearmespeakthey", "aabaabbaabaaabbbabababaabbaabababbbaaabaabaabababaabbabababab"]
    return fixed + [f + g for f in fixed for g in (" word", "<s>", "\n")]


FIXED = len(adversarial()) // 4  # without what is put after each

POOLS = ["abcdefghij  \n", "aeiou rst'", "0123456789 ", " \t\n\r\u00a0", "'sStTmMdDlLvVeErR ", "!@#$%^&*()-_=+[]{}<>|~`", "<|endoftxim_sar>/0xA ", "éèñüßøåÆ", "\u0300\u0301\u0327\u0316e a", "中文字日本語한국어",
         "👍👨‍👩‍👧🏽🏳️", "▁ a▁", "\u1100\u1161\u11a8가각", "ابتثعرי שלום", "½²Ⅷ٣१"]


def random_string(rng):
    out = []
    for _ in range(rng.randint(1, 6)):
        kind = rng.random()
        n = rng.randint(1, 12)
        if kind < 0.55:
            out += rng.choices(rng.choice(POOLS), k=n)
        elif kind < 0.8:
            base = rng.choice([0x20, 0xa0, 0x300, 0x370, 0x600, 0x900, 0xe00, 0x1100, 0x1e00, 0x2000, 0x3040, 0x4e00, 0xa640, 0xac00, 0xfb00, 0xff00, 0x10000, 0x1d400, 0x1f300, 0x20000])
            out += [chr(base + rng.randint(0, 0xff)) for _ in range(n)]
        else:
            while n:
                c = rng.randint(1, 0x10ffff)
                if not 0xd800 <= c < 0xe000:
                    out.append(chr(c))
                    n -= 1
    return "".join(out)


def run_probe(probe, path, strings, work, part=0):
    source, target = f"{work}/strings", f"{work}/probed"
    with open(source, "wb") as f:
        for s in strings:
            raw = s.encode("utf-8")
            f.write(struct.pack("<I", len(raw)) + raw)
    seconds = float(subprocess.run([probe, path, source, target] + ([str(part)] if part else []), check=True, capture_output=True, text=True).stdout)
    raw = open(target, "rb").read()
    at, out = 0, []
    for _ in strings:
        item = []
        for width in (4, 4, 1, 1):
            n = struct.unpack_from("<I", raw, at)[0]
            body = raw[at + 4:at + 4 + n * width]
            item.append(list(struct.unpack(f"<{n}i", body)) if width == 4 else body.decode("utf-8"))
            at += 4 + n * width
        out.append(item)
    assert at == len(raw)
    return out, seconds


def expected(t, strings):
    t.encode_special_tokens = True
    plain = [t.encode(s, add_special_tokens=False).ids for s in strings]
    t.encode_special_tokens = False
    special = [t.encode(s, add_special_tokens=False).ids for s in strings]
    return [[p, s, t.decode(s, skip_special_tokens=False), t.decode(s, skip_special_tokens=True)] for p, s in zip(plain, special)]


def compare(name, strings, got, want):
    for s, g, w in zip(strings, got, want):
        for what, a, b in zip(("ids of text", "ids with special tokens", "text", "text without special tokens"), g, w):
            if a != b:
                i = next((i for i, p in enumerate(zip(a, b)) if p[0] != p[1]), min(len(a), len(b)))
                print(f"{name}: {what} differ at {i} for {s[:200]!r}\n  here    {a[max(0, i - 5):i + 10]!r}\n  library {b[max(0, i - 5):i + 10]!r}")
                sys.exit(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("probe"), p.add_argument("work"), p.add_argument("--gpt2"), p.add_argument("--text"), p.add_argument("--only")
    p.add_argument("--strings", type=int, default=2000), p.add_argument("--seed", type=int, default=1), p.add_argument("--size", type=int, default=3000)
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    text = open(a.text, encoding="utf-8", newline="").read() if a.text else "The quick brown fox jumps over the lazy dog. " * 40
    rng = random.Random(a.seed)
    strings = adversarial() + [random_string(rng) for _ in range(a.strings)]
    extra = ["naïve café 中文 日本語 한국어 привет мир " * 30, "def f(x):\n        return x\n\n" * 50]
    for name, t in families([text] + extra, a.size, a.gpt2):
        if a.only and a.only != name:
            continue
        path = a.gpt2 if name == "gpt2-files" else f"{a.work}/{name}"
        if name != "gpt2-files":
            os.makedirs(path, exist_ok=True)
            t.save(f"{path}/tokenizer.json")
        want = expected(t, strings)
        for part in (0, 7):
            got, _ = run_probe(a.probe, path, strings, a.work, part)
            compare(f"{name}, parts of {part}", strings, got, want)
        whole = expected(t, [text])
        for part in (0, 1000):
            got, seconds = run_probe(a.probe, path, [text], a.work, part)
            compare(f"{name}, the whole text in parts of {part}", [text], got, whole)
        t.encode_special_tokens = True
        ours, theirs, lines = [], [], text.splitlines(keepends=True)  # the library is faster by lines
        for _ in range(5):  # in turn, in seconds of the processor
            ours.append(run_probe(a.probe, path, [text], a.work)[1])
            start = [time.process_time()]
            t.encode(text, add_special_tokens=False)
            start.append(time.process_time())
            t.encode_batch(lines, add_special_tokens=False)
            start.append(time.process_time())
            theirs.append(min(start[1] - start[0], start[2] - start[1]))
        seconds, theirs = statistics.median(ours), statistics.median(theirs)
        size = len(text.encode("utf-8")) / 1e6
        print(f"{name}: {len(strings)} strings and {size:.2f} MB ({len(whole[0][0])} tokens) equal; {size / seconds:.1f} MB/s here, {size / theirs:.1f} the library ({theirs / seconds:.1f}x)", flush=True)


if __name__ == "__main__":
    main()
