#!/usr/bin/env bash
# Stages 0 to 3 give the same bits at 1, 2 and 3 ranks, with 1 and 3 micro-batches, on shared memory and under MPI; each
# stage holds less than the one before.
. "$(dirname "$0")/lib.sh"

held() { python3 -c "
import json, sys
line = [json.loads(l) for l in open(sys.argv[1] + '/metrics.jsonl')][-1]
print(line['mem'][sys.argv[2]]['held'])" "$1" "$2"; }

runs=0
for ranks in $(sample "1 2 3" 2); do
    for accumulation in $(sample "1 3" 3); do
        for stage in 0 1 2 3; do
            runs=$((runs + 1))
            train --val none --steps 4 --micro-batch 2 --accumulation $accumulation --ranks $ranks --stage $stage --lr 1e-3 --out run$stage --overwrite
            [ "$(fingerprint run$stage)" = "$(fingerprint run0)" ] || fail "stage $stage differs at $ranks ranks, accumulation $accumulation"
        done
    done
    [ $ranks -eq 1 ] && continue
    [ "$(held run1 optimizer)" -lt "$(held run0 optimizer)" ] || fail "stage 1 saves no optimizer bytes at $ranks ranks"
    [ "$(held run2 gradients)" -lt "$(held run1 gradients)" ] || fail "stage 2 saves no gradient bytes at $ranks ranks"
    [ "$(held run3 parameters)" -lt "$(held run2 parameters)" ] || fail "stage 3 saves no parameter bytes at $ranks ranks"
done
echo "$runs runs, equal bits"
