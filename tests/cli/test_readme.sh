#!/usr/bin/env bash
# The commands of docs/tasks.md, as they stand there, one after another in one directory: each succeeds. Those in README's
# table of tasks are among them.
#
# What the page says that its reader has, a tiny stand-in prepared here has the name of: examples/text/king-james.txt, chat.jsonl, alpaca.json, faq.json, questions.txt,
# ds_config.json, ds_checkpoints, base-model, some-chat-model, hosts. `build/zero` is the program with its sizes shrunk, and nothing else changed:
#   models of --new     one layer of width 16 (of the same family), but for plans by formulas and simulations
#   --steps, --epochs   4 of up to 200 steps, 6 of more; 4 where the command says nothing of them; checkpoints every second step
#   --seq, --vocab, --tokens, --threads   16, 300, 8, 1
#   /scratch            a directory here; bench for a moment, on 8 MiB
# Two machines are this one twice: the file `hosts` names it (test_machines.sh has two).
. "$(dirname "$0")/lib.sh"
PAGE=$HERE/../../docs/tasks.md
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # Open MPI leaks at its end

mkdir build scratch
cat >build/zero <<END
#!/usr/bin/env bash
program='$ZERO' scratch='$WORK/scratch'
END
cat >>build/zero <<'END'
args=() steps= before= name=$1
[[ $name != plan || " $* " = *" --config "* ]] && shrinks=yes || shrinks= # a plan by formulas takes no time at any size; one that chooses, measures
[ "$name" != simulate ] || shrinks=
for arg in "$@"; do
    case $before:$arg in
        --new:gpt2*) [ -z "$shrinks" ] || arg=gpt2:layers=1,heads=2,width=16,context=16 ;;
        --new:llama*) [ "$name" = simulate ] || arg=llama:layers=1,heads=2,kv_heads=1,width=16,context=16 ;;
        --steps:*) [ "$arg" -gt 200 ] && arg=6 || arg=4; steps=given ;;
        --epochs:*) args[-1]=--steps arg=4 steps=given ;;
        --save-every:*) arg=2 ;;
        --seq:*) [ -z "$shrinks" ] || arg=16 ;;
        --vocab:*) arg=300 ;;
        --tokens:*) arg=8 ;;
        --path:/scratch) arg=$scratch ;;
    esac
    args+=("$arg")
    before=$arg
done
case $name in
    train) args+=(--threads 1) && [ "$steps" ] || args+=(--steps 4) ;;
    generate) args+=(--threads 1) && [[ " ${args[*]} " = *" --tokens "* ]] || args+=(--tokens 8) ;;
    bench) args+=(--seconds 0.001 --threads 1) && [ "$2" != io ] || args+=(--bytes 8MiB) ;;
esac
exec "$program" "${args[@]}"
END
chmod +x build/zero

