#!/usr/bin/env bash
# The tasks of README.md, as they stand there, one after another in one directory: every command of theirs succeeds.
#
# What README says that its reader has, a tiny stand-in prepared here has the name of: examples/text/king-james.txt, chat.jsonl, questions.txt, ds_config.json,
# ds_checkpoints, base-model, some-chat-model, hosts. `build/zero` is the program with its sizes shrunk, and nothing else changed:
#   models of --new     one layer of width 16 (of the same family), but for plans by formulas and simulations
#   --steps, --epochs   4 of up to 200 steps, 6 of more; 4 where the command says nothing of them; checkpoints every second step
#   --seq, --vocab, --tokens, --threads   16, 300, 8, 1
#   /scratch            a directory here; bench for a moment, on 8 MiB
# Two machines are this one twice: the file `hosts` names it (test_machines.sh has two).
. "$(dirname "$0")/lib.sh"
README=$HERE/../../README.md
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
cp -r chatty/model some-chat-model
cat >some-chat-model/chat_template.jinja <<'END'
{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}
END

# ---- the tasks: a line of README, its number, and what is on it; blocks with a language are files, but for python
python3 - "$README" <<'PY'
import re, sys
lines = open(sys.argv[1]).read().split("\n")
first = lines.index("## Tasks")
last = next(i for i in range(first + 1, len(lines)) if lines[i].startswith("## "))
inside, names, commands = None, "", open("commands", "w")
for i in range(first, last):
    line = lines[i]
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
            commands.write(f"{i + 1}\tpython3 block.py\n")
        elif inside:
            assert inside == "hosts", f"README:{i + 1}: a block of {inside}"
        inside, names = None, ""
    elif inside is not None:
        block.append(line)
        if not inside and line.strip():
            commands.write(f"{i + 1}\t{line}\n")
    else:
        names = (names if line.strip() else names + " ") + line
PY
cat many.jsonl >>chat.jsonl
[ "$(wc -l <commands)" -ge 20 ] || fail "README has only these commands: $(cat commands)"
mpi=$(mpirun --version 2>/dev/null | grep -q "Open MPI" && "$ZERO" doctor | grep -q "^MPI *module found" && echo yes)
while IFS=$'\t' read -r number line <&3; do
    case $line in
        mpirun*) [ "$mpi" ] || { echo "README:$number: not run, there is no Open MPI or no module for it" && continue; }
                 line="${MPIRUN[*]} ${line#mpirun}" ;;
    esac
    expect 0 bash -c "$line"
    case $line in # what README says of it
        *"data show"*) grep -q 'The loss does not count' out.txt || fail "README:$number: $(cat out.txt)" ;;
        *generate*--json*) [ "$(wc -l <out.txt)" -eq 2 ] || fail "README:$number: not an answer to each question: $(cat out.txt)" ;;
        *"inspect long --verify"*) grep -q 'every checksum agrees' out.txt || fail "README:$number: $(cat out.txt)" ;;
        *block.py*) [ "$(wc -l <out.txt)" -eq 6 ] && grep -q ' MB per rank$' out.txt || fail "README:$number: $(cat out.txt)" ;;
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
echo "$(wc -l <commands) commands of README do what it says"
