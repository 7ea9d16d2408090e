#!/usr/bin/env bash
# What is made for a machine with a GPU, and done there, without one: tools/gpu/bundle makes a folder out of this build, and its `run` has
# a line for each check of each part, whatever fails: on the emulated card, and on the CPU, where all must be well. Programs that give
# other bits, fail, hang or are missing are told, and stop nothing; counts, times and peers come from programs that stand in for them.
# shellcheck disable=SC2016 # what programs that stand in are given
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${BUILD:?the build}"
export MAKE_IMAGES=$BUILD/tests/cuda/planted_images # those of the library take a quarter of a minute
folder="$WORK/build gpu"

# bundle OPTION...: its words in said.txt.
bundle() { timeout 200 "$GPU/bundle" --from "$BUILD" --out "$folder" "$@" >said.txt 2>&1; }

# parts LIMIT OPTION...: lines in out.txt, the table in err.txt.
parts()
{
    local got=0
    (cd / && timeout "$1" "$folder/run" --small --emulated "$folder/emulated" "${@:2}") >out.txt 2>err.txt || got=$?
    [ "$got" -eq 0 ] || fail "exit code $got of: $* ($(tail -3 err.txt))"
}

# told PYTHON: holds of `of`, the lines by "part check".
told()
{
    python3 - "$1" <<'PY' || fail "not so: $1 ($(cat out.txt err.txt))"
import json, sys
all = [json.loads(line) for line in open("out.txt")]
of = {line["part"] + " " + line["check"]: line for line in all}
builtins_all = __builtins__.all
failed = [line for line in all if line["ok"] is False]
sys.exit(not eval(sys.argv[1]))
PY
}

# stand_in FOLDER NAME TEXT: a program that stands in for another.
stand_in() { mkdir -p "$1" && printf '#!/usr/bin/env bash\n%s\n' "$3" >"$1/$2" && chmod +x "$1/$2"; }

# ---- the folder ----

bundle --emulated --most 1000 || fail "no bundle: $(cat said.txt)"
grep -q '^bundle: [0-9]* bytes' said.txt || fail "its bytes are not told: $(cat said.txt)"
grep -q '^images: ' said.txt || fail "images are not told: $(cat said.txt)"
for file in run zero probe test_cuda_card kernels.cu peers.py tokens.py text.txt lib/libjansson.so.4 lib/libcmocka.so.0 emulated/libcuda.so.1; do
    [ -e "$folder/$file" ] || fail "the bundle has no $file"
done
if grep -q '^images: [0-9]' said.txt; then
    for capability in 80 90; do
        grep -aq "^zero-kernels elements sm_$capability " "$folder/images/elements-sm_$capability.cubin" || fail "images: $(ls "$folder/images")"
    done
fi
bundle --most 1 && fail "a bundle of more than 1 MiB is taken"
grep -q 'that is too much' said.txt || fail "why it is refused: $(cat said.txt)"
mkdir other && touch other/kept
timeout 20 "$GPU/bundle" --from "$BUILD" --out other >said.txt 2>&1 && fail "a folder that is no bundle is replaced"
[ -e other/kept ] || fail "a folder that is no bundle is emptied"
bundle --emulated --most 1000 || fail "no bundle: $(cat said.txt)"
timeout 20 "$folder/run" --emulated "$folder/emulated" --small facts >out.txt || fail "the probe of the bundle"
answers "one('facts')['ok']"

# ---- on the emulated card: every line ----

# Programs that take half a minute each are tests of their own.
for name in elements columns rows states sums attention products training; do
    rm -f "$folder/test_cuda_$name"
    stand_in "$folder" "test_cuda_$name" 'echo "[  PASSED  ] 3 test(s)."'
done
parts 200 --out "$WORK/some lines" all
cmp -s out.txt "some lines" || fail "--out has other lines"
told "{line['part'] for line in all} == {'facts', 'kernels', 'sanitizer', 'bits', 'train', 'speed', 'parts'}"
told "not failed and {'facts machine', 'facts doctor', 'kernels card', 'kernels attention', 'sanitizer card:memcheck', 'bits gpt2', 'bits llama', 'bits ranks',
    'train card', 'speed gpt2:zero:1', 'speed llama:medians', 'speed attention', 'parts kernels'} <= set(of)"
told "of['facts machine']['ok'] and of['facts doctor']['ok'] and of['kernels card']['passed'] > 0 and of['bits ranks']['passed'] == 3"
told "builtins_all('seconds' in line and ('why' in line) == (line['ok'] is False) and ('skipped' in line) == (line['ok'] is None) for line in all)"
[ "$(tail -1 err.txt | grep -c ' ok, .* failed, .* skipped')" -eq 1 ] || fail "no table: $(cat err.txt)"
[ "$(wc -l <err.txt)" -eq $(($(wc -l <out.txt) + 1)) ] || fail "the table has other lines"

