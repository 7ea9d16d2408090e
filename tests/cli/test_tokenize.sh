#!/usr/bin/env bash
# A tokenizer is learnt, a text becomes a token file, whatever the threads; a model trains with it and carries it along.
. "$(dirname "$0")/lib.sh"

# ids_of FILE: the ids of a token file, in a line.
ids_of() { python3 -c 'import struct, sys; raw = open(sys.argv[1], "rb").read(); head = struct.unpack("<3i", raw[:12])
print(*struct.unpack("<%d%s" % (head[2], "I" if head[0] == 20240801 else "H"), raw[1024:]))' "$1"; }

expect 0 "$ZERO" tokenizer train --vocab 400 --data "$TEXT" --out learnt
grep -q '400 tokens learnt' err.txt || fail "tokenizer train says $(cat err.txt)"
cp learnt/tokenizer.json first.json
refused 64 "--overwrite" "$ZERO" tokenizer train --vocab 400 --data "$TEXT" --out learnt
expect 0 "$ZERO" tokenizer train --vocab 400 --data "$TEXT" --out learnt --overwrite
cmp learnt/tokenizer.json first.json || fail "the same text gives another tokenizer"

# about 3 MB, so that several parts are encoded beside each other
for i in $(seq 90); do cat "$TEXT"; done >long.txt
expect 0 "$ZERO" tokenize --tokenizer learnt --data long.txt "$TEXT" --out one.bin --threads 1
expect 0 "$ZERO" tokenize --tokenizer learnt/tokenizer.json --data long.txt "$TEXT" --out three.bin --threads 3
cmp one.bin three.bin || fail "threads change the ids"
python3 - <<'PY' || fail "the token file is not what was asked for"
import json, struct
raw = open("one.bin", "rb").read()
head = struct.unpack("<256i", raw[:1024])
ids = struct.unpack(f"<{head[2]}H", raw[1024:])
note = json.load(open("one.bin.json"))
assert head[:2] == (20240520, 1) and note["tokens"] == len(ids) and note["documents"] == 2 and note["end"] == 0 and note["vocabulary"] == 400
assert max(ids) < 400 and [i for i, t in enumerate(ids) if t == 0][-1] == len(ids) - 1 and ids.count(0) == 2
vocab = json.load(open("learnt/tokenizer.json"))["model"]["vocab"]
spelled = {i: t for t, i in vocab.items()}
alphabet = [c for c in list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))]
byte_of = {chr(c): c for c in alphabet}
for n, b in enumerate(b for b in range(256) if b not in alphabet):
    byte_of[chr(256 + n)] = b
text = bytes(byte_of[c] for t in ids if t for c in spelled[t])
assert text == open("long.txt", "rb").read() + open("text.txt", "rb").read()
PY

