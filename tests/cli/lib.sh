# Common to the tests of the program: $ZERO is the program, $TEXT a small text, the current directory is empty and goes away.
set -u
: "${ZERO:?the path of the program}"
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WORK=$(mktemp -d) && cd "$WORK" || exit 99
trap 'cd /; rm -rf "$WORK" "$WORK.no_driver"' EXIT
export OMP_WAIT_POLICY=passive
export XDG_CACHE_HOME="$WORK/.cache" # what runs learn here is nothing for the user

# No test sees a card that this machine may have: the driver that the loader finds first is none.
NO_DRIVER=$WORK.no_driver
mkdir "$NO_DRIVER" && : >"$NO_DRIVER/libcuda.so.1"
export LD_LIBRARY_PATH=$NO_DRIVER${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

TINY=gpt2:layers=2,heads=2,width=32,context=32
TEXT=$WORK/text.txt
awk 'BEGIN { for (i = 0; i < 900; i++) printf "%d times %d is %d, said the %s.\n", i % 37, i % 11, (i % 37) * (i % 11), i % 3 ? "owl" : "pussycat" }' >"$TEXT"

# Ranks by mpirun: Open MPI's refuses root, and more ranks than cores; MPICH's knows no such refusals. The ranks are on one machine, and
# Open MPI's TCP may find no way between two of its interfaces.
export OMPI_MCA_btl_tcp_if_include=lo
MPIRUN=(mpirun)
if mpirun --version 2>/dev/null | grep -q "Open MPI"; then MPIRUN+=(--allow-run-as-root --oversubscribe); fi

fail() { echo "FAIL: $*" >&2; exit 1; }

# near A B C: A and B are at most C apart. What is computed in two ways differs in its last digits, and in which is the processor's.
near() { python3 -c "import sys; a, b, c = map(float, sys.argv[1:]); sys.exit(not abs(a - b) <= c)" "$@"; }

# A sum over the bytes of this test's name, by which a third of the tests is chosen (as in tests/sanitizers.h).
name_sum() { basename "$0" | tr -d '\n' | od -An -v -tu1 | awk '{ for (i = 1; i <= NF; i++) sum += $i } END { print sum }'; }

# sample WHOLE FEW: what is tried of a matrix: all of it, or few where a sanitizer makes each run a long one, or where
# ZERO_TEST_PART, 0 to 2, names another third of the tests to be tried whole.
sample()
{
    if [ "${ZERO_TEST_SAMPLE:-no}" = yes ]; then echo "$2"
    elif [ -n "${ZERO_TEST_PART:-}" ] && [ $(($(name_sum) % 3)) -ne "$ZERO_TEST_PART" ]; then echo "$2"
    else echo "$1"; fi
}

# within SECONDS COMMAND...: runs it; 137 where it had to be killed. SIGTERM alone, which timeout sends first, is to `zero train` a wish
# to end after the step at hand, so five seconds later it is not asked any more.
within() { timeout -k 5 "$@"; }

# expect CODE COMMAND...: runs it with a deadline; out.txt and err.txt keep what it said.
expect() {
    local code=$1 got=0
    shift
    within 100 "$@" >out.txt 2>err.txt || got=$?
    case $got in 124 | 137) [ "$got" -eq "$code" ] || fail "it hangs: $* ($(tail -3 err.txt))" ;; esac
    [ "$got" -eq "$code" ] || fail "exit code $got, not $code, of: $* ($(tail -3 err.txt))"
}

# refused CODE WORDS COMMAND...: ends with that code and one line on stderr, which holds the words; leaves no output directory.
refused() {
    local code=$1 words=$2
    shift 2
    expect "$code" "$@"
    [ "$(wc -l <err.txt)" -eq 1 ] || fail "not one line on stderr of: $* ($(cat err.txt))"
    grep -qF -- "$words" err.txt || fail "stderr of: $* says \"$(cat err.txt)\", not \"$words\""
    [ ! -e out ] || fail "left behind by: $*"
}

# The file of the rates that runs here teach, which need not be there yet.
rates_file() { "$ZERO" doctor | sed -n 's/^rates .*in "\(.*\)":$/\1/p'; }

train() { expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --quiet "$@"; }

# flip FILE PLACE: changes every bit of the byte there. A byte that is only overwritten may have had that value already.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1") && [ -n "$byte" ] || fail "no byte $2 in $1"
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf %03o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# manifest RUN STEP KEY VALUE: the state of a checkpoint says so.
manifest() { python3 "$HERE/manifest.py" "$1/checkpoints/step-0000000$2/manifest.json" "$3" "$4" || fail "the manifest of $1 cannot be changed"; }

# What two runs must have in common: losses, norms, weights.
fingerprint() {
    python3 - "$1" <<'PY'
import sys, json, hashlib
lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
print([(l["step"], l["loss"], l["grad_norm"]) for l in lines if "loss" in l])
print(hashlib.sha256(open(sys.argv[1] + "/model/model.safetensors", "rb").read()).hexdigest())
PY
}

# Ranks that a process has started, in order: by /proc alone, as a bare machine has no pgrep; their numbers begin again at some time.
children_of() {
    local file line
    for file in /proc/[0-9]*/stat; do
        read -r line 2>/dev/null <"$file" || continue
        set -- "$1" "${line%% *}" ${line##*) } # the parent's number; this process; state, its parent, ...
        [ "$4" != "$1" ] || echo "$(tr '\0' '\n' <"/proc/$2/environ" | sed -n 's/^RANK=//p') $2"
    done | sort -n | cut -d ' ' -f 2
}
