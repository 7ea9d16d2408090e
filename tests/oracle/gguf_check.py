#!/usr/bin/env python3
"""GGUF files against gguf-py and llama.cpp; run by hand, it needs torch, transformers, peft, gguf and xllamacpp.

    python3 tests/oracle/gguf_check.py build/zero TEXT            every check
    python3 tests/oracle/gguf_check.py build/zero TEXT llama      those whose name begins so

 - trained NAME     a small model is trained on TEXT and written in every type. gguf-py reads the file; its dequantiser gives the values that
                    we read, its quantiser the bytes that we wrote, from tensors that are permuted here as llama.cpp's converter permutes them; what is made
                    of the f32 file again has the weights and the ids of the model. llama.cpp says the same 40 greedy tokens from f32.
 - random NAME      a model that transformers made, with settings that trained ones do not have (rope scaling, biases, windows): 40 greedy tokens
 - adapter NAME     an adapter that peft made: llama.cpp with it says what peft says
 - tokenizer NAME   llama.cpp makes the same ids of a text, for each kind of tokenizer, and so does what is made of the file again
Prints a line each; exit status 1 if one differs.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import gguf
import numpy as np
import tokenizers
import torch
import transformers
import xllamacpp
from gguf import quants
from peft import LoraConfig, get_peft_model
from safetensors.numpy import load_file
from transformers import GPT2Config, GPTNeoXConfig, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

ZERO, TEXT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ONLY = sys.argv[3] if len(sys.argv) > 3 else ""
SIZES = "layers=3,heads=4,width=64,context=128"
TRAINED = {"gpt2": f"gpt2:{SIZES}", "llama": f"llama:kv_heads=2,{SIZES}", "llama untied": f"llama:kv_heads=2,tied=0,{SIZES}", "mistral": f"mistral:kv_heads=2,{SIZES}",
           "qwen2": f"qwen2:kv_heads=2,{SIZES}", "qwen3": f"qwen3:kv_heads=2,head_dim=32,{SIZES}", "neox": f"pythia-14m:{SIZES}",
           "llama odd": "llama:layers=2,heads=3,kv_heads=1,width=48,inner=80,context=128"}
SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             bos_token_id=None, eos_token_id=None, pad_token_id=None, initializer_range=0.2)
NEOX = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
LLAMA3 = dict(rope_theta=1000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_theta=10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
LINEAR = dict(rope_theta=10000.0, rope_type="linear", factor=4.0)
RANDOM = {
    "gpt2": lambda v: GPT2Config(vocab_size=v, n_positions=256, n_embd=64, n_layer=3, n_head=4, n_inner=96, initializer_range=0.2, bos_token_id=None, eos_token_id=None),
    "llama biased": lambda v: LlamaConfig(vocab_size=v, attention_bias=True, mlp_bias=True, **SMALL),
    "llama3 rope": lambda v: LlamaConfig(vocab_size=v, rope_parameters=LLAMA3, **SMALL),
    "linear rope": lambda v: LlamaConfig(vocab_size=v, rope_parameters=LINEAR, **SMALL),
    "yarn rope": lambda v: LlamaConfig(vocab_size=v, rope_parameters=YARN, **SMALL),
    "yarn factor": lambda v: LlamaConfig(vocab_size=v, rope_parameters={**YARN, "attention_factor": 1.3}, **SMALL),
    "mistral window": lambda v: MistralConfig(vocab_size=v, sliding_window=128, head_dim=32, **SMALL),
    "qwen2 yarn": lambda v: Qwen2Config(vocab_size=v, tie_word_embeddings=True, rope_parameters=YARN, **SMALL),
    "qwen3": lambda v: Qwen3Config(vocab_size=v, head_dim=32, tie_word_embeddings=False, **SMALL),
    "neox": lambda v: GPTNeoXConfig(vocab_size=v, **NEOX),
    "neox tied": lambda v: GPTNeoXConfig(vocab_size=v, tie_word_embeddings=True, rotary_pct=0.5, **NEOX),
}
PROMPT = "First Citizen:"
failures = 0


def zero(*arguments):
    done = subprocess.run([ZERO, *arguments], capture_output=True, text=True, timeout=580)
    if done.returncode:
        raise SystemExit(f"zero {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def say(name, good, text):
    global failures
    failures += not good
    print(f"{name:24} {'ok' if good else 'DIFFERS'}  {text}", flush=True)


def llama_server(path, adapter=None):
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 128
    params.cpuparams.n_threads = 2
    params.warmup = False
    params.verbosity = -1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    if adapter:
        lora = xllamacpp.CommonAdapterLoraInfo(adapter, 1.0)
        params.lora_adapters = [lora]
    return xllamacpp.Server(params)


def llama_ids(path, text):
    server = llama_server(path)
    request = urllib.request.Request(f"{server.listening_address}/tokenize", json.dumps({"content": text, "add_special": True}).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))["tokens"]


def llama_says(path, prompt, count=40, adapter=None):
    server = llama_server(path, adapter)
    answer = server.handle_completions({"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True, "seed": 1, "return_tokens": True, "n_probs": 0})
    answer = json.loads(answer) if isinstance(answer, str) else answer
    return answer.get("content") or answer["choices"][0]["text"]


def zero_says(model, prompt=PROMPT, count=40):
    answer = zero("generate", "--model", model, "--prompt", prompt, "--tokens", str(count), "--temperature", "0", "--dtype", "fp32", "--ignore-end", "--json")
    return json.loads(answer.splitlines()[0])["text"]


def same_begin(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def permute(weights, heads):  # as conversion/llama.py
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def expected(model, config, name):
    """The tensor of GGUF's name as llama.cpp's converter makes it of the model's files."""
    kind = config["model_type"]
    heads, kv = config.get("num_attention_heads", config.get("n_head")), config.get("num_key_value_heads")
    head_dim = config.get("head_dim") or config.get("hidden_size", config.get("n_embd")) // heads
    architecture = {"gpt2": gguf.MODEL_ARCH.GPT2, "gpt_neox": gguf.MODEL_ARCH.GPTNEOX, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3}.get(kind, gguf.MODEL_ARCH.LLAMA)
    names = gguf.get_tensor_name_map(architecture, 8)
    for key, value in model.items():
        bare = key.replace("transformer.", "")
        found = names.get_name(bare, try_suffixes=(".weight", ".bias")) or names.get_name(key, try_suffixes=(".weight", ".bias"))
        if found != name and not (name == "output.weight" and kind == "gpt_neox" and key == "gpt_neox.embed_in.weight" and "embed_out.weight" not in model):
            continue
        if kind == "gpt2" and value.ndim == 2 and ".h." in key:
            value = value.T
        if kind in ("llama", "mistral") and (".q_proj" in key or ".k_proj" in key):
            value = permute(value, heads if ".q_proj" in key else kv or heads)
        if kind == "gpt_neox" and "query_key_value" in key:
            parts = value.reshape(heads, 3, head_dim, -1)
            value = np.concatenate([parts[:, p].reshape(heads * head_dim, -1) for p in range(3)]).reshape(value.shape)
        return np.ascontiguousarray(value)
    raise SystemExit(f"{name}: no tensor of the model is called so")


