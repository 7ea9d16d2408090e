#!/usr/bin/env bash
# The example of a model written as rows: learns, and on tensor ranks it is the same model up to rounding.
#   rows.sh ZERO ROWS
set -u
zero=$1 rows=$2
fail() { echo "rows: $*" >&2; exit 1; }
for ranks in 1 2; do
  one=$("$zero" run --ranks "$ranks" "$rows" 100 1) || fail "$ranks ranks: exit status $?"
  two=$("$zero" run --ranks $((2 * ranks)) "$rows" 100 2) || fail "$ranks x 2 tensor ranks: exit status $?"
  printf '%s\n%s\n' "$one" "$two" | awk '{ x[NR] = $4 }
    END { d = x[6] - x[1]; exit !(NR == 10 && x[1] > 0.05 && d * d < 1e-8 && x[5] < 0.1 && x[10] < 0.1) }' ||
    fail "$ranks ranks: the losses $one and, on 2 tensor ranks, $two"
done
"$zero" run --ranks 3 "$rows" 2 3 2>said.txt && fail "4 heads are not cut into 3"
grep -q 'counter has 4 heads' said.txt || fail "of 3 tensor ranks: $(cat said.txt)"
rm -f said.txt
