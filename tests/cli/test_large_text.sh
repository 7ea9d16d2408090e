#!/usr/bin/env bash
# Text and records whose tokens are too many for memory: under a limit below them a training has the losses that it has
# without one, on one rank and on several, which share one file of tokens. No file is left, and a full disk is one error.
. "$(dirname "$0")/lib.sh"
mkdir spills && export TMPDIR=$WORK/spills
SMALL="--new gpt2:layers=1,heads=1,width=16,context=32 --tokenizer bytes --threads 1 --quiet"
# On wider paths products are compiled, which takes memory of its own.
if grep -qw avx2 /proc/cpuinfo; then SMALL="$SMALL --backend cpu:avx2"; fi

# With --tokenizer bytes the ids are four times as large: 80 MB, more than a rank keeps in memory.
awk 'BEGIN { for (i = 0; i < 270000; i++) printf "%d: what was said about %d is not said about %d, nor about %d and the owl.\n", i, i % 37, i % 1009, i * i % 7919 }' >big.txt
awk 'NR % 2 { sub(/: /, "\", \"completion\": \""); print "{\"prompt\": \"" $0 "\"}" }' big.txt >big.jsonl
[ "$(wc -c <big.txt)" -gt 17500000 ] || fail "the text is too small"

nothing_left() { [ -z "$(ls -A spills)" ] || fail "left behind: $(ls -A spills)"; }

losses() { sed -nE 's/.*"step":([0-9]+).*"loss":([^,]*).*/\1 \2/p; s/.*"val_loss":([^,}]*).*/val \1/p' "$1/metrics.jsonl"; }

run() { local out=$1; shift; expect 0 "$ZERO" train $SMALL --eval-every 2 --out "$out" --overwrite "$@"; nothing_left; }

same() { [ "$(losses "$1")" = "$(losses "$2")" ] && [ -n "$(losses "$1")" ] || fail "$1 and $2 differ: $(losses "$1" | tr '\n' ' ') and $(losses "$2" | tr '\n' ' ')"; }

# The hash of all tokens.
hash() { sed -nE 's/.*"data_hash": *"([0-9a-f]+)".*/\1/p' "$1/config.json"; }

# ---- the same data from a token file, which is mapped and takes no memory, are the reference

expect 0 "$ZERO" tokenize --tokenizer bytes --data big.txt --out big.bin --threads 1
run reference --data big.bin --val none --steps 4
run text --data big.txt --val none --steps 4
same reference text
run ranks --data big.txt --val none --ranks 2 --steps 4 --save-every 2
[ "$(hash text)" = "$(hash ranks)" ] && [ "$(hash text)" = "$(hash reference)" ] || fail "hashes: $(hash reference) $(hash text) $(hash ranks)"

# ---- under a limit of what a process may have for itself, which ids in memory would exceed

run mixture --data big.txt:0.6 big.jsonl:0.4 --ranks 2 --steps 4
if (ulimit -d 49152; "$ZERO" --version) >/dev/null 2>&1; then
    (ulimit -d 49152; run limited --data big.txt --val none --ranks 2 --steps 4) || exit 1
    same ranks limited
    (ulimit -d 49152; run limited --data big.txt:0.6 big.jsonl:0.4 --ranks 2 --steps 4) || exit 1
    same mixture limited
    gzip -1 -c big.txt >big.txt.gz # whose text is small enough to be unpacked into memory
    (ulimit -d 81920; run limited --data big.txt.gz --val none --ranks 2 --steps 4) || { grep -q "built without zlib" err.txt || exit 1; }
    [ ! -s err.txt ] || grep -q "built without zlib" err.txt || same ranks limited
fi
nothing_left

# ---- a run that goes on, and one that is killed

expect 0 "$ZERO" verify ranks # from its checkpoint of step 2 on, bit by bit
expect 0 "$ZERO" train $SMALL --data big.txt --val none --ranks 2 --steps 6 --out ranks --resume
[ "$(hash text)" = "$(hash ranks)" ] || fail "the hash changed when the run went on: $(hash ranks)"
nothing_left
"$ZERO" train $SMALL --data big.txt --ranks 2 --steps 1000000 --out killed >killed.txt 2>&1 &
for i in $(seq 100); do
    [ -s killed/metrics.jsonl ] && break
    sleep 0.1
done
kill -9 $! && wait $! 2>/dev/null
nothing_left

# ---- a disk that is full, or no directory: one error, and no rank waits

for ranks in 1 2; do
    (trap '' XFSZ; ulimit -f 40000; refused 74 'tokens of "big.txt": no room in' "$ZERO" train $SMALL --data big.txt --ranks $ranks --steps 1 --out out) || exit 1
    (export TMPDIR=$WORK/missing; refused 64 'TMPDIR names another directory' "$ZERO" train $SMALL --data big.txt --ranks $ranks --steps 1 --out out) || exit 1
done
nothing_left
