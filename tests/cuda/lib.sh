# shellcheck shell=bash
# Common to the tests of the probe: the current directory is empty and goes away; $GPU is tools/gpu.
# $PROBE is the probe that was built with the tests, $EMULATED the folder of the emulated driver.
set -u
: "${PROBE:?the path of the probe}" "${EMULATED:?the folder of the emulated libcuda.so.1}"
GPU=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../tools/gpu" && pwd)
WORK=$(mktemp -d) && cd "$WORK" || exit 99
trap 'cd /; rm -rf "$WORK"' EXIT
# Without the emulated NVRTC next to it: the probe compiles its kernels by a real one, if there is any.
mkdir emulated
ln -s "$EMULATED/libcuda.so.1" "$EMULATED/libcublasLt.so.13" "$EMULATED/cuda12" emulated/
EMULATED=$WORK/emulated
unset LD_LIBRARY_PATH
export EMULATED_LEAKS=1 # what a probe does not give back is told on stderr

fail() { echo "FAIL: $*" >&2; exit 1; }

# ask OPTION...: the probe's answers in out.txt, what it and the driver complain of in err.txt.
ask()
{
    local got=0
    timeout -k 5 100 "$GPU/run" --probe "$PROBE" --emulated "$EMULATED" --small "$@" >out.txt 2>err.txt || got=$?
    case $got in 124 | 137) fail "it hangs: $* ($(tail -3 err.txt))" ;; esac
    [ "$got" -eq 0 ] || fail "exit code $got of: $* ($(tail -3 err.txt))"
}

# answers PYTHON: holds of `lines`, the answers by name, each a list of objects.
answers()
{
    python3 - "$1" <<'PY' || fail "not so: $1 ($(cat out.txt err.txt))"
import json, sys
lines = {}
for line in open("out.txt"):
    answer = json.loads(line)
    lines.setdefault(answer["probe"], []).append(answer)
one = lambda name: lines[name][0]
sys.exit(not eval(sys.argv[1]))
PY
}