printf 'a<|endoftext|>b' >special.txt
expect 0 "$ZERO" tokenize --tokenizer learnt --data special.txt --out text.bin
expect 0 "$ZERO" tokenize --tokenizer learnt --data special.txt --out special.bin --special
[ "$(wc -c <special.bin)" -eq $((1024 + 8)) ] || fail "a special token is not one: $(wc -c <special.bin)"
[ "$(wc -c <text.bin)" -gt $((1024 + 8)) ] || fail "text became a special token"
refused 64 "--overwrite" "$ZERO" tokenize --tokenizer learnt --data special.txt --out text.bin
refused 64 "--tokenizer is missing" "$ZERO" tokenize --data "$TEXT" --out out
refused 64 "chars" "$ZERO" tokenize --tokenizer chars --data "$TEXT" --out out
refused 64 "neither bytes nor chars" "$ZERO" tokenize --tokenizer absent --data "$TEXT" --out out
refused 74 "absent.txt" "$ZERO" tokenize --tokenizer bytes --data absent.txt --out out
refused 64 "must be train" "$ZERO" tokenizer learn
refused 64 "from 257" "$ZERO" tokenizer train --vocab 256 --data "$TEXT" --out out
SMALL=gpt2:layers=1,heads=2,width=32,context=8,vocab=400
# what a training reads is what is written: records, patterns, kinds; what a token file cannot say is refused
printf '{"text": "one<|endoftext|>", "other": "x"}\n{"text": "", "other": "two"}\n{"text": null, "other": "three"}\n{"id": 18446744073709551615, "text": "four", "other": null}\n' >r.jsonl
expect 0 "$ZERO" tokenize --tokenizer learnt --data r.jsonl special.txt --out records.bin
grep -q '2 records without text were passed over' err.txt || fail "nothing is said of empty records: $(cat err.txt)"
grep -q 'in 3 documents' err.txt || fail "documents: $(cat err.txt)"
[ "$(ids_of records.bin | tr ' ' '\n' | grep -c '^0$')" -eq 4 ] || fail "ends of documents, and the one that is spelled: $(ids_of records.bin)"
expect 0 "$ZERO" train --new $SMALL --data r.jsonl special.txt --tokenizer learnt --threads 1 --steps 2 --val none --quiet --out from-text
expect 0 "$ZERO" train --new $SMALL --data records.bin --tokenizer learnt --threads 1 --steps 2 --val none --quiet --out from-tokens
[ "$(fingerprint from-text)" = "$(fingerprint from-tokens)" ] || fail "the token file is not what a training reads of its data"
expect 0 "$ZERO" tokenize --tokenizer learnt --data r.jsonl --field other --out other.bin
[ "$(ids_of other.bin)" != "$(ids_of records.bin)" ] || fail "--field is not read"
cp "$TEXT" part-1.txt && cp special.txt part-2.txt
expect 0 "$ZERO" tokenize --tokenizer learnt --data 'part-*.txt' text:r.jsonl --out kinds.bin
grep -q 'in 3 documents' err.txt || fail "a pattern and a kind: $(cat err.txt)"
printf '{"text": "fine"}\n{"prompt": "a", "completion": "b"}\n' >masked.jsonl
refused 78 'masked.jsonl:2: a part of this record is not a target' "$ZERO" tokenize --tokenizer learnt --data masked.jsonl --out out
printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n' >chat.jsonl
refused 78 'chat.jsonl:1: a part of this record is not a target' "$ZERO" tokenize --tokenizer bytes --data chat.jsonl --chat chatml --out out
refused 78 'chat.jsonl:1: ' "$ZERO" tokenize --tokenizer learnt --data chat.jsonl --out out
refused 65 '"records.bin" holds tokens already' "$ZERO" tokenize --tokenizer learnt --data records.bin --out out
refused 64 '"text.txt:0.5" has a weight' "$ZERO" tokenize --tokenizer learnt --data text.txt:0.5 --out out
refused 65 '"records.bin" holds tokens already' "$ZERO" tokenizer train --data "$TEXT" records.bin --out out
refused 78 'chat.jsonl:1: a tokenizer is not learnt from messages' "$ZERO" tokenizer train --data chat.jsonl --out out
python3 -c 'import json; [print(json.dumps({"id": 10 ** 30, "text": line})) for line in open("text.txt", newline="").read().splitlines(True)]' >lines.jsonl
expect 0 "$ZERO" tokenizer train --vocab 400 --data lines.jsonl --out from-records
expect 0 "$ZERO" tokenizer train --vocab 400 --data lines.jsonl --field text --out by-field
cmp from-records/tokenizer.json by-field/tokenizer.json || fail "--field of a tokenizer's data"
grep -q 'pussycat' from-records/tokenizer.json || fail "records are not what is learnt from"
! grep -q '0000' from-records/tokenizer.json || fail "a tokenizer is learnt from JSON"
: >empty.txt
refused 65 "empty" "$ZERO" tokenize --tokenizer bytes --data empty.txt --out out
[ -z "$(ls | grep tmp)" ] || fail "temporaries are left: $(ls)"


