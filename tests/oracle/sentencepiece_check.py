"""Compares what the library reads from tokenizer.model files with the library sentencepiece, and where a tokenizer_config.json names LlamaTokenizer,
with transformers: ids with and without special tokens, and text, for random Unicode and adversarial strings. Run by hand.

Usage: sentencepiece_check.py PROBE WORK [--strings N] [--seed S]
       sentencepiece_check.py --golden DIR WORK

PROBE is tests/tokenizer/tokenizer_probe as built; WORK a directory for the models that are trained here. Exit 1 at the first difference, which is
printed. --golden writes the files of tests/tokenizer/sentencepiece: models, and for strings what the two make of them: a list of [text, ids of
ordinary text, its text again], and where transformers was asked [text, ids of ordinary text, ids with special tokens, their text, that without special
tokens].
"""
import argparse, json, os, random, shutil, sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
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
MODELS_OF_LLAMA = {"all": dict(vocab_size=420, byte_fallback=True, user_defined_symbols=SYMBOLS)}


def train(work, name, settings):
    directory, settings = f"{work}/{name}", dict(settings)
    runs = settings.pop("runs", [])
    os.makedirs(directory, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_prefix=f"{directory}/tokenizer", **COMMON, **settings)
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
           " " * 7 + "a" + " " * 9, " " * 19 + "a" + " " * 17]
    strings = own + compare.adversarial() + [compare.random_string(rng) for _ in range(count)]
    pieces = ["<sep>", "<se", "king", " ", "  ", "a", "word", "=", "é,", "\n", "▁", "10", "中", "[INST]", "</s>", "speak"]
    return strings + ["".join(rng.choice(pieces) for _ in range(rng.randint(1, 12))) for _ in range(count // 4)]


def differ(name, string, what, ours, theirs):
    print(f"{name}: {what} differ for {string!r}: {ours} here, {theirs} there")
    sys.exit(1)


def check(probe, work, count, seed):
    strings = strings_of(seed, count)
    for name, settings in MODELS.items():
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


def write_golden(target, work):
    strings = [s for s in strings_of(3, 40) if len(s) <= 40 and "\0" not in s]
    strings = strings[:38] + strings[-8:] + strings[len(strings) // 2:][:8]
    os.makedirs(target, exist_ok=True)
    for name in ("unknown", "symbols", "runs"):
        model = train(work, name, MODELS[name])
        shutil.copy(model, f"{target}/{name}.model")
        rows = [[s, ids] + ([] if text is None else [text]) for s, (ids, text) in zip(strings, by_sentencepiece(model, strings))]
        put_rows(f"{target}/{name}.cases", rows)
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
arguments = parser.parse_args()
if arguments.golden:
    write_golden(arguments.probe, arguments.work)
else:
    check(arguments.probe, arguments.work, arguments.strings, arguments.seed)