# ---- where all must be well ----

tools=$WORK/tools
stand_in "$tools" python3 'case "$*" in *peers.py*gpt2*) echo "{\"tokens_s\": 1000.5}" ;; *peers.py*) exit 3 ;; esac'
stand_in "$tools" ncu 'cat <<LINES
==PROF== Connected
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","zr_slow(zr_slow_args)","gpu__time_duration.sum","ns","2,000"
"0","1","zr_slow(zr_slow_args)","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","25"
"1","1","zr_good(zr_good_args)","gpu__time_duration.sum","ns","3,000"
"1","1","zr_good(zr_good_args)","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","90"
"2","1","zr_good(zr_good_args)","gpu__time_duration.sum","ns","1,000"
"2","1","zr_good(zr_good_args)","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","90"
LINES'
stand_in "$tools" compute-sanitizer 'shift 2; [ "$2" != racecheck ] || { echo "ERROR: a race"; exit 1; }; "${@:3}"'
python=$(command -v python3)
PATH="$tools:$PATH" NCU=$tools/ncu COMPUTE_SANITIZER=$tools/compute-sanitizer parts 200 --backend cpu sanitizer:card train speed parts
PATH=$(dirname "$python"):$PATH
told "of['sanitizer card:memcheck']['ok'] and not of['sanitizer card:racecheck']['ok'] and 'a race' in of['sanitizer card:racecheck']['why']"
told "of['train losses']['ok'] and of['train losses']['worst'] == 0"
told "of['speed gpt2:torch.compile:1']['tokens_s'] == 1000.5 and of['speed llama:torch.compile:1']['ok'] is False"
told "abs(of['speed gpt2:medians']['over_torch.compile'] * 1000 / of['speed gpt2:medians']['zero'] - 1) < 0.01"
told "'over_torch.compile' not in of['speed llama:medians'] and of['speed llama:medians']['zero'] > 0"
told "[k['kernel'] for k in of['parts kernels']['kernels']] == ['zr_slow', 'zr_good'] and of['parts kernels']['kernels'][0]['memory_percent'] == 25"
told "of['parts kernels']['kernels'][1]['launches'] == 2 and of['parts kernels']['kernels'][1]['us'] == 4 and of['parts ncu:zr_slow']['ok']"

# ---- bits: all the same, and others ----

rm "$folder/test_cuda_training"
parts 200 --backend cpu bits
told "not failed and len({of['bits gpt2' + way]['sha256'] for way in ('', ':twice', ':stage1', ':stage2', ':stage3', ':host', ':cpu-cpu:resume')}) == 1"
told "of['bits ranks']['ok'] is None and of['bits llama:stage3:same']['ok']"
mv "$folder/zero" "$folder/zero.right"
stand_in "$folder" zero 'case "$*" in *"--stage 2"*) set -- "$@" --lr 0.01 ;; *"--stage 3"*) echo "no stage 3"; exit 9 ;; esac
exec "$(dirname "$0")/zero.right" "$@"'
stand_in "$folder" test_cuda_elements 'echo "[  PASSED  ] 1 test(s)."; echo "[  FAILED  ] that_one"; exit 1'
stand_in "$folder" test_cuda_rows 'exec sleep 100'
parts 200 --backend cpu bits:gpt2
told "of['bits gpt2:stage2:same']['ok'] is False and 'differ' in of['bits gpt2:stage2:same']['why'] and of['bits gpt2:stage1:same']['ok'] and 'bits llama' not in of"
told "of['bits gpt2:stage3']['why'].startswith('status 9: ') and of['bits gpt2:host:same']['ok']"
parts 200 kernels:rows kernels:elements kernels:card --limit 2
told "'longer than 2 s' in of['kernels rows']['why'] and of['kernels elements']['skipped'] == 'no time was left' and of['kernels card']['ok'] is None"
parts 200 kernels:elements kernels:card
told "'that_one' in of['kernels elements']['why'] and of['kernels card']['ok']"

for wrong in "kernels launches" "--programs /nowhere kernels" "kernels --backend"; do
    got=0
    # shellcheck disable=SC2086 # words
    "$folder/run" $wrong >out.txt 2>err.txt || got=$?
    if [ "$got" -ne 64 ] || [ ! -s err.txt ]; then fail "exit code $got, not 64, of: $wrong"; fi
done
