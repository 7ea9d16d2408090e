#!/usr/bin/env bash
# The example of a graph network: learns, gives one set of bits at every stage on 1, 2 and 4 ranks, and takes its words alone.
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
    END { exit !(n == 50 && loss[0] > 1.3 && loss[49] < 0.3 && right > 0.85 * 768) }' || fail "$way: it has not learnt: $reference"
done
refused() # refused SENTENCE WORD...
{
  local want=$1 said
  shift
  said=$("$zero" run --ranks 1 "$graph" "$@" 2>&1) && fail "$* is taken"
  grep -qxF "graph: $want" <<<"$said" && [ "$(wc -l <<<"$said")" -le 2 ] || fail "$*: $said, not: $want"
}
refused 'word 1 is STAGE, 0 to 3, not "4"' 4
refused 'word 1 is STAGE, 0 to 3, not ""' ''
refused 'word 2 is STEPS, 0 to 1000000, not "5x"' 3 5x
refused 'word 2 is STEPS, 0 to 1000000, not "-1"' 3 -1
refused 'word 3 is WEIGHTS, mean or symmetric, not "m"' 3 5 m
refused 'word 4 is NODES, full or sampled, not "s"' 3 5 mean s
refused 'at most 5 words are taken, STAGE, STEPS, WEIGHTS, NODES and FILE; "more" is one more' 3 5 mean full graph_test/w more
rm -r graph_test