def check_file(path, model, config):
    """Compares every tensor of the file with gguf-py's quantiser and returns how many are of which type."""
    kinds = {}
    for tensor in gguf.GGUFReader(path).tensors:
        kinds[tensor.tensor_type.name] = kinds.get(tensor.tensor_type.name, 0) + 1
        if tensor.name == "rope_freqs.weight":
            continue
        want = expected(model, config, tensor.name)
        if tensor.data.tobytes() != quants.quantize(want, tensor.tensor_type).tobytes():
            return f"{path}: {tensor.name} ({tensor.tensor_type.name}) has other bytes than gguf-py's quantiser makes"
    return " ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def check_back(path, model):
    """What we read of a file, against what gguf-py's dequantiser makes of it, by writing both as f32 again."""
    shutil.rmtree("back", ignore_errors=True)
    zero("convert", "--from", path, "--to", "back")
    zero("convert", "--from", "back", "--to", "again.gguf", "--type", "f32", "--overwrite")
    first, second = gguf.GGUFReader(path).tensors, gguf.GGUFReader("again.gguf").tensors
    wide = {t.name: t.data for t in second}
    for tensor in first:
        if not np.array_equal(quants.dequantize(tensor.data, tensor.tensor_type).reshape(-1), wide[tensor.name].reshape(-1)):
            return f"{tensor.name} of {path} is read with other values"
    if path == "f32.gguf":
        back = load_file("back/model.safetensors")
        for name, value in model.items():
            if name not in back or not np.array_equal(back[name], value):
                return f"{name} comes back with other values"
    return None