# what transformers saves, with the length of 1e30 that it writes where none was set: its ids
saved=$HERE/saved_tokenizer
expect 0 "$ZERO" tokenize --tokenizer "$saved" --data "$saved/text.txt" --out saved-text.bin
expect 0 "$ZERO" tokenize --tokenizer "$saved" --data "$saved/text.txt" --out saved-special.bin --special
for mode in text special; do
    [ "$(ids_of saved-$mode.bin)" = "$(python3 -c 'import json, sys; o = json.load(open(sys.argv[1])); print(*o[sys.argv[2]], o["end"])' "$saved/ids.json" $mode)" ] ||
        fail "ids of a tokenizer that transformers saved, $mode: $(ids_of saved-$mode.bin)"
done

# a model with this tokenizer
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --tokenizer learnt --threads 1 --steps 30 --quiet --out run
for file in tokenizer.json tokenizer_config.json; do cmp learnt/$file run/model/$file || fail "$file of the model is another"; done
expect 0 "$ZERO" eval --model run/model --data "$TEXT"
grep -q bits_per_byte out.txt || fail "eval says $(cat out.txt)"
expect 0 "$ZERO" generate --model run/model --prompt "5 times" --tokens 20
[ -s out.txt ] || fail "nothing generated"
iconv -f utf-8 -t utf-8 out.txt >/dev/null || fail "what is generated is no UTF-8"
expect 0 "$ZERO" train --model run/model --data "$TEXT" --threads 1 --steps 2 --quiet --out further
# ids of special tokens: of a new model its tokenizer's, of one that is trained further its own, lists and all
ids_in() { python3 -c 'import json, sys; c = json.load(open(sys.argv[1])); print(*[json.dumps(c.get(k, "absent")) for k in ("bos_token_id", "eos_token_id", "pad_token_id")])' "$1"; }
[ "$(ids_in run/model/config.json)" = '0 0 "absent"' ] || fail "ids of a new model: $(ids_in run/model/config.json)"
cp -r run/model chatty && python3 - <<'PY'
import json
config = json.load(open("chatty/config.json"))
json.dump(dict(config, bos_token_id=1, eos_token_id=[0, 5], pad_token_id=3), open("chatty/config.json", "w"))
open("chatty/generation_config.json", "w").write('{"eos_token_id": [0, 5],  "temperature": 0.5}\n')
PY
expect 0 "$ZERO" train --model chatty --data "$TEXT" --threads 1 --steps 2 --quiet --out chattier
[ "$(ids_in chattier/model/config.json)" = '1 [0, 5] 3' ] || fail "ids of a model trained further: $(ids_in chattier/model/config.json)"
cmp chatty/generation_config.json chattier/model/generation_config.json || fail "generation_config.json is lost"
expect 0 "$ZERO" train --model chatty --tokenizer bytes --data "$TEXT" --threads 1 --steps 2 --quiet --out foreign
[ "$(ids_in foreign/model/config.json)" = 'null null "absent"' ] || fail "ids of another tokenizer: $(ids_in foreign/model/config.json)"
[ ! -e foreign/model/generation_config.json ] || fail "generation_config.json of another tokenizer"
cmp learnt/tokenizer.json further/model/tokenizer.json || fail "a model trained further has another tokenizer"
# a run goes on, and is verified, with the tokenizer that it was made with only
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --tokenizer learnt --threads 1 --steps 4 --save-every 2 --quiet --out kept
expect 0 "$ZERO" verify kept
expect 0 "$ZERO" tokenizer train --vocab 300 --data "$TEXT" --out learnt --overwrite
refused 78 "tokenizer" "$ZERO" train --new $TINY,vocab=400 --data "$TEXT" --tokenizer learnt --threads 1 --steps 6 --save-every 2 --quiet --out kept --resume
mkdir broken && head -c 2000 learnt/tokenizer.json >broken/tokenizer.json
refused 65 "broken/tokenizer.json" "$ZERO" train --new $TINY --data "$TEXT" --tokenizer broken --out out
echo "tokenizer learnt, text tokenized, model trained with it"
