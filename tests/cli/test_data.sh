#!/usr/bin/env bash
# Data of every kind on the command line: shown, trained on, resumed, evaluated; what is wrong with it, by file and line.
. "$(dirname "$0")/lib.sh"
unset NO_COLOR
TINY=${TINY/context=32/context=96} # an example fits
learn() { expect 0 "$ZERO" train --new $TINY --threads 1 --quiet "$@"; }
cat >chat.jsonl <<'END'
{"messages": [{"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "Four."}]}
{"prompt": "The owl is", "completion": " wise."}

{"text": "A record of plain text that counts as a whole, because nothing in it is a prompt."}
END
python3 - <<'PY'
import struct, json, random
random.seed(1)
ids = [random.randrange(60) for _ in range(3000)]
open("tokens.bin", "wb").write(struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + struct.pack("<%dH" % len(ids), *ids))
open("nano.bin", "wb").write(struct.pack("<%dH" % len(ids), *ids))
open("high.bin", "wb").write(struct.pack("<%dH" % len(ids), *(ids[:1234] + [777] + ids[1235:])))
with open("many.jsonl", "w") as f, open("fields.jsonl", "w") as both:
    for i in range(300):
        record = {"messages": [{"role": "user", "content": "%d plus %d?" % (i % 9, i % 7)}, {"role": "assistant", "content": "It is %d." % (i % 9 + i % 7)}]}
        f.write(json.dumps(record) + "\n")
        both.write(json.dumps(dict(record, text="sum %d" % i)) + "\n")
PY

# The same records as lines, as an array, and under other names: the same tokens, so that a run goes on with either.
python3 - <<'PY'
import json
turns = [("%d plus %d?" % (i % 9, i % 7), "It is %d." % (i % 9 + i % 7)) for i in range(300)]
def put(name, records): open(name, "w").write(json.dumps(records, indent=2))
put("array.json", [json.loads(line) for line in open("many.jsonl")])
put("sharegpt.json", [{"conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": a}]} for q, a in turns])
put("alpaca.json", [{"instruction": q, "input": "", "output": a} for q, a in turns])
put("mapped.json", [{"asked": {"first": q}, "said": a, "text": "not read"} for q, a in turns])
PY
learn --data many.jsonl --chat chatml --steps 4 --save-every 2 --out lines
for shape in array.json sharegpt.json alpaca.json "mapped.json --map user=asked.first,assistant=said"; do
    rm -rf shape
    # shellcheck disable=SC2086 # a file and its options
    learn --data $shape --chat chatml --steps 4 --save-every 2 --out shape
    [ "$(fingerprint lines)" = "$(fingerprint shape)" ] || fail "$shape: other tokens than those of lines"
done
# Parquet: its rows are the lines of the file next to it.
cp "$HERE"/../data/parquet/messages.* .
cp messages.parquet rows
for file in messages.jsonl messages.parquet rows; do
    rm -rf parquet
    learn --data $file --chat chatml --seq 24 --steps 3 --out parquet
    fingerprint parquet >$file.print
    cmp -s messages.jsonl.print $file.print || fail "$file: other tokens than those of lines"
done
refused 65 'messages.parquet: row 1: the record has no field "body" (--field); it has "id", "messages"' "$ZERO" data show --data messages.parquet --field body

# The same, compressed, whatever the name says.
gzip <array.json >array.json.gz
python3 -c "import gzip; open('renamed.json', 'wb').write(gzip.compress(open('array.json', 'rb').read()))"
for file in array.json.gz renamed.json; do
    if ! "$ZERO" data show --data $file --chat chatml >/dev/null 2>err.txt; then
        grep -qF 'was built without zlib: unpack it first (gunzip)' err.txt || fail "$file: $(cat err.txt)"
        continue
    fi
    learn --data $file --chat chatml --steps 4 --save-every 2 --overwrite --out packed
    [ "$(fingerprint lines)" = "$(fingerprint packed)" ] || fail "$file: other tokens than those of lines"
done
grep -q '"field": "user=asked.first,assistant=said"' shape/config.json || fail "the map is not recorded: $(cat shape/config.json)"
expect 0 "$ZERO" verify shape
expect 0 "$ZERO" train --new $TINY --threads 1 --quiet --data array.json --chat chatml --steps 6 --out lines --resume
expect 0 "$ZERO" data show --data alpaca.json --seq 300 --micro-batch 1
grep -qF '### Response:' out.txt && grep -q '300 records of a question and its answer are written as text' err.txt || fail "without a template: $(cat out.txt err.txt)"
refused 64 'only one of them can be given' "$ZERO" data show --data mapped.json --field said --map text=said
refused 64 'it must be KEY=FIELD' "$ZERO" data show --data mapped.json --map said
refused 64 'must be those of one shape of records' "$ZERO" data show --data mapped.json --map user=said
refused 65 'mapped.json:2: the record has no field "say" (--map assistant=say)' "$ZERO" data show --data mapped.json --map user=asked.first,assistant=say

# The first batch as text: prompts in brackets, dim on a terminal.
expect 0 "$ZERO" data show --data chat.jsonl --chat chatml --seq 170 --micro-batch 1
[ "$(grep -cF 'The loss does not count what is in [brackets]' out.txt)" -eq 1 ] || fail "no legend: $(head -3 out.txt)"
grep -qxF ']Four.<|im_end|>' out.txt || fail "what the assistant says: $(cat out.txt)"
grep -qxF '[A] record of plain text that counts as a whole, because nothing in it is a prompt.' out.txt || fail "the text: $(cat out.txt)"
[ "$(grep -cxF '~~~ the next example, which does not see this one' out.txt)" -eq 1 ] || fail "where an example begins: $(cat out.txt)"
grep -qxF -- '--- sample 0: chat.jsonl, window 0 of 2, whole examples: 2, empty rows: 12; 96 of 170 targets count ---' out.txt ||
    fail "the sample's line: $(cat out.txt)"
expect 0 "$ZERO" data show --data chat.jsonl --chat chatml --seq 170 --micro-batch 2
grep -qxF '[The owl is] wise.' out.txt || fail "the completion: $(cat out.txt)"
# As a stream, examples are cut where windows end, and each sees those before it.
expect 0 "$ZERO" data show --data chat.jsonl --chat chatml --seq 170 --micro-batch 1 --attention causal
grep -qF 'Four.<|im_end|>[' out.txt && grep -qF 'The owl is] wise.' out.txt || fail "a stream: $(cat out.txt)"
grep -qE '^--- sample 0: chat.jsonl, tokens [0-9]+ to [0-9]+ of [0-9]+; [0-9]+ of 170 targets count ---$' out.txt || fail "the stream's line: $(cat out.txt)"
expect 0 "$ZERO" data show --data fields.jsonl --field text --seq 60 --micro-batch 1 --attention document
grep -q 'fields.jsonl, window [0-9]* of [0-9]*, whole examples: [2-9]' out.txt || fail "texts as examples: $(cat out.txt)"
expect 0 "$ZERO" data show --data "$TEXT:0.5" many.jsonl:0.5 --chat chatml --seq 80 --micro-batch 8
[ "$(grep -c '^--- sample .*many.jsonl' out.txt)" -eq 4 ] || fail "half of the samples: $(grep sample out.txt)"
# As JSON the same samples: the text has the marks that each part is written with, and as many tokens count as its line says.
shown() { # shown ARGUMENT...: shows data as text and as JSON
    expect 0 "$ZERO" data show "$@"
    mv out.txt shown.txt
    expect 0 "$ZERO" data show "$@" --json
    python3 - <<'PY' || fail "as JSON: $(cat out.txt)"
import json
legend = "The loss does not count what is in [brackets]; a new line follows each end token.\n\n"
samples, said = [json.loads(line) for line in open("out.txt", encoding="utf-8")], []
for s in samples:
    packed = "window" in s
    place = ", window {window} of {windows}, whole examples: {examples}, empty rows: {empty}" if packed else ", tokens {first} to {last} of {data_tokens}"
    head = ("--- sample {sample}: {data}" + place + "; {targets} of {seq} targets count ---\n").format(**s)
    parts = [p["text"] + "\n" if p["end"] else p["text"] if p["target"] or not p["text"] else "[%s]" % p["text"] for p in s["parts"]]
    for i, p in enumerate(s["parts"]):
        assert packed or "begins" not in p
        if p.get("begins") and i:
            parts[i] = "\n~~~ the next example, which does not see this one\n" + parts[i]
    assert not packed or sum(p.get("begins", False) for p in s["parts"]) == s["examples"]
    said.append(head + "".join(parts) + "\n")
    assert sum(len(p["tokens"]) for p in s["parts"] if p["target"]) == s["targets"]
    assert (packed or s["last"] - s["first"] == s["seq"]) and not s["parts"][0]["target"]
    assert all(len(p["tokens"]) == 1 for p in s["parts"] if p["end"])
    if not any(p["end"] for p in s["parts"]): # of bytes: a token is a byte of the text
        assert all(bytes(p["tokens"]).decode() == p["text"] for p in s["parts"])
assert sum(s["targets"] for s in samples) > 0
assert open("shown.txt", encoding="utf-8", newline="").read() == legend + "\n".join(said)
PY
}
shown --data chat.jsonl --chat chatml --seq 170 --micro-batch 3
shown --data "$TEXT:0.5" many.jsonl:0.5 --chat chatml --seq 80 --micro-batch 8
shown --data fields.jsonl --field text --tokenizer "$HERE/saved_tokenizer" --seq 60 --micro-batch 2 # whose documents end with a token
grep -q '"target":true,"end":true,"tokens":\[[0-9]*\],"text":"<' out.txt || fail "no end token: $(cat out.txt)"
if command -v script >/dev/null; then
    script -qc "'$ZERO' data show --data chat.jsonl --chat chatml --seq 170 --micro-batch 1" /dev/null </dev/null >tty.txt
    grep -qF "not $(printf '\033[2mdimmed')" tty.txt || fail "no legend on a terminal: $(cat -v tty.txt)"
    grep -qF "$(printf '\033[2m')" tty.txt || fail "a terminal, but nothing is dim: $(cat -v tty.txt)"
    NO_COLOR=1 script -qc "'$ZERO' data show --data chat.jsonl --chat chatml --seq 170 --micro-batch 1" /dev/null </dev/null >tty.txt
    ! grep -qF "$(printf '\033')" tty.txt || fail "NO_COLOR is not kept"
fi

# A mixture of all kinds: the same bits on one rank and two, and after a kill in between.
MIX=("$TEXT:2" many.jsonl:1.5 tokens.bin:1)
learn --data "${MIX[@]}" --chat chatml --steps 30 --micro-batch 2 --accumulation 2 --eval-every 10 --out one
learn --data "${MIX[@]}" --chat chatml --steps 30 --micro-batch 2 --ranks 2 --stage 3 --eval-every 10 --out two
[ "$(fingerprint one)" = "$(fingerprint two)" ] || fail "two ranks read something else than one"
learn --data "${MIX[@]}" --chat chatml --steps 30 --micro-batch 2 --accumulation 2 --eval-every 10 --save-every 7 --keep 0 --out cut
rm -rf cut/model cut/best cut/checkpoints/step-0000002* cut/checkpoints/latest
learn --data "${MIX[@]}" --chat chatml --steps 30 --micro-batch 2 --accumulation 2 --eval-every 10 --save-every 7 --keep 0 --resume --out cut
[ "$(fingerprint one)" = "$(fingerprint cut)" ] || fail "a run that was resumed read something else"
hash_of() { grep -o '"data_hash": "[^"]*"' "$1/config.json"; }
[ "$(hash_of one)" = "$(hash_of two)" ] || fail "the data's hash"
learn --data "$TEXT:2" many.jsonl:1.25 tokens.bin:1 --chat chatml --steps 2 --out other
[ "$(hash_of one)" != "$(hash_of other)" ] || fail "the hash does not cover the weights"
# Whatever makes other tokens of the same files: a run does not go on with them, and goes on without.
going=("$ZERO" train --new $TINY --threads 1 --quiet --save-every 3 --micro-batch 2)
expect 0 "${going[@]}" --steps 6 --data fields.jsonl --chat chatml --out going
for other in "--chat llama3" "--chat chatml --field text" "--chat chatml --val none" "--chat chatml --val $TEXT"; do
    expect 78 "${going[@]}" --steps 9 --data fields.jsonl $other --out going --resume
    grep -q 'it would go on with other text' err.txt || fail "$other: $(cat err.txt)"
done
expect 0 "${going[@]}" --steps 9 --data fields.jsonl --chat chatml --out going --resume
expect 0 "$ZERO" verify going
cp -r "$HERE/saved_tokenizer" named && sed -i 's/"eos_token": .*/"eos_token": "<|user|>",/' named/tokenizer_config.json
expect 0 "${going[@]}" --steps 6 --data fields.jsonl --field text --tokenizer "$HERE/saved_tokenizer" --out ended
expect 78 "${going[@]}" --steps 9 --data fields.jsonl --field text --tokenizer named --out ended --resume
grep -q '"chat": "chatml"' one/config.json || fail "the format of messages is not recorded"

# Learns the answers, not the questions.
expect 0 "$ZERO" train --new $TINY --data many.jsonl --chat chatml --threads 1 --steps 5 --out said
grep -q 'of the tokens are prompt, which the loss does not count; messages as chatml' out.txt || fail "what is masked is not said: $(head -5 out.txt)"
learn --data many.jsonl --chat chatml --steps 150 --lr 5e-3 --out answers
expect 0 "$ZERO" eval --model answers/model --data many.jsonl --chat chatml --threads 1
python3 - <<'PY' || fail "measures of the answers: $(cat out.txt)"
m = dict((k, float(v)) for k, v in (line.split() for line in open("out.txt")))
assert list(m) == ["loss", "perplexity", "bits_per_byte"] and m["loss"] < 1.5 # questions are not to be guessed so well
PY
# Each window's targets count once each, in whatever batches: the mean over tokens, not over windows.
cp out.txt batch.txt
expect 0 "$ZERO" run --ranks 2 "$ZERO" eval --model answers/model --data many.jsonl --chat chatml --threads 1
cmp out.txt batch.txt || fail "two ranks measure something else than one"

# So it is in training: however the windows of a step are cut into ranks and micro-batches, it is the same step.
i=0
for cut in "1 1 8" "1 8 1" "2 2 2"; do
    read -r ranks accumulation micro <<<"$cut"
    learn --data many.jsonl --chat chatml --steps 3 --val none --ranks "$ranks" --accumulation "$accumulation" --micro-batch "$micro" --out cut$((i++))
done
python3 - <<'PY' || fail "losses depend on how a batch is cut"
import json
a, *others = [[json.loads(line) for line in open("cut%d/metrics.jsonl" % i)] for i in range(3)]
for b in others:
    for x, y in zip(a, b, strict=True):
        assert all(abs(x[k] - y[k]) < 1e-4 * abs(x[k]) for k in ("loss", "grad_norm")), (x, y)
PY

# Patterns, kinds, token files; files whose names look like arguments.
mkdir parts && split -b 9000 "$TEXT" parts/x-
expect 0 "$ZERO" train --new $TINY --data 'parts/x-*' --tokenizer chars --threads 1 --steps 5 --quiet --out pattern
learn --data "$TEXT" --tokenizer chars --steps 5 --out joined
[ "$(fingerprint pattern)" = "$(fingerprint joined)" ] || fail "parts of a text are another text"
cp "$TEXT" a.txt:0.5
learn --data a.txt:0.5 --tokenizer chars --steps 5 --out colon
[ "$(fingerprint colon)" = "$(fingerprint joined)" ] || fail "a file with a colon in its name"
learn --data tokens.bin --steps 5 --out llmc
learn --data nano.bin --steps 5 --out nano
learn --data nanogpt:nano.bin --steps 5 --out nano2
[ "$(fingerprint llmc)" = "$(fingerprint nano)" ] && [ "$(fingerprint nano2)" = "$(fingerprint nano)" ] || fail "the same tokens in two formats"

# A model without a tokenizer: its loss on tokens needs none, text needs one that is named.
mkdir bare && cp nano/model/config.json nano/model/model.safetensors bare
expect 0 "$ZERO" eval --model nano --data nano.bin --threads 1
grep -v bits_per_byte out.txt >loss.txt
expect 0 "$ZERO" eval --model bare --data nanogpt:nano.bin --threads 1 --ranks 2
cmp out.txt loss.txt || fail "without a tokenizer tokens have another loss"
refused 74 'no tokenizer.json in "bare"; --tokenizer says which one' "$ZERO" eval --model bare --data nano.bin "$TEXT" --threads 1
refused 74 'no tokenizer.json in "bare"; --tokenizer says which one' "$ZERO" data show --model bare --data nano.bin
refused 64 'would number the characters of this text' "$ZERO" eval --model bare --data "$TEXT" --tokenizer chars --threads 1
expect 0 "$ZERO" eval --model nano --data "$TEXT" --threads 1
mv out.txt loss.txt
for tokenizer in bytes nano/model; do
    expect 0 "$ZERO" eval --model bare --data "$TEXT" --threads 1 --tokenizer $tokenizer
    cmp out.txt loss.txt || fail "--tokenizer $tokenizer is another one than the model's"
done

cp "$TEXT" text.bin
learn --data text:text.bin --tokenizer chars --steps 5 --out text
[ "$(fingerprint text)" = "$(fingerprint joined)" ] || fail "text: before a name"

zt() { local code=$1 words=$2; shift 2; refused "$code" "$words" "$ZERO" train --new $TINY --steps 2 --threads 1 --quiet --out out "$@"; }
bad() { printf '{"text": "fine"}\n%s\n' "$1" >bad.jsonl; zt 65 "$2" --data bad.jsonl; }
bad '{"text": }' 'bad.jsonl:2:'
bad '{"text": 7}' 'bad.jsonl:2: the field "text" is a number'
bad '{"body": "x"}' 'it has "body"'
bad $'{"text": "\xff"}' 'bad.jsonl:2:'
bad '' 'bad.jsonl: 5 tokens, fewer than the 97'
echo '{"prompt": "a", "chosen": "b", "rejected": "c"}' >pairs.jsonl
zt 78 'pairs.jsonl:1: the record has "chosen": training on pairs of answers' --data pairs.jsonl
zt 65 'bad.jsonl:1: the record has no field "body" (--field)' --data bad.jsonl --field body
zt 78 'chat.jsonl:1: messages need a chat template' --data chat.jsonl
zt 65 '"high.bin": token 1234 has the id 777' --data high.bin
zt 64 'either all data have one or none has' --data "$TEXT:1" chat.jsonl
zt 64 'must be a number above 0' --data "$TEXT:0"
zt 64 'matches no file' --data 'nothing-*.txt'
zt 64 'it must be one of' --data chat.jsonl --chat alpaca
zt 65 'tokens.bin:1:1: ' --data jsonl:tokens.bin
refused 64 'what to do with them?' "$ZERO" data --data chat.jsonl
refused 64 'no data' "$ZERO" data show

# A format whose marks are no tokens: refused before anything is tokenised.
expect 0 "$ZERO" tokenizer train --vocab 300 --data "$TEXT" --out plain
refused 64 'chat format llama3 needs the tokens <|start_header_id|>, <|end_header_id|>, <|eot_id|>, which the tokenizer lacks' \
    "$ZERO" train --new $TINY --tokenizer plain --data many.jsonl --chat llama3 --threads 1 --quiet --steps 1 --out out
refused 64 'needs the tokens <|im_start|>, <|im_end|>' "$ZERO" data show --tokenizer plain --data many.jsonl --chat chatml

# The export of a format that was named holds its template.
learn --data many.jsonl --chat chatml --steps 1 --val none --out named
grep -qF '<|im_start|>' named/model/chat_template.jinja || fail "no template: $(ls named/model)"
expect 0 "$ZERO" data show --data many.jsonl --model named/model --chat chatml --seq 32 --micro-batch 1
cp out.txt chatml.txt
expect 0 "$ZERO" data show --data many.jsonl --model named/model --seq 32 --micro-batch 1
cmp out.txt chatml.txt || fail "the export's own template is another"

# Windows that are all prompt: said before the first step, on each step's line, and at the end; a text without targets has no loss.
python3 -c "
import json
for i in range(6): print(json.dumps({'prompt': 'q ' * 400, 'completion': 'a'}))" >long.jsonl
echo '{"csv_monitor": {"enabled": true, "output_path": "csv", "job_name": "idle"}}' >csv.json
expect 0 "$ZERO" train --new $TINY --threads 1 --data long.jsonl --val long.jsonl --steps 3 --micro-batch 1 --out idle --config csv.json
cat out.txt err.txt >all.txt
grep -qE '[0-9]+ of [0-9]+ windows of [0-9]+ tokens have no target, only prompt' all.txt || fail "no warning at the start: $(cat all.txt)"
grep -qE 'step +[0-9]+/3 .*\(no target\)' all.txt || fail "a step without targets: $(cat all.txt)"
grep -qE '[1-3] of 3 steps had no target and learnt nothing' all.txt || fail "no warning at the end: $(cat all.txt)"
python3 -c "
import json, os
lines = [json.loads(line) for line in open('idle/metrics.jsonl')]
assert any('loss' in l and l['loss'] is None for l in lines), lines
assert not any(l.get('loss') == 0 for l in lines), lines
def points(name):
    path = 'csv/idle/Train_Samples_' + name + '.csv'
    return len(open(path).read().split()) - 1 if os.path.exists(path) else 0
assert points('lr') == 3, os.listdir('csv/idle')
assert points('train_loss') == sum(l.get('loss') is not None for l in lines)" || fail "metrics of steps without targets"

# A model's own chat template, which is run; one that is broken; one in a file, which asks for the date.
learn --data "$TEXT" --steps 2 --val none --out base
python3 - <<'PY'
import json
config = json.load(open("base/model/tokenizer_config.json"))
plain = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
json.dump(dict(config, chat_template=plain), open("base/model/tokenizer_config.json", "w"))
PY
expect 0 "$ZERO" data show --model base/model --data many.jsonl --seq 32 --micro-batch 1
python3 - <<'PY'
import json
config = json.load(open("base/model/tokenizer_config.json"))
json.dump(dict(config, chat_template="{{ 'unclosed }}"), open("base/model/tokenizer_config.json", "w"))
PY
refused 78 'chat template of this model cannot be read: chat_template:1:4: a string that does not end' \
    "$ZERO" train --model base/model --data many.jsonl --threads 1 --quiet --steps 1 --out out
cat >dated.jsonl <<'END'
{"messages": [{"role": "user", "content": "q", "name": "x"}, {"role": "assistant", "content": "a"}], "tools": [{"type": "function", "function": {"n": 1}}], "chat_template_kwargs": {"mood": "good"}}
END
cat >dated.jinja <<'END'
{{ strftime_now('%d %B %Y') }} {{ tools | tojson }} {{ mood }}
{% for message in messages %}{% if message.role == 'critic' %}{{ raise_exception('no critics') }}{% endif %}
<{{ message.role }}>{% if message.role == 'assistant' %}{% generation %}{{ message.content }}<end>{% endgeneration %}{% else %}{{ message.content }}{% endif %}{% endfor %}
END
expect 0 "$ZERO" data show --data dated.jsonl --chat dated.jinja --chat-date 2026-03-09 --seq 120 --micro-batch 1 --json
grep -qF '09 March 2026 [{\"type\": \"function\", \"function\": {\"n\": 1}}] good' out.txt && grep -qF '"text":"a<end>"' out.txt || fail "a template of a file: $(cat out.txt)"
refused 64 'must be a date' "$ZERO" tokenize --tokenizer bytes --data dated.jsonl --chat dated.jinja --chat-date 2026-03-32 --out dated.bin
refused 64 '--chat-date tomorrow: it must be a date as 2026-03-09' "$ZERO" data show --data dated.jsonl --chat dated.jinja --chat-date tomorrow
refused 64 'it must be one of' "$ZERO" data show --data dated.jsonl --chat dated.txt
refused 78 'dated.jsonl:1: the record has "tools", which the chat template does not read' "$ZERO" data show --data dated.jsonl --chat chatml
sed 's/"user"/"critic"/' dated.jsonl >critic.jsonl
refused 65 'critic.jsonl:1: the chat template refuses: no critics (dated.jinja, line 2, column' "$ZERO" data show --data critic.jsonl --chat dated.jinja

# The date with which a training began stays that of the run.
for i in 1 2 3 4 5 6 7 8; do cat dated.jsonl; done >dates.jsonl
expect 0 "$ZERO" train --new $TINY --threads 1 --quiet --data dates.jsonl --val none --chat dated.jinja --chat-date 2024-02-29 --steps 2 --out dated
grep -q '"chat_date": "2024-02-29"' dated/config.json || fail "the date is not recorded: $(cat dated/config.json)"
expect 0 "$ZERO" train --new $TINY --threads 1 --quiet --data dates.jsonl --val none --chat dated.jinja --steps 4 --out dated --resume
grep -q '"chat_date": "2024-02-29"' dated/config.json || fail "a resumed run has another date"
refused 78 'it would go on with other text' "$ZERO" train --new $TINY --threads 1 --quiet --data dates.jsonl --val none --chat dated.jinja --chat-date 2024-03-01 --steps 5 --out dated --resume
grep -qF strftime_now dated/model/chat_template.jinja || fail "the export has another template"

# A template that drops earlier answers' thoughts: those are left out, and counted.
cat >thoughts.jsonl <<'END'
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "thinking": "t"}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b", "thinking": "u"}]}
END
expect 0 "$ZERO" data show --data thoughts.jsonl --chat "$HERE/../chat/templates/thoughts.jinja" --seq 100 --micro-batch 1
grep -q 'in 1 conversation the chat template writes earlier answers in another form' err.txt || fail "not counted: $(cat err.txt)"
echo "data of every kind"
