"""Compares what the library reads from tokenizer.model files with the library sentencepiece, and where a tokenizer_config.json names LlamaTokenizer,
with transformers: ids with and without special tokens, and text, for random Unicode and adversarial strings. Run by hand.

Unigram models and the rules of normalizers, too; what is exported of each, as AutoTokenizer reads it; and Unigram models as a tokenizer.json of
Hugging Face's `tokenizers` has them.

Usage: sentencepiece_check.py PROBE WORK [--strings N] [--seed S] [--speed TEXT]
       sentencepiece_check.py --golden DIR WORK

PROBE is tests/tokenizer/tokenizer_probe as built; WORK a directory for the models that are trained here. Exit 1 at the first difference, which is
printed. --speed compares the speed on one core over a text with that of sentencepiece. --golden writes the files of tests/tokenizer/sentencepiece: models, and for strings what the two make of them: a list of [text, ids of
ordinary text, its text again], and where transformers was asked [text, ids of ordinary text, ids with special tokens, their text, that without special
tokens].
"""
import argparse, json, os, random, shutil, statistics, subprocess, sys, time, unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

import tokenizer_compare as compare

CORPUS = [line for line in ("First Citizen:\nBefore we proceed any further, hear me speak.\nSpeak, speak. I'm, we're, they'll, he'd, she's\nword words sword king kings\n"
          "naïve café; é, 1234 567,89 (x) 中文 word words king \t  <tag>\n  return  a    b\n        if x == 10:\n=====  ====\n").split("\n")] * 20
SYMBOLS = ["<sep>", "<se", "king", "é,", "\n\n"]
COMMON = dict(model_type="bpe", normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2, hard_vocab_limit=False, num_threads=1)
MODELS = {
    "plain": dict(vocab_size=400, byte_fallback=True),
    "unknown": dict(vocab_size=150, character_coverage=0.98),
    "bare": dict(vocab_size=400, byte_fallback=True, add_dummy_prefix=False),
    "symbols": dict(vocab_size=400, byte_fallback=True, add_dummy_prefix=False, user_defined_symbols=SYMBOLS),
    "symbols-unknown": dict(vocab_size=160, add_dummy_prefix=False, user_defined_symbols=SYMBOLS),
    "controls": dict(vocab_size=400, byte_fallback=True, control_symbols=["[INST]", "[/INST]"], pad_id=0, bos_id=1, eos_id=2, unk_id=3),
    "across-words": dict(vocab_size=420, byte_fallback=True, split_by_whitespace=False),
    "spaces": dict(vocab_size=420, byte_fallback=True, allow_whitespace_only_pieces=True, split_digits=True),
    "runs": dict(vocab_size=400, byte_fallback=True, runs=[2, 4, 8, 5, 16, 6, 12, 13, 10, 14, 3, 9, 7, 11]),  # as Mistral has them
    "no-ends": dict(vocab_size=180, bos_id=-1, eos_id=-1, split_by_number=False),
    "other-ends": dict(vocab_size=600, byte_fallback=True, bos_piece="<B>", eos_piece="<E>", unk_piece="<U>", split_by_unicode_script=False),
}
RULES = dict(normalization_rule_name="nmt_nfkc", remove_extra_whitespaces=True)  # the defaults of spm_train
# A charsmap that is small, for files that are committed: characters that become others, none, a space, several; and two that become one.
TABLE = "\n".join("%s\t%s" % tuple(" ".join("%X" % ord(c) for c in part) for part in pair) for pair in [
    ("\ufb01", "fi"), ("\u3000", " "), ("\u00a0", " "), ("\x01", ""), ("\t", " "), ("\n", " "), ("e\u0301", "\u00e9"), ("A", "a"), ("\u2166", "VII"), ("\uff1c", "<"), ("\r\n", "="), ("\r", " ")])
