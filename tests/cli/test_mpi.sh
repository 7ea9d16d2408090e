#!/usr/bin/env bash
# Under mpirun: no --ranks needed, one that disagrees refused, the same bits over MPI as over shared memory.
. "$(dirname "$0")/lib.sh"
command -v mpirun >/dev/null || { echo "SKIPPED: there is no mpirun on this machine"; exit 77; }
"$ZERO" doctor | grep -q "^MPI *module found" || { echo "SKIPPED: this build has no module for MPI"; exit 77; }
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # Open MPI leaks at its end
common=(train --new $TINY --data "$TEXT" --threads 1 --quiet --val none --steps 4 --micro-batch 2 --accumulation 2)
expect 0 "$ZERO" "${common[@]}" --ranks 2 --stage 1 --out local
expect 0 "${MPIRUN[@]}" -n 2 "$ZERO" "${common[@]}" --stage 3 --out auto
expect 0 "${MPIRUN[@]}" -n 2 "$ZERO" "${common[@]}" --stage 3 --comm mpi --out mpi3
expect 0 "${MPIRUN[@]}" -n 2 "$ZERO" "${common[@]}" --stage 2 --comm mpi --out mpi2
for run in auto mpi3 mpi2; do
    [ "$(fingerprint $run)" = "$(fingerprint local)" ] || fail "$run differs from local"
done
# Tensor ranks that divide activation checkpoints.
cat >divided.json <<'JSON'
{"libzero": {"exact_tensor": 2}, "activation_checkpointing": {"number_checkpoints": 100, "partition_activations": true}}
JSON
expect 0 "$ZERO" "${common[@]}" --config divided.json --ranks 1 --stage 1 --out whole
expect 0 "${MPIRUN[@]}" -n 2 "$ZERO" "${common[@]}" --config divided.json --tensor 2 --stage 1 --comm mpi --out divided
[ "$(fingerprint divided)" = "$(fingerprint whole)" ] || fail "divided checkpoints over MPI: other bits than whole ones on one rank"
got=0
timeout 100 "${MPIRUN[@]}" -n 2 "$ZERO" "${common[@]}" --ranks 3 --out wrong >out.txt 2>err.txt || got=$?
[ $got -ne 0 ] && [ "$(grep -c 'but the launcher started 2' err.txt)" -eq 1 ] || fail "--ranks that disagrees: $got, $(cat err.txt)"
[ ! -e wrong ] || fail "a refused run left something"

# Another MPI's mpirun: its ranks would each be alone.
case $("$ZERO" doctor | grep '^MPI') in *'built with MPICH'*) other=orterun of='Open MPI' ;; *) other=mpiexec.hydra of=MPICH ;; esac
mkdir other && printf '#!/bin/sh\n' >other/$other && chmod +x other/$other && ln -s $other other/mpirun
PATH=$WORK/other:$PATH "$ZERO" doctor | grep -q "^MPI .*$WORK/other/mpirun is of $of" || fail "doctor says nothing of an mpirun of $of"
echo "the same bits under mpirun"