# ---- what the reader has
mkdir -p examples/text && cp "$TEXT" examples/text/king-james.txt
cp "$TEXT" book.txt
printf 'What is 2 times 3?\nWho said so?\n' >questions.txt
echo "localhost slots=4" >hosts
cp -r "$HERE/../formats/deepspeed/s2-schedule-r3" ds_checkpoints
echo '{"train_batch_size": 6, "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}}' >ds_config.json
train --tokenizer chars --steps 1 --val none --out letters
expect 0 "$ZERO" convert --from ds_checkpoints --to base-model --model letters
python3 - <<'PY'
import json
json.dump({"model_type": "gpt2", "vocab_size": 50, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2, "activation_function": "gelu_new",
           "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}, open("base-model/config.json", "w"))
with open("many.jsonl", "w") as out:
    for i in range(60):
        out.write(json.dumps({"messages": [{"role": "user", "content": f"What is {i} plus one?"}, {"role": "assistant", "content": f"It is {i + 1}."}]}) + "\n")
PY
expect 0 "$ZERO" tokenizer train --vocab 300 --data book.txt --out words
cp -r words marked # with the marks of chatml as tokens
python3 - <<'PY'
import json
tokenizer = json.load(open("marked/tokenizer.json"))
for mark in "<|im_start|>", "<|im_end|>":
    tokenizer["added_tokens"].append(dict(tokenizer["added_tokens"][0], content=mark, id=len(tokenizer["model"]["vocab"]) + len(tokenizer["added_tokens"]) - 1))
json.dump(tokenizer, open("marked/tokenizer.json", "w"))
PY
train --tokenizer marked --steps 1 --val none --out chatty
python3 - <<'PY'
import json
turns = [("What is %d times %d?" % (i, i + 1), "It is %d." % (i * (i + 1))) for i in range(40)]
json.dump([{"instruction": q, "input": "", "output": a} for q, a in turns], open("alpaca.json", "w"), indent=1)
json.dump([{"id": i, "question": q, "answer": a} for i, (q, a) in enumerate(turns)], open("faq.json", "w"))
PY
cp -r chatty/model some-chat-model
cat >some-chat-model/chat_template.jinja <<'END'
{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}
END

# ---- the tasks: a line of the page, its number, and what is on it without its comment; blocks with a language are files, but
# for python
python3 - "$PAGE" "$HERE/../../README.md" <<'PY' || fail "the page, or README's table"
import re, sys
lines = open(sys.argv[1]).read().split("\n")
inside, names, begun, said = None, "", "", []
for number, line in enumerate(lines, 1):
    if line.startswith("```"):
        if inside is None:
            inside, block = line[3:], []
            continue
        text = "\n".join(block) + "\n"
        if inside == "json":
            name = re.findall(r"`(\S+\.jsonl?)`", names)[-1]
            open(name, "w").write(text.replace("/scratch", "scratch"))
        elif inside == "python":
            open("block.py", "w").write(text)
            said.append((number, "python3 block.py"))
        elif inside:
            assert inside == "hosts", f"tasks.md:{number}: a block of {inside}"
        inside, names = None, ""
    elif inside is not None:
        block.append(line)
        if inside or not line.strip() or line.startswith("#"):
            continue
        begun += line.split("  # ")[0].strip()
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        said.append((number, begun))
        begun = ""
    else:
        names = (names if line.strip() else names + " ") + line
open("commands", "w").write("".join(f"{number}\t{command}\n" for number, command in said))

table = open(sys.argv[2]).read().split("\n## Tasks\n")[1].split("\n## ")[0]
wanted = [command for command in re.findall(r"^\|[^|]*\| `([^`]*)` \|", table, re.M) if not command.startswith("build/examples/")]
assert len(wanted) >= 10, wanted
for command in wanted:
    assert command in [command for _, command in said], f"README.md: not a command of docs/tasks.md: {command}"
PY
cat many.jsonl >>chat.jsonl
[ "$(wc -l <commands)" -ge 20 ] || fail "tasks.md has only these commands: $(cat commands)"
mpi=$(mpirun --version 2>/dev/null | grep -q "Open MPI" && "$ZERO" doctor | grep -q "^MPI *module found" && echo yes)
while IFS=$'\t' read -r number line <&3; do
    case $line in
        mpirun*) [ "$mpi" ] || { echo "tasks.md:$number: not run, there is no Open MPI or no module for it" && continue; }
                 line="${MPIRUN[*]} ${line#mpirun}" ;;
    esac
    expect 0 bash -c "$line"
    case $line in # what the page says of it
        *"data show"*) grep -q 'The loss does not count' out.txt || fail "tasks.md:$number: $(cat out.txt)" ;;
        *generate*--json*) [ "$(wc -l <out.txt)" -eq 2 ] || fail "tasks.md:$number: not an answer to each question: $(cat out.txt)" ;;
        *"inspect long --verify"*) grep -q 'every checksum agrees' out.txt || fail "tasks.md:$number: $(cat out.txt)" ;;
        *block.py*) [ "$(wc -l <out.txt)" -eq 6 ] && grep -q ' MB per rank$' out.txt || fail "tasks.md:$number: $(cat out.txt)" ;;
    esac
done 3<commands
for made in run/model tuned/model exported/config.json book.bin.json; do [ -e $made ] || fail "no $made was made"; done
[ -z "$mpi" ] || [ -e far/model ] || fail "no far/model was made"
python3 - <<'PY' || fail "a run that was resumed has other steps"
import json
for run, first, last in ("ds-run", 4, 6), ("long", 1, 6):
    steps = [line["step"] for line in map(json.loads, open(run + "/metrics.jsonl")) if "loss" in line]
    assert steps == list(range(first, last + 1)), (run, steps)
PY
echo "$(wc -l <commands) commands of docs/tasks.md do what it says"
