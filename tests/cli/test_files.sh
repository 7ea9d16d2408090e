#!/usr/bin/env bash
# Files that are not what they were taken for: pipes in the place of files, files that shrink under a run, a limit on their size, names that
# speak to the terminal.
. "$(dirname "$0")/lib.sh"
train --steps 2 --save-every 1 --out run

# A pipe that nobody writes to is refused at once, wherever a file is looked for.
for name in config.json model.safetensors tokenizer.json tokenizer_config.json generation_config.json; do
    rm -rf model && cp -r run/model model && rm -f "model/$name" && mkfifo "model/$name"
    refused 65 "model/$name\" is a named pipe, where a file is needed" timeout 20 "$ZERO" generate --model model --prompt a --tokens 2 --chat chatml --threads 1
done
for name in manifest.json weights.safetensors; do
    cp -r run copy && rm -rf copy/checkpoints/step-00000001 "copy/checkpoints/step-00000002/$name" && mkfifo "copy/checkpoints/step-00000002/$name"
    expect 65 timeout 20 "$ZERO" inspect copy/checkpoints/step-00000002 --verify
    grep -q "$name\" is a named pipe\|$name\" has 0 bytes" err.txt || fail "inspect of a pipe $name: $(cat err.txt out.txt)"
    rm -r copy
done
cp -r run copy && rm copy/metrics.jsonl && mkfifo copy/metrics.jsonl
refused 65 'metrics.jsonl" is a named pipe' timeout 20 "$ZERO" verify copy
mkfifo pipe.safetensors pipe.pt text.pipe
refused 65 'is a named pipe' timeout 20 "$ZERO" inspect pipe.safetensors
refused 65 'is no regular file' timeout 20 "$ZERO" train --new $TINY --data text.pipe --steps 1 --threads 1 --quiet --out out
expect 0 "$ZERO" generate --model run/model --prompts <(echo one; echo two) --tokens 2 --threads 1 # named by hand: as a shell's pipe is

# A token file that is cut while a run reads it: one message with file, bytes and what was needed; all ranks end. The file holds just one window,
# which goes beyond its first page, so that what is needed is the first byte that is gone. The name is escaped.
cut=$'cut\e[31m.bin'
page=$(getconf PAGESIZE)
wait_for() { for _ in $(seq 600); do [ -s "$1" ] && return; sleep 0.05; done; fail "no $1: $(cat err.txt)"; }
for ranks in 1 2; do
    truncate -s $((page + 102)) "$cut"
    timeout 100 "$ZERO" train --new gpt2:layers=1,heads=1,width=16,context=$((page / 2 + 50)),vocab=300 --data "$cut" --val none --steps 1000000 \
        --micro-batch 1 --save-seconds 0 --eval-every 0 --threads 1 --ranks $ranks --quiet --out cut$ranks >out.txt 2>err.txt &
    pid=$!
    wait_for cut$ranks/metrics.jsonl
    truncate -s "$page" "$cut"
    got=0
    wait $pid || got=$?
    [ "$got" -eq 65 ] || fail "exit code $got, not 65, of a run on $ranks ranks whose file was cut: $(cat err.txt)"
    [ "$(wc -l <err.txt)" -eq 1 ] || fail "not one line: $(cat err.txt)"
    grep -q "cut\\\\x1b\[31m.bin\" was made shorter while it was read: it has $page bytes now, and \(byte $page was needed\|had $((page + 102))\)" err.txt ||
        fail "a cut file: $(cat err.txt)"
    [ "$(children_of $pid | wc -l)" -eq 0 ] || fail "ranks go on"
done

# What is left of a file's last page reads as zeros, and no signal tells of it: the length does.
for what in "--data small.bin --val none --eval-every 0" "--data text.bin --val small.bin --eval-every 1"; do
    rm -rf page
    expect 0 "$ZERO" tokenize --tokenizer bytes --data "$TEXT" --out text.bin --overwrite
    cp text.bin small.bin && cp text.bin.json small.bin.json
    timeout 100 "$ZERO" train --new $TINY $what --steps 1000000 --threads 1 --ranks 2 --quiet --out page >out.txt 2>err.txt &
    pid=$!
    wait_for page/metrics.jsonl
    truncate -s -10 small.bin
    got=0
    wait $pid || got=$?
    [ "$got" -eq 65 ] && grep -q 'small.bin" was made shorter while it was read: it has [0-9]* bytes now, and had' err.txt || fail "exit code $got of a run whose file lost its end: $(cat err.txt)"
done

# A limit on the size of files is an error of the write, not the end of the program.
(ulimit -f 20 && expect 74 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --steps 2 --quiet --out limited) || exit 1
tail -1 err.txt | grep -q '^zero train: .*limited.*File too large' || fail "a limit on files: $(cat err.txt)"
# Names in files reach the terminal with what it would obey escaped: in reports, in errors, of tensors, of keys, of records in an archive.
python3 - <<'PY'
import json, os, zipfile
name = "evil\x1b[31m\x07\r\nDAMAGED    a line of its own"
header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
open("evil.safetensors", "wb").write(len(header).to_bytes(8, "little") + header + bytes(4))
os.makedirs("evil")
config = json.load(open("run/model/config.json"))
config["model_type"] = "\x1b[31mX\x07"
json.dump(config, open("evil/config.json", "w"))
os.makedirs("blank")
for name in os.listdir("run/model"):
    if name != "model.safetensors":
        open("blank/" + name, "wb").write(open("run/model/" + name, "rb").read())
data = open("run/model/model.safetensors", "rb").read()
length = int.from_bytes(data[:8], "little")
tensors = json.loads(data[8:8 + length])
size = len(data) - 8 - length
tensors["evil\x1b[31m\x07\r\nDAMAGED    a line of its own"] = {"dtype": "F32", "shape": [1], "data_offsets": [size, size + 4]}
header = json.dumps(tensors).encode()
open("blank/model.safetensors", "wb").write(len(header).to_bytes(8, "little") + header + data[8 + length:] + bytes(4))
os.makedirs("pickled")
for name in "zero_pp_rank_0_mp_rank_00_optim_states.pt", "mp_rank_00_model_states.pt":
    with zipfile.ZipFile("pickled/" + name, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/\x1b[31mX\x07", b"x" * 1000)
PY
plain() { ! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" out.txt err.txt || fail "control characters are printed: $*"; }
expect 0 "$ZERO" inspect evil.safetensors && plain inspect
grep -q 'evil\\x1b\[31m\\x07\\r\\nDAMAGED ' out.txt || fail "no escapes: $(cat out.txt)"
! grep -q '^DAMAGED' out.txt || fail "a name made a line of its own"
expect 0 "$ZERO" inspect evil.safetensors --json && plain inspect --json
refused 78 '"\x1b[31mX\x07"' "$ZERO" eval --model evil --data "$TEXT" --threads 1 && plain eval
refused 65 '\x1b[31mX\x07' "$ZERO" convert --from pickled --to out && plain convert
refused 65 'evil\x1b[31m\x07\r\nDAMAGED' "$ZERO" train --model blank --data "$TEXT" --steps 1 --quiet --out out && plain train
echo "pipes, cut files, limits, names"