def trained(name, spec):
    for place in ("run",):
        shutil.rmtree(place, ignore_errors=True)
    zero("train", "--data", TEXT, "--val", "none", "--out", "run", "--quiet", "--new", spec, "--tokenizer", "tokenizer", "--threads", "2", "--micro-batch", "8", "--steps", "150", "--seed", "5",
         "--lr", "3e-3")
    model, config = load_file("run/model/model.safetensors"), json.load(open("run/model/config.json"))
    ours, texts, kinds = zero_says("run/model"), {}, {}
    for type_ in ("f32", "f16", "bf16", "q8_0", "q4_0"):
        path = f"{type_}.gguf"
        zero("convert", "--from", "run/model", "--to", path, "--type", type_, "--overwrite")
        kinds[type_] = check_file(path, model, config)
        problem = check_back(path, model)
        if problem:
            kinds[type_] = problem
        texts[type_] = llama_says(path, PROMPT)
    zero("tokenize", "--tokenizer", "run/model", "--data", TEXT, "--out", "a.bin", "--overwrite")
    zero("tokenize", "--tokenizer", "back", "--data", TEXT, "--out", "b.bin", "--overwrite")
    ids = open("a.bin", "rb").read() == open("b.bin", "rb").read()
    good = texts["f32"] == ours and ids and not any("has other" in k or "is read" in k or "comes back" in k for k in kinds.values())
    say(f"trained {name}", good, f"f32 {same_begin(texts['f32'], ours)} of {len(ours)} characters, " +
        ", ".join(f"{t} {same_begin(texts[t], ours)}" for t in texts if t != "f32") + f"; {kinds['q8_0']}; ids {'same' if ids else 'DIFFER'}")


def make_random(config, place):
    torch.manual_seed(2)
    shutil.rmtree(place, ignore_errors=True)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(place)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(f"tokenizer/{file}", place)
    return model


def random(name, make):
    make_random(make(600), "random")
    zero("convert", "--from", "random", "--to", "random.gguf", "--type", "f32", "--overwrite")
    shutil.rmtree("back", ignore_errors=True)
    zero("convert", "--from", "random.gguf", "--to", "back")
    ours, theirs, back = zero_says("random"), llama_says("random.gguf", PROMPT), zero_says("back")
    say(f"random {name}", ours == theirs == back, f"{same_begin(ours, theirs)} of {len(ours)} characters; read back {same_begin(ours, back)}")


def adapter(name, make, targets):
    model = make_random(make(600), "base")
    torch.manual_seed(2)
    for rslora in (False, True):
        shutil.rmtree("adapter", ignore_errors=True)
        tuned = get_peft_model(transformers.AutoModelForCausalLM.from_pretrained("base"),
                               LoraConfig(r=8, lora_alpha=16, target_modules=targets, use_rslora=rslora, task_type="CAUSAL_LM", init_lora_weights=False))
        tuned.save_pretrained("adapter")
        shutil.rmtree("merged", ignore_errors=True)
        tuned.merge_and_unload().save_pretrained("merged")
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"tokenizer/{file}", "merged")
        zero("convert", "--from", "base", "--to", "base.gguf", "--type", "f32", "--overwrite")
        zero("convert", "--from", "adapter", "--base", "base", "--to", "adapter.gguf", "--overwrite")
        plain, merged, theirs = llama_says("base.gguf", PROMPT), zero_says("merged"), llama_says("base.gguf", PROMPT, adapter="adapter.gguf")
        say(f"adapter {name}{' rslora' * rslora}", theirs == merged != plain, f"{same_begin(theirs, merged)} of {len(merged)} characters, {same_begin(plain, merged)} without it")


GPT2_WORDS = "'s|'t|'re|'ve|'m|'ll|'d"
LLAMA_CUT = f"(?i:{GPT2_WORDS})|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+|\\p{{N}}NUMBERS| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
SAMPLE = "  Hello, World!  It's 1234567 o'clock --\n\n\tNaïve café, déjà vu: 你好 😀 x=3.14;\r\n  I'LL we'Ve DON'T  \n end "


