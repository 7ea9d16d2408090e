#!/usr/bin/env bash
# The example of a graph network: learns, with the losses that torch has in fp64 (tests/oracle/graph_network.py), gives one set of
# bits at every stage on 1, 2 and 4 ranks, and takes its words alone.
#   graph.sh ZERO GRAPH
set -u
zero=$1 graph=$2
fail() { echo "graph: $*" >&2; exit 1; }
rm -rf graph_test && mkdir graph_test || exit 1
declare -A torch=( # the losses of steps 1, 10 and 50
  ["mean full"]="1.41103915 1.02312902 0.0196947412"
  ["symmetric full"]="1.4107005 1.02949171 0.0231343198"
  ["mean sampled"]="1.40663456 1.08629739 0.236792307"
  ["symmetric sampled"]="1.40677583 1.08844691 0.241470297"
)
declare -A losses
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
  losses[$way]=$(awk '/^step/ && ($2 == 1 || $2 == 10 || $2 == 50) { printf "%s ", $4 }' <<<"$reference")
  # The bits of exp and log are not those of every processor and library.
  awk -v ours="${losses[$way]}" -v theirs="${torch[$way]}" 'BEGIN {
    same = split(ours, a) == 3 && split(theirs, b) == 3
    for (i = 1; i <= 3; i++) same = same && a[i] > b[i] * (1 - 1e-5) && a[i] < b[i] * (1 + 1e-5)
    exit !same
  }' || fail "$way: the losses of steps 1, 10 and 50 are ${losses[$way]}, and torch's are ${torch[$way]}"
done
for nodes in full sampled; do
  [ "${losses["mean $nodes"]}" != "${losses["symmetric $nodes"]}" ] || fail "$nodes: the weights mean and symmetric have the same losses"
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