RULED = {  # models that need more of a tokenizer.json than merges
    "uni-default": dict(RULES, model_type="unigram", vocab_size=300),
    "uni-bytes": dict(model_type="unigram", vocab_size=500, byte_fallback=True, allow_whitespace_only_pieces=True),
    "uni-folded": dict(RULES, model_type="unigram", vocab_size=500, byte_fallback=True, normalization_rule_name="nmt_nfkc_cf", user_defined_symbols=SYMBOLS),
    "uni-symbols": dict(model_type="unigram", vocab_size=300, user_defined_symbols=SYMBOLS),
    "uni-suffix": dict(RULES, model_type="unigram", vocab_size=300, treat_whitespace_as_suffix=True),
    "uni-bare": dict(RULES, model_type="unigram", vocab_size=300, add_dummy_prefix=False, split_digits=True, normalization_rule_name="nfkc"),
    "uni-across": dict(model_type="unigram", vocab_size=300, split_by_whitespace=False),
    "uni-runs": dict(RULES, model_type="unigram", vocab_size=300, allow_whitespace_only_pieces=True, remove_extra_whitespaces=False, control_symbols=["[INST]"], pad_id=0, bos_id=1, eos_id=2, unk_id=3),
    "uni-spaces": dict(RULES, model_type="unigram", vocab_size=300, unescaped=True),
    "uni-table": dict(model_type="unigram", vocab_size=300, table=TABLE, remove_extra_whitespaces=True, user_defined_symbols=SYMBOLS),
    "bpe-default": dict(RULES, vocab_size=400, byte_fallback=True),
    "bpe-suffix": dict(vocab_size=400, byte_fallback=True, treat_whitespace_as_suffix=True),
    "bpe-trims": dict(vocab_size=400, byte_fallback=True, remove_extra_whitespaces=True),
    "bpe-table": dict(vocab_size=200, table=TABLE, remove_extra_whitespaces=True, character_coverage=0.98),
}
LLAMA = {
    "first": ("spaces", {}),
    "always": ("spaces", {"legacy": True, "add_bos_token": True, "add_eos_token": True}),
    "never": ("plain", {"add_prefix_space": False, "add_bos_token": True, "legacy": None}),
    "llama-symbols": ("all", {"legacy": False, "add_bos_token": True}),
    "llama-symbols-always": ("all", {"legacy": True}),
    "llama-added": ("controls", {"add_bos_token": True, "pad_token": "<pad>", "added_tokens_decoder": {
        "3": {"content": "<unk>", "special": True}, "1": {"content": "<s>", "special": True}, "2": {"content": "</s>", "special": True},
        "%d": {"content": "<|im_start|>", "special": True}, "%d+1": {"content": "<m", "special": False}}}),
    "llama-listed": ("controls", {"legacy": False, "add_prefix_space": True, "pad_token": "<pad>", "additional_special_tokens": ["[INST]"]}),
}
GOLDEN = {"uni-tail": dict(model_type="unigram", vocab_size=200, treat_whitespace_as_suffix=True, allow_whitespace_only_pieces=True, unescaped=True)}
MODELS_OF_LLAMA = {"all": dict(vocab_size=420, byte_fallback=True, user_defined_symbols=SYMBOLS)}


def change(path, how):
    model = sentencepiece_model_pb2.ModelProto()
    with open(path, "rb") as f:
        model.ParseFromString(f.read())
    how(model)
    with open(path, "wb") as f:
        f.write(model.SerializeToString())


def unescape(model):
    model.normalizer_spec.escape_whitespaces = False
    for piece in model.pieces:
        piece.piece = piece.piece.replace("\u2581", " ")


