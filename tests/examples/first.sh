#!/usr/bin/env bash
# The first example: trains on a text, further on what it has made, and says what is wrong.
#   first.sh ZERO FIRST
set -u
zero=$(realpath "$1") first=$(realpath "$2")
fail() { echo "first: $*" >&2; exit 1; }
work=$(mktemp -d) && cd "$work" || exit 99
trap 'cd /; rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/.cache # what runs learn here is nothing for the user
for i in {1..200}; do echo "line $((i % 7)) of a small text"; done >text.txt
loss() { sed -n "s/^step $1: loss //p" said.txt; }
"$first" run 30 text.txt >said.txt || fail "exit status $?"
awk -v a="$(loss 1)" -v b="$(loss 30)" 'BEGIN { exit !(b > 0 && b < a - 0.5) }' || fail "nothing was learnt: $(cat said.txt)"
"$zero" generate --model run --tokens 8 --quiet >/dev/null || fail "the program does not read its model"
end=$(loss 30)
"$first" further 2 text.txt run >said.txt || fail "further: exit status $?"
awk -v a="$end" -v b="$(loss 1)" 'BEGIN { exit !(b > 0 && b < a + 0.5) }' || fail "training further began at $(loss 1), after $end"
"$first" other 2 missing.txt 2>said.txt && fail "a text that is not there is none"
grep -q '^first: cannot open "missing.txt"' said.txt || fail "of a missing text: $(cat said.txt)"
