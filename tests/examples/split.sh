#!/usr/bin/env bash
# The example of a split model of one's own: learns, and on any number of tensor ranks it is the same model up to rounding.
#   split.sh ZERO SPLIT
set -u
zero=$1 split=$2
fail() { echo "split: $*" >&2; exit 1; }
losses() # losses RANKS TENSOR: of steps 50, 100, 150 and 200, on one line
{
  local out
  out=$("$zero" run --ranks "$1" "$split" "$2" 200) || fail "$1 ranks, $2 tensor ranks: exit status $?"
  [ "$(printf '%s\n' "$out" | wc -l)" = 4 ] || fail "$1 ranks, $2 tensor ranks: not 4 lines: $out"
  printf '%s\n' "$out" | awk '{ printf "%s ", $4 }'
}
for data in 1 2; do
  reference=$(losses "$data" 1) || exit 1
  for tensor in 1 2 4 5; do
    got=$(losses $((data * tensor)) "$tensor") || exit 1
    # shellcheck disable=SC2086 # numbers are words
    printf '%s\n' $reference $got | awk '{ x[NR] = $1 }
      END { d = x[5] - x[1]; exit !(x[1] > 0.1 && d * d < 1e-6 && x[4] < 0.05 && x[8] < 0.05) }' ||
      fail "$data data ranks: the losses $got on $tensor tensor ranks are not those of one: $reference"
  done
done
