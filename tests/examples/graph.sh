#!/usr/bin/env bash
# The example of a graph network: learns, and gives one set of bits at every stage on 1, 2 and 4 ranks.
#   graph.sh ZERO GRAPH
set -u
zero=$1 graph=$2
fail() { echo "graph: $*" >&2; exit 1; }
rm -rf graph_test && mkdir graph_test || exit 1
for way in "symmetric full" "mean full" "symmetric sampled" "mean sampled"; do
  reference=
  for ranks in 1 2 4; do
    for stage in 0 1 2 3; do
      where="$way, stage $stage, $ranks ranks"
      # shellcheck disable=SC2086 # two words
      out=$("$zero" run --ranks "$ranks" "$graph" "$stage" 50 $way graph_test/weights) || fail "$where: exit status $?"
      bits="$out $(cksum graph_test/weights)"
      [ -n "$reference" ] || reference=$bits
      [ "$bits" = "$reference" ] || fail "$where: not what stage 0 on 1 rank gives: $bits, not $reference"
    done
  done
  printf '%s\n' "$reference" | awk '/^step/ { loss[n++] = $4 } / right/ { right = $1 }
    END { exit !(n == 5 && loss[0] > 0.3 && loss[4] < 0.6 * loss[0] && right > 0.85 * 768) }' || fail "$way: it has not learnt: $reference"
done
rm -r graph_test