def train(work, name, settings):
    directory, settings = f"{work}/{name}", dict(settings)
    runs, unescaped, table = settings.pop("runs", []), settings.pop("unescaped", False), settings.pop("table", None)
    os.makedirs(directory, exist_ok=True)
    if table:
        with open(f"{work}/table.tsv", "w") as f:
            f.write(table + "\n")
        settings["normalization_rule_tsv"] = f"{work}/table.tsv"
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_prefix=f"{directory}/tokenizer", **(COMMON | settings))
    if unescaped:
        change(f"{directory}/tokenizer.model", unescape)
    if runs:  # of spaces, all with one score
        model = sentencepiece_model_pb2.ModelProto()
        with open(f"{directory}/tokenizer.model", "rb") as f:
            model.ParseFromString(f.read())
        for length in runs:
            model.pieces.add(piece="\u2581" * length, score=-1e9)
        with open(f"{directory}/tokenizer.model", "wb") as f:
            f.write(model.SerializeToString())
    return f"{directory}/tokenizer.model"


def configured(work, name):
    """A directory with a model and its tokenizer_config.json."""
    of, settings = LLAMA[name]
    model = train(work, "of-" + name, (MODELS | MODELS_OF_LLAMA)[of])
    pieces = sentencepiece.SentencePieceProcessor(model_file=model).get_piece_size()
    config = {"tokenizer_class": "LlamaTokenizer", **json.loads(json.dumps(settings))}
    decoder = config.get("added_tokens_decoder")
    if decoder:
        flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
        config["added_tokens_decoder"] = {str(pieces + ("+" in k)) if "%" in k else k: {**v, **flags} for k, v in decoder.items()}
    with open(f"{work}/of-{name}/tokenizer_config.json", "w") as f:
        json.dump(config, f, indent=1)
    return f"{work}/of-{name}"


def by_sentencepiece(model, strings):
    library = sentencepiece.SentencePieceProcessor(model_file=model)
    return [(ids, None if library.unk_id() in ids else library.decode(ids)) for ids in (library.encode(s) for s in strings)]


def by_transformers(directory, strings):
    return compare.expected(AutoTokenizer.from_pretrained(directory)._tokenizer, strings)


