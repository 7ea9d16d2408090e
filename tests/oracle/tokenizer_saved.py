"""Writes tests/cli/saved_tokenizer: what save_pretrained of transformers 5 writes of a tokenizer whose length nobody set, with a text and its ids.

    python tests/oracle/tokenizer_saved.py tests/cli/saved_tokenizer
"""
import json
import os
import sys

import tokenizers
import transformers

TEXT = "The owl and the pussycat went to sea<|user|>in a beautiful pea-green boat. They took some honey,\n and plenty of money;  wrapped up in a 5 pound note.\n"
ADDED = ["<|user|>", "<|pad|>"]


def main():
    out = sys.argv[1]
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    made.train_from_iterator([TEXT], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>", bos_token="<|endoftext|>", pad_token="<|pad|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|user|>"]})
    fast.save_pretrained(out)
    again = transformers.AutoTokenizer.from_pretrained(out)
    with open(os.path.join(out, "text.txt"), "w") as file:
        file.write(TEXT)
    with open(os.path.join(out, "ids.json"), "w") as file:
        json.dump({"special": again(TEXT)["input_ids"], "text": again(TEXT, split_special_tokens=True)["input_ids"], "end": again.eos_token_id, "vocabulary": len(again)}, file)
        file.write("\n")
    print(transformers.__version__, sorted(os.listdir(out)))


main()
