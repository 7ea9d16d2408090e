#!/usr/bin/env bash
# Generation against transformers: 200 greedy tokens, alone and beside other prompts, with parameters on every tier; where an answer ends;
# what a prompt becomes; several prompts as they are written; and what is refused.
. "$(dirname "$0")/lib.sh"
GOLDEN=$HERE/generate
TOKENIZERS=$HERE/../tokenizer/tokenizers
zg() { expect 0 "$ZERO" generate --model "$@" --temperature 0 --threads 1; }
prompts() { python3 -c 'import json, sys
for line in open(sys.argv[1]): print(json.dumps({"asked": json.loads(line)["prompt"]}))' "$1"; }

# 8 prompts of 1 to 336 tokens: one chunk and several, begin and special tokens, white space.
for pair in gpt2:smollm2 llama:llama2 sliding:llama2; do
    name=${pair%:*} model=${pair%:*}/model
    mkdir -p $model
    cp "$GOLDEN/$name"/* $model
    cp "$TOKENIZERS/${pair#*:}.json" $model/tokenizer.json
    prompts "$GOLDEN/$name.jsonl" >$name.jsonl
    for batch in 1 3 8; do
        zg $model --prompts $name.jsonl --field asked --json --batch $batch
        cmp out.txt "$GOLDEN/$name.jsonl" || fail "$name, $batch at once: other tokens than transformers"
    done
    for device in cpu nvme; do
        echo "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"$device\", \"nvme_path\": \"$WORK\"}}}" >place.json
        zg $model --prompts $name.jsonl --field asked --json --config place.json
        cmp out.txt "$GOLDEN/$name.jsonl" || fail "$name on $device: other tokens"
    done
    expect 0 "$ZERO" generate --model $model --prompts $name.jsonl --field asked --json --temperature 0 --threads 2
    cmp out.txt "$GOLDEN/$name.jsonl" || fail "$name, two threads: other tokens"
    # Without prefill there would be as many passes as tokens: ref computes in double, token after token or not.
    expect 0 "$ZERO" generate --model $model --prompts $name.jsonl --field asked --json --temperature 0 --threads 1 --backend ref --tokens 20
    python3 - "$GOLDEN/$name.jsonl" <<'PY' || fail "$name, ref: other tokens"
import json, sys
for ours, theirs in zip(open("out.txt"), open(sys.argv[1])):
    ours, theirs = json.loads(ours), json.loads(theirs)
    assert ours["tokens"] == 20 and ours["text"] and theirs["text"].startswith(ours["text"]), (ours, theirs)
PY

    # The end: generation_config.json wins over config.json, a list, ids that no token has.
    cp "$GOLDEN/$name.ends.json" $model/generation_config.json
    zg $model --prompts $name.jsonl --field asked --json --batch 5
    cmp out.txt "$GOLDEN/$name.ended.jsonl" || fail "$name: ends elsewhere than transformers"
    zg $model --prompts $name.jsonl --field asked --json --ignore-end
    cmp out.txt "$GOLDEN/$name.jsonl" || fail "$name: --ignore-end ends"
    end=$(python3 -c "import json; print(json.load(open('$model/generation_config.json'))['eos_token_id'][0])")
    echo '{"eos_token_id": null}' >$model/generation_config.json
    sed -i "s/\"eos_token_id\": null/\"eos_token_id\": $end/" $model/config.json
    zg $model --prompt Speak --json
    grep -q '"finish": "end"}' out.txt || fail "$name: config.json's end token is not looked at"
    echo '{"eos_token_id": "</s>"}' >$model/generation_config.json
    refused 65 'generation_config.json: "eos_token_id" must be' "$ZERO" generate --model $model
    rm $model/generation_config.json
    sed -i "s/\"eos_token_id\": $end/\"eos_token_id\": null/" $model/config.json
done

# The tokenizer's own end token, where the model says nothing.
zg gpt2/model --prompt Speak --json
grep -q '"tokens": 200, "finish": "length"' out.txt || fail "without an end token: $(cat out.txt)"
echo '{"eos_token": "T"}' >gpt2/model/tokenizer_config.json
zg gpt2/model --prompt Speak --json
grep -q '"finish": "end"}' out.txt || fail "the tokenizer's end token is not looked at: $(cat out.txt)"
rm gpt2/model/tokenizer_config.json

# As a person sees it: one streams after its prompt, several stand under lines of their own; seeds are of prompts, not of batches.
expect 0 "$ZERO" generate --model llama/model --prompt Speak --tokens 30 --seed 3 --threads 1
cp out.txt alone.txt
head -c 5 out.txt | grep -q Speak || fail "the prompt comes first: $(cat out.txt)"
printf 'a line\r\n\n  \nFirst Citizen:' >lines.txt
expect 0 "$ZERO" generate --model llama/model --prompt Speak --prompt=Speak --prompts lines.txt --tokens 30 --seed 3 --threads 2
grep -n '^---' out.txt | tr '\n' ' ' | grep -q '^1:--- prompt 0: 30 tokens --- .*--- prompt 1: 30 tokens --- .*--- prompt 3: 30 tokens --- $' || fail "headings: $(cat out.txt)"
sed '1d;/^--- prompt 1/,$d' out.txt | cmp - alone.txt || fail "prompt 0 of several has another answer than alone"
sed '1,/^--- prompt 1/d;/^--- prompt 2/,$d' out.txt | cmp -s - alone.txt && fail "two prompts drew the same random numbers"
grep -q '^a line' out.txt && ! grep -q "$(printf '\r')" out.txt || fail "the lines of a file: $(cat out.txt)"
cp out.txt batch.txt
expect 0 "$ZERO" generate --model llama/model --prompt Speak --prompt=Speak --prompts lines.txt --tokens 30 --seed 3 --threads 1 --batch 2
cmp out.txt batch.txt || fail "other answers with two at once on one thread"

# A context that is full is said once, and text goes on.
train --tokenizer chars --steps 60 --lr 3e-3 --out run
expect 0 "$ZERO" generate --model run/model --prompt "12 times 3" --prompt "12 times 3 is 36, said the owl. 13 times" --tokens 90 --threads 1
[ "$(grep -c 'the context of 32 tokens is full' err.txt)" -eq 1 ] || fail "a full context is not said once: $(cat err.txt)"
[ "$(grep -c '90 tokens ---' out.txt)" -eq 2 ] || fail "a full context ends the text"
# A text that streams is not broken by it: where both streams are one, it stands after the text.
expect 0 "$ZERO" generate --model run/model --prompt "12 times 3" --tokens 90 --threads 1
"$ZERO" generate --model run/model --prompt "12 times 3" --tokens 90 --threads 1 --quiet >both.txt 2>&1
tail -n 1 both.txt | grep -q '^prompt 0: the context of 32 tokens is full' && sed '$d' both.txt | cmp -s - out.txt || fail "a warning stands within the text: $(cat both.txt)"
expect 0 "$ZERO" generate --model run/model --prompt "12 times 3 is 36" --tokens 40 --temperature 0.5 --top-k 1 --threads 1 --json
python3 - "$ZERO" <<'PY' || fail "text after a full context is not that of its later half"
import json, subprocess, sys
text = "12 times 3 is 36" + json.loads(open("out.txt").read())["text"]
window = text[16:33] # the later half of 32, and the token that found no room
again = subprocess.run([sys.argv[1], "generate", "--model", "run/model", "--prompt", window, "--tokens", "15", "--temperature", "0", "--threads", "1", "--json"],
                       capture_output=True, text=True, check=True)
assert json.loads(again.stdout)["text"] == text[33:48], (text, again.stdout)
PY
expect 0 "$ZERO" generate --model run/model --prompt "12 times 3 is 36, said the owl.1" --tokens 1 --threads 1
! grep -qv '^took ' err.txt || fail "a prompt as long as the context is too long: $(cat err.txt)"
expect 0 "$ZERO" generate --model run/model --tokens 5 --threads 1

# What it took is said at the end and, once a longer one has taught, what was predicted; --quiet and --no-learn say and keep nothing.
CACHE=$(rates_file)
asked() { expect 0 "$ZERO" generate --model run/model --prompt "12 times 3" --tokens 20 --threads 1 "$@"; }
rm -f "$CACHE"
asked --no-learn
[ ! -e "$CACHE" ] || fail "--no-learn has taught $(cat "$CACHE")"
tail -n 1 err.txt | grep -qx 'took  *[0-9.]* m\?s: reading 10 tokens [0-9.]* m\?s, writing 20 tokens [0-9.]* m\?s' || fail "it is not said what it took: $(cat err.txt)"
asked
python3 - "$CACHE" <<'PY' || fail "what a generation teaches: $(cat "$CACHE")"
import json, sys
book = json.load(open(sys.argv[1]))
assert book["settings"][0]["samples"]["product"] and book["settings"][0]["samples"]["attention"] and list(book["tasks"]) == ["choose"], book
PY
asked --quiet
[ ! -s err.txt ] || fail "--quiet says $(cat err.txt)"
asked --no-learn
tail -n 1 err.txt | grep -qx 'took [^(]*(predicted [^)]*): reading 10 tokens [^(]*(predicted [^)]*), writing 20 tokens [^(]*(predicted [^)]*)' || fail "nothing is predicted: $(cat err.txt)"

# What a chat becomes is tests/chat's; here: the mark after a turn ends it, the prompt is not repeated.
expect 0 "$ZERO" generate --model gpt2/model --chat chatml --prompt "Who?" --tokens 5 --temperature 0 --threads 1
grep -q 'Who' out.txt && fail "a chat repeats what the user said"
refused 78 'chat template' "$ZERO" generate --model gpt2/model --chat auto --prompt "Who?"

# Texts that end an answer: it is what stood before the first of them, however the tokens cut it.
expect 0 "$ZERO" generate --model run/model --prompt "12 times 3" --tokens 40 --temperature 0 --threads 1 --json
python3 -c "
import json, subprocess
whole = json.load(open('out.txt'))['text']
assert len(whole) > 20, whole
def told(*stops):
    more = [word for stop in stops for word in ('--stop', stop)]
    out = subprocess.run(['$ZERO', 'generate', '--model', 'run/model', '--prompt', '12 times 3', '--tokens', '40', '--temperature', '0', '--threads', '1', '--json', *more], capture_output=True, check=True).stdout
    return json.loads(out)
for at, width in (0, 1), (3, 4), (7, 9), (12, 2), (len(whole) - 3, 3):
    stop = whole[at:at + width]
    got = told(stop)
    assert got['text'] == whole[:whole.index(stop)] and got['finish'] == 'end', (stop, whole, got)
both = told(whole[9:14], 'not in it', whole[4:7])
assert both['text'] == whole[:min(whole.index(whole[9:14]), whole.index(whole[4:7]))], both
none = told(whole[-4:] + '?')
assert none['text'] == whole and none['finish'] == 'length', none" || fail "--stop"
refused 64 "--stop: its value is empty" "$ZERO" generate --model run/model --prompt a --stop ""

# A conversation: each line is answered with all that was said before; /reset begins anew.
cat >plain.jinja <<'END'
{% for m in messages %}{{ 'said ' if m.role == 'user' else 'is ' }}{{ m.content }}, {% endfor %}{% if add_generation_prompt %}is {% endif %}
END
talk() { "$ZERO" generate --model run/model --chat plain.jinja --tokens 6 --temperature 0 --threads 1 "$@" 2>err.txt; }
printf 'times 3\n\nthe owl\r\n/reset\ntimes 3\n/reset\n' | talk >talk.txt || fail "a conversation: $(cat err.txt)"
python3 - "$ZERO" <<'PY' || fail "what a conversation answers: $(cat talk.txt)"
import json, subprocess, sys
def alone(prompt):
    out = subprocess.run([sys.argv[1], "generate", "--model", "run/model", "--prompt", prompt, "--tokens", "6", "--temperature", "0", "--threads", "1", "--json"], capture_output=True, check=True).stdout
    return json.loads(out)["text"]
first = alone("said times 3, is ")
second = alone("said times 3, is %s, said the owl, is " % first)
assert open("talk.txt").read() == "\n".join([first, second, first]) + "\n", (first, second)
PY
printf 'times 3\n\nthe owl\r\n' | talk --json >talk.jsonl || fail "a conversation in JSON: $(cat err.txt)"
python3 - <<'PY' || fail "a conversation in JSON: $(cat talk.jsonl)"
import json
said = [json.loads(line) for line in open("talk.jsonl")]
assert [(a["index"], a["prompt"], a["tokens"], a["finish"]) for a in said] == [(0, "times 3", 6, "length"), (1, "the owl", 6, "length")]
assert said[0]["text"] == open("talk.txt").read().split("\n")[0]
PY
talk </dev/null >talk.txt || fail "a conversation of nothing: $(cat err.txt)"
[ ! -s talk.txt ] || fail "something is said to nobody"

printf '{"asked": "one"}\n{"asked": 2}\n' >bad.jsonl
refused 65 'bad.jsonl:2: the field "asked" is a number' "$ZERO" generate --model run/model --prompts bad.jsonl --field asked
refused 65 'bad.jsonl:1: the record has no field "prompt"' "$ZERO" generate --model run/model --prompts bad.jsonl
printf 'a\nb\0c\n' >zero.txt
refused 65 'zero.txt:2: a zero byte' "$ZERO" generate --model run/model --prompts zero.txt
printf '\n\n' >empty.txt
refused 65 'no prompt in it' "$ZERO" generate --model run/model --prompts empty.txt
refused 74 'missing.txt' "$ZERO" generate --model run/model --prompts missing.txt
refused 64 '--field is of the records of --prompts' "$ZERO" generate --model run/model --field asked
refused 78 "no offload of this model's parameters fits; a smaller model or larger budgets (--device-memory, --host-memory) would" \
    "$ZERO" generate --model gpt2/model --prompt a --device-memory 1KB --host-memory 1KB
refused 78 'generating 8 at once' "$ZERO" generate --model gpt2/model --prompts gpt2.jsonl --field asked --host-memory 100KB
echo "answers are transformers', whatever stands beside them"