def strings_of(seed, count):
    rng = random.Random(seed)
    own = ["<sep>a", "a<sep> b", "<sep><se<sep>", "kingking kings", "é,é,", "\n\n\n", "a b  c   d    e     f      g", "[INST] x [/INST]", "<pad>", "<|im_start|>a<m", "====== ===", "    if  x",
           " " * 7 + "a" + " " * 9, " " * 19 + "a" + " " * 17, "\ufb01 \uff1csep> \u2166\u3000x\u00a0 \x01", "e\u0301A\r\nb\t c ", "▁a▁ b▁▁", "-" * 40 + "=" * 41, "abcd " * 3000]
    strings = own + compare.adversarial() + [compare.random_string(rng) for _ in range(count)]
    pieces = ["<sep>", "<se", "king", " ", "  ", "a", "word", "=", "é,", "\n", "▁", "10", "中", "[INST]", "</s>", "speak"]
    return strings + ["".join(rng.choice(pieces) for _ in range(rng.randint(1, 12))) for _ in range(count // 4)]


def differ(name, string, what, ours, theirs):
    print(f"{name}: {what} differ for {string!r}: {ours} here, {theirs} there")
    sys.exit(1)


def export(probe, model, work, target):
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target)
    subprocess.run([probe, model, f"{work}/strings", f"{work}/probed", "0", target], check=True, capture_output=True)
    return target


def is_expressed(string):
    """Whether `tokenizers` can do what sentencepiece does: it applies a charsmap to graphemes, does not keep symbols from it, finds the names of bytes in
    text, and adds in fp64, so that runs may be cut elsewhere."""
    marked = any(unicodedata.category(c)[0] == "M" or unicodedata.category(c) == "Cf" or "\u1100" <= c < "\u1200" for c in string.replace("e\u0301", ""))
    flat = "".join(" " if c.isspace() or c == "▁" else c for c in string)
    runs = any(len(set(flat[i:i + 3])) == 1 for i in range(len(flat) - 2))
    return not (marked or runs or "<0x" in string or "\n\n" in string or "\r" in string)


def check_exports(probe, work, strings):
    for name, settings in RULED.items():
        model = train(work, name, settings)
        ours = compare.run_probe(probe, model, strings, work)[0]
        saved = export(probe, model, work, f"{work}/saved")
        if compare.run_probe(probe, saved, strings, work)[0] != ours:
            differ(name, "all strings", "ids of the export", "others", "the model's")
        equal = 0
        for s, row, theirs in zip(strings, ours, by_transformers(saved, strings)):
            equal += row[1:] == theirs[1:]
            if row[1:] != theirs[1:] and is_expressed(s):
                differ(name, s, "ids and texts", row[1:], theirs[1:])
        again = AutoTokenizer.from_pretrained(saved)  # transformers writes no rules of ours: what is read then is the library's tokenizer
        again.save_pretrained(f"{work}/again")
        for s, row, theirs in zip(strings, compare.run_probe(probe, f"{work}/again", strings, work)[0], compare.expected(again._tokenizer, strings)):
            if row[1:] != theirs[1:]:
                differ(name, s, "ids and texts of what transformers saves", row[1:], theirs[1:])
        print(f"{name}: exported, {equal} of {len(strings)} strings equal with AutoTokenizer, and all that `tokenizers` can express")


def of_library(work):
    """Unigram models with the parts around them that published files have."""
    def model(name, byte_fallback, normalizer, pre_tokenizer, decoder):
        proto = sentencepiece_model_pb2.ModelProto()
        with open(train(work, name, RULED[name]), "rb") as f:
            proto.ParseFromString(f.read())
        t = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=0, byte_fallback=byte_fallback))
        charsmap = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap) if proto.normalizer_spec.precompiled_charsmap else None
        t.normalizer, t.pre_tokenizer, t.decoder = normalizer(charsmap), pre_tokenizer, decoder
        t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in ("<unk>", "<s>", "</s>")])
        t.add_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False), AddedToken("king", normalized=False, single_word=True)])
        return t
    meta = lambda **how: pre_tokenizers.Metaspace(replacement="▁", **how)
    back = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    fallback = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta(prepend_scheme="always", split=True)])
    for kind, name in (("", "uni-default"), ("-table", "uni-table")):
        yield "t5" + kind, model(name, False, lambda c: c, words, back)
        yield "converted" + kind, model(name, False, lambda c: normalizers.Sequence([c, normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]), meta(prepend_scheme="first"), back)
    yield "stripped", model("uni-default", False, lambda c: normalizers.Sequence([normalizers.Strip(left=True, right=True), c]), meta(prepend_scheme="never", split=False), back)
    yield "fallback", model("uni-bytes", True, lambda c: None, meta(prepend_scheme="first", split=False), fallback)
    yield "replaced", model("uni-bytes", True, lambda c: normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None, fallback)


def check_library(probe, work, strings):
    for name, t in of_library(work):
        os.makedirs(f"{work}/{name}", exist_ok=True)
        t.save(f"{work}/{name}/tokenizer.json")
        want = compare.expected(t, strings)
        for part in (0, 7):
            for s, row, theirs in zip(strings, compare.run_probe(probe, f"{work}/{name}", strings, work, part)[0], want):
                at = 0 if row[0] == row[1] else 1  # special tokens are text in data; the library's model finds them there
                if row[at:] != theirs[at:]:
                    differ(name, s, "ids or texts", row, theirs)
        print(f"{name}: {len(strings)} strings, no difference from tokenizers")