def byte_level(cut, ignore_merges=False, begin=False):
    pre = tokenizers.pre_tokenizers
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=ignore_merges))
    if cut == "smollm":
        parts = [pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False, use_regex=True)]
    elif cut:
        parts = [pre.Split(tokenizers.Regex(LLAMA_CUT.replace("NUMBERS", cut.replace("{1}", ""))), "isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)]
    else:
        parts = [pre.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre.Sequence(parts)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=600, special_tokens=["<|end|>", "<|begin|>"], initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train([TEXT], trainer)
    if begin:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A $B", special_tokens=[("<|begin|>", 1)])
    return json.loads(tokenizer.to_str()), "<|begin|>", "<|end|>"


def by_scores(prepend):
    """SentencePiece's BPE as transformers converts it: merges are all pairs of tokens that make one, the token of the highest score first."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always" if prepend else "never", split=True)
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train([TEXT], tokenizers.trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False))
    file = json.loads(tokenizer.to_str())
    vocabulary = file["model"]["vocab"]
    merges = []
    for token, number in vocabulary.items():
        pairs = [(vocabulary[token[:cut]], vocabulary[token[cut:]], token[:cut], token[cut:]) for cut in range(1, len(token)) if token[:cut] in vocabulary and token[cut:] in vocabulary]
        merges += [(number, a, b) for _, _, a, b in sorted(pairs) if token not in special]
    file["model"]["merges"] = [[a, b] for _, a, b in sorted(merges, key=lambda m: m[0])]
    file["pre_tokenizer"] = None
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    file["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace] if prepend else [replace]}
    back = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    file["decoder"] = {"type": "Sequence", "decoders": back + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * prepend}
    file["added_tokens"] = [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i, t in enumerate(special[:3])]
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    file["post_processor"] = {"type": "TemplateProcessing", "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
                              "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return file, "<s>", "</s>"


TOKENIZERS = {"gpt-2": lambda: byte_level(""), "llama-bpe": lambda: byte_level("{1,3}", True, True), "smaug-bpe": lambda: byte_level("{1,3}"), "qwen2": lambda: byte_level("{1}"), "qwen2 begin": lambda: byte_level("{1}", False, True),
              "smollm": lambda: byte_level("smollm"), "scores": lambda: by_scores(True), "scores bare": lambda: by_scores(False), "bytes": None}


def ids_of(place):
    open("sample.txt", "w", newline="").write(SAMPLE)
    zero("tokenize", "--tokenizer", place, "--data", "sample.txt", "--out", "sample.bin", "--overwrite")
    return np.fromfile("sample.bin", dtype=np.uint16)[512:].tolist()  # after llm.c's head of 1,024 bytes


def tokenizer(name, make):
    shutil.rmtree("tk", ignore_errors=True)
    os.mkdir("tk")
    begin = False
    if name == "bytes":
        place = "bytes"
    else:
        place = "tk"
        file, begin_token, end = make()
        begin = file["post_processor"] and file["post_processor"]["type"] == "TemplateProcessing"
        json.dump(file, open("tk/tokenizer.json", "w"))
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": begin_token, "eos_token": end}, open("tk/tokenizer_config.json", "w"))
    shutil.rmtree("run", ignore_errors=True)
    zero("train", "--data", TEXT, "--val", "none", "--out", "run", "--quiet", "--new", "llama:layers=1,heads=2,width=32,context=64", "--tokenizer", place, "--steps", "1", "--threads", "1", "--micro-batch", "1")
    zero("convert", "--from", "run/model", "--to", "tk.gguf", "--overwrite")
    shutil.rmtree("back", ignore_errors=True)
    zero("convert", "--from", "tk.gguf", "--to", "back")
    ours, back, theirs = ids_of("run/model"), ids_of("back"), llama_ids("tk.gguf", SAMPLE)
    if begin:
        ours = [1] + ours
        back = [1] + back
    count = len(theirs)  # ours have the end token behind
    pre = gguf.GGUFReader("tk.gguf").fields.get("tokenizer.ggml.pre")
    say(f"tokenizer {name}", ours[:count] == theirs and len(ours) - count <= 1 and ours == back,
        f"{pre.contents() if pre else 'scores'}: {count} ids, {same_begin(ours, theirs)} the same; read back {same_begin(ours, back)} of {len(ours)}")


def main():
    os.chdir(tempfile.mkdtemp())
    zero("tokenizer", "train", "--vocab", "600", "--data", TEXT, "--out", "tokenizer")
    for name, spec in TRAINED.items():
        if f"trained {name}".startswith(ONLY) or name.startswith(ONLY):
            trained(name, spec)
    for name, make in RANDOM.items():
        if f"random {name}".startswith(ONLY):
            random(name, make)
    for name, make in TOKENIZERS.items():
        if f"tokenizer {name}".startswith(ONLY):
            tokenizer(name, make)
    for name, make, targets in (("llama", RANDOM["llama biased"], ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj"]),
                                ("gpt2", RANDOM["gpt2"], ["c_attn", "c_proj", "c_fc"]), ("neox", RANDOM["neox"], ["query_key_value", "dense_h_to_4h"])):
        if f"adapter {name}".startswith(ONLY):
            adapter(name, make, targets)
    return failures > 0


sys.exit(main())
