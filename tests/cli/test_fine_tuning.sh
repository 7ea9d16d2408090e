#!/usr/bin/env bash
# docs/fine-tuning.md, from its beginning to its end: every command succeeds, and does what the page says that it does.
#
# The models and data that its three readers have are made here: Qwen3-0.6B and Llama-3.2-1B of one narrow layer with bytes as tokens, the first
# with a chat template, chats.json, faq.json, held.json, pairs.json and thumbs.json. The commands are the page's own, with --threads 1.
. "$(dirname "$0")/lib.sh"
PAGE=$HERE/../../docs/fine-tuning.md
mkdir build
cat >build/zero <<END
#!/usr/bin/env bash
case \$1 in train | generate | eval) exec '$ZERO' "\$@" --threads 1 ;; *) exec '$ZERO' "\$@" ;; esac
END
chmod +x build/zero

python3 - <<'PY'
import json
things = ["box", "lid", "key", "lamp", "bell"]
def turn(i): return "What is in the %s of room %d?" % (things[i % 5], i), "A %s, and %d more." % (things[(i + 2) % 5], i % 7)
json.dump([{"conversations": [{"from": "human", "value": turn(i)[0]}, {"from": "gpt", "value": turn(i)[1]}, {"from": "human", "value": "And then?"},
                              {"from": "gpt", "value": "Nothing at all."}][: 2 + 2 * (i % 2)]} for i in range(40)], open("chats.json", "w"), indent=1)
faq = [{"question": "How do I return the %s?" % things[i % 5], "answer": "By post, within %d days." % (7 + i % 5)} for i in range(60)]
json.dump(faq, open("faq.json", "w"))
json.dump(faq[:12], open("held.json", "w"))
for name, count in ("reviews", 60), ("unseen", 12):
    with open(name + ".jsonl", "w") as f:
        for i in range(count):
            f.write(json.dumps({"review": "The %s was %s." % (things[i % 5], ["dull", "plain", "fine"][i % 3]), "stars": 1 + 2 * (i % 3)}) + "\n")
def answer(i, good): return ("Certainly: by post, within %d days." if good else "No idea, %d times.") % (i % 7)
json.dump([{"prompt": [{"role": "user", "content": faq[i]["question"]}], "chosen": [{"role": "assistant", "content": answer(i, True)}],
            "rejected": [{"role": "assistant", "content": answer(i, False)}]} for i in range(40)], open("pairs.json", "w"))
json.dump([{"prompt": [{"role": "user", "content": faq[i]["question"]}], "completion": [{"role": "assistant", "content": answer(i, i % 3 > 0)}],
            "label": i % 3 > 0} for i in range(40)], open("thumbs.json", "w"))
PY
expect 0 "$ZERO" train --new qwen3:layers=1,heads=2,kv_heads=1,head_dim=32,width=64,inner=64,context=512,vocab=257 --data "$TEXT" --threads 1 --seq 64 --steps 10 \
    --quiet --out qwen
expect 0 "$ZERO" train --new llama:layers=1,heads=2,kv_heads=1,width=64,inner=64,context=256,vocab=257 --data "$TEXT" --threads 1 --seq 64 --steps 10 --quiet --out llama
mv qwen/model Qwen3-0.6B
mv llama/model Llama-3.2-1B
cp "$HERE/../chat/templates/chatml.jinja" Qwen3-0.6B/chat_template.jinja

python3 - "$PAGE" <<'PY'
import re, sys
blocks = re.findall(r"^```sh\n(.*?)^```$", open(sys.argv[1]).read(), re.M | re.S)
open("commands", "w").write("".join(blocks))
PY
commands=0
set -o pipefail
while IFS= read -r command <&3; do
    commands=$((commands + 1))
    eval "$command" >out.txt 2>err.txt </dev/null || fail "$command"$'\n'"$(tail -5 err.txt)"
    cp out.txt "$commands.out"
    cp err.txt "$commands.err"
    case $command in
        *"data show"*preference*) grep -qx -- '--- chosen ---' out.txt && grep -qx -- '--- rejected ---' out.txt || fail "what is compared: $(cat out.txt)" ;;
        *"--out better"*) grep -q '^reference' out.txt && grep -q 'accuracy .*margin' out.txt || fail "no preferences: $(cat out.txt)" ;;
        *"--adapter better"*) grep -q '^loss 0.[0-6]' out.txt && grep -q 'accuracy' out.txt || fail "nothing is preferred: $(cat out.txt)" ;;
        *"data show"*) grep -qF '[<|im_start|>system' out.txt && grep -qF '~~~' out.txt || fail "what is shown: $(cat out.txt)" ;;
        *"--to tuned.gguf"*)
            python3 "$HERE/gguf.py" keys tuned.gguf general.architecture general.file_type >keys
            [ "$(cat keys)" = "qwen3 7" ] || fail "tuned.gguf: $(cat keys)" ;;
        *"printf "*) [ "$(grep -c . out.txt)" -ge 1 ] || fail "no conversation: $(cat out.txt err.txt)" ;;
        *--resume*) [ -d faq/checkpoints/step-00000030 ] && grep -q 'resum' out.txt err.txt || fail "not resumed: $(cat out.txt)" ;;
        *"verify faq"*) grep -qi 'confirmed' out.txt || fail "not verified: $(cat out.txt)" ;;
        *"faq-model --dtype"*) grep -q bfloat16 faq-model/config.json || fail "faq-model: $(cat faq-model/config.json)" ;;
        *faq-adapter.gguf*) [ "$(python3 "$HERE/gguf.py" keys faq-adapter.gguf general.type)" = adapter ] || fail "faq-adapter.gguf" ;;
    esac
done 3<commands
[ $commands -ge 20 ] || fail "the page has only $commands commands"

# The adapters learnt: the loss of the base, of the last adapter, of the first checkpoint.
python3 - <<'PY' || fail "the losses that the page compares"
import glob, re
losses = []
for n in range(1, 40):
    try: text = open("%d.out" % n).read()
    except FileNotFoundError: break
    found = re.match(r"loss\s+([0-9.]+)", text)
    if found: losses.append(float(found[1]))
base, last, first, small = losses[:4] # small: on a base in nf4
assert last < first < base and small < base, losses
PY
[ -s tuned/adapter/adapter_config.json ] && [ -s tuned/adapter/chat_template.jinja ] && [ -s tuned/adapter/tokenizer_config.json ] || fail "tuned/adapter: $(ls tuned/adapter)"
echo "$commands commands of docs/fine-tuning.md"
