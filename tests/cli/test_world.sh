#!/usr/bin/env bash
# More ranks than cores: 4 and 8 processes give the same bits at stages 0 and 3, and MPI gives those bits too.
. "$(dirname "$0")/lib.sh"

for ranks in 4 8; do
    for accumulation in 1 3; do
        common=(--val none --steps 3 --micro-batch 1 --accumulation $accumulation --lr 1e-3)
        for stage in 0 3; do
            train "${common[@]}" --ranks $ranks --stage $stage --out run$stage --overwrite
        done
        [ "$(fingerprint run3)" = "$(fingerprint run0)" ] || fail "stage 3 differs from stage 0 at $ranks ranks, accumulation $accumulation"
    done
done
echo "8 runs, equal bits"
if ! command -v mpirun >/dev/null || ! "$ZERO" doctor | grep -q "^MPI *module found"; then
    echo "there is no mpirun, or no module for MPI: that part was not run" >&2
    exit 0
fi
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # Open MPI leaks at its end
for ranks in 3 4; do
    common=(train --new $TINY --data "$TEXT" --threads 1 --quiet --val none --steps 3 --micro-batch 1 --accumulation 3 --lr 1e-3)
    expect 0 "$ZERO" "${common[@]}" --ranks $ranks --stage 0 --out local --overwrite
    for stage in 1 3; do
        expect 0 "${MPIRUN[@]}" -n $ranks "$ZERO" "${common[@]}" --comm mpi --stage $stage --out mpi --overwrite
        [ "$(fingerprint mpi)" = "$(fingerprint local)" ] || fail "MPI at stage $stage differs from shared memory at stage 0, $ranks ranks"
    done
done
echo "MPI: 4 runs, equal bits"
