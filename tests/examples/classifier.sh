#!/usr/bin/env bash
# The example of a model of one's own: learns, and prints the same digits at every stage, under zero run and mpirun.
#   classifier.sh ZERO CLASSIFIER
set -u
zero=$1 classifier=$2
digits() { grep '^step'; }
fail() { echo "classifier: $*" >&2; exit 1; }
for ranks in 1 2 3; do
  reference=
  for stage in 0 1 2 3; do
    out=$("$zero" run --ranks "$ranks" "$classifier" 75 "$stage") || fail "stage $stage on $ranks ranks failed"
    right=$(printf '%s\n' "$out" | sed -n 's/ of 320 unseen images right.*//p')
    [ "${right:-0}" -ge 300 ] || fail "stage $stage on $ranks ranks: only ${right:-none} of 320 right"
    lines=$(printf '%s\n' "$out" | digits)
    [ -n "$reference" ] || reference=$lines
    [ "$lines" = "$reference" ] || fail "stage $stage differs from stage 0 on $ranks ranks"
  done
done
if command -v mpirun >/dev/null; then
  for ranks in 3; do
    lines=$(mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$classifier" 75 3 | digits)
    [ "$lines" = "$reference" ] || fail "mpirun on $ranks ranks differs from zero run"
  done
else
  echo "classifier: mpirun is not installed: that part was skipped" >&2
fi