def check_speed(probe, work, path):
    with open(path, encoding="utf-8", newline="") as f:
        text = f.read()
    os.makedirs(f"{work}/speed", exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(input=path, model_prefix=f"{work}/speed/tokenizer", vocab_size=8000, model_type="unigram", minloglevel=2, hard_vocab_limit=False, num_threads=1)
    model, size = f"{work}/speed/tokenizer.model", len(text.encode("utf-8")) / 1e6
    library = sentencepiece.SentencePieceProcessor(model_file=model)
    for name, texts in (("at once", [text]), ("by 4,000 characters", [text[i:i + 4000] for i in range(0, len(text), 4000)]), ("by lines", text.splitlines(keepends=True))):
        ours, theirs = [], []
        for _ in range(5):
            rows, seconds = compare.run_probe(probe, model, texts, work)
            ours.append(seconds)
            start = time.process_time()
            ids = [library.encode(t) for t in texts]
            theirs.append(time.process_time() - start)
        others = sum(a != b for row, i in zip(rows, ids) for a, b in zip(row[0], i))
        print(f"{name}: {size / statistics.median(ours):.1f} MB/s here, {size / statistics.median(theirs):.1f} sentencepiece; {others} of {sum(map(len, ids))} ids differ")


def check(probe, work, count, seed):
    strings = strings_of(seed, count)
    for name, settings in (MODELS | RULED).items():
        model = train(work, name, settings)
        for part in (0, 7):
            ours = compare.run_probe(probe, model, strings, work, part)[0]
            for s, row, (ids, text) in zip(strings, ours, by_sentencepiece(model, strings)):
                if row[0] != ids:
                    differ(name, s, "ids", row[0], ids)
                if row[0] == row[1] and text is not None and row[2] != text:
                    differ(name, s, "texts", row[2], text)
        print(f"{name}: {len(strings)} strings, no difference from sentencepiece")
    for name in LLAMA:
        directory = configured(work, name)
        ours = compare.run_probe(probe, directory, strings, work)[0]
        for s, row, theirs in zip(strings, ours, by_transformers(directory, strings)):
            for what, mine, other in zip(("ids", "ids with special tokens", "texts", "texts without special tokens"), row, theirs):
                if mine != other:
                    differ(name, s, what, mine, other)
        print(f"{name}: {len(strings)} strings, no difference from transformers")
    check_exports(probe, work, strings)
    check_library(probe, work, strings)


def write_golden(target, work):
    strings = [s for s in strings_of(3, 40) if len(s) <= 40 and "\0" not in s]
    strings = strings[:38] + strings[-8:] + strings[len(strings) // 2:][:8]
    os.makedirs(target, exist_ok=True)
    for name in ("unknown", "symbols", "runs", "uni-bytes", "uni-table", "uni-tail", "bpe-table"):
        model = train(work, name, (MODELS | RULED | GOLDEN)[name])
        shutil.copy(model, f"{target}/{name}.model")
        rows = [[s, ids] + ([] if text is None else [text]) for s, (ids, text) in zip(strings, by_sentencepiece(model, strings))]
        put_rows(f"{target}/{name}.cases", rows)
    for name, t in of_library(work):
        if name in ("t5-table", "converted-table", "fallback"):
            t.save(f"{target}/{name}.json", pretty=False)
            put_rows(f"{target}/{name}.cases", [[s, None if "<s>" in s or "</s>" in s or "<unk>" in s or "<mask>" in s else row[0]] + row[1:] for s, row in zip(strings, compare.expected(t, strings))])
    for name in ("llama-symbols-always", "llama-added"):
        directory = configured(work, name)
        os.makedirs(f"{target}/{name}", exist_ok=True)
        for file in ("tokenizer.model", "tokenizer_config.json"):
            shutil.copy(f"{directory}/{file}", f"{target}/{name}/{file}")
        put_rows(f"{target}/{name}.cases", [[s] + row for s, row in zip(strings, by_transformers(directory, strings))])


def put_rows(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows) + "\n]\n")


parser = argparse.ArgumentParser()
parser.add_argument("probe")
parser.add_argument("work")
parser.add_argument("--strings", type=int, default=1000)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--golden", action="store_true")
parser.add_argument("--speed")
arguments = parser.parse_args()
if arguments.golden:
    write_golden(arguments.probe, arguments.work)
elif arguments.speed:
    check_speed(arguments.probe, arguments.work, arguments.speed)
else:
    check(arguments.probe, arguments.work, arguments.strings, arguments.seed)
