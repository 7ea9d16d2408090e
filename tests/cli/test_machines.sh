#!/usr/bin/env bash
# Two machines in one: each a network and a UTS namespace of its own, a veth between them, mpirun across. The same weights as on one
# machine, and fewer bytes on the wire where a machine's ranks share what they gather; fewer still where it is kept for the step.
. "$(dirname "$0")/lib.sh"
. "$HERE/two_machines.sh"
unset OMPI_MCA_btl_tcp_if_include # its ranks reach each other over the wire
# Every rank on a machine of its own, as far as anybody can tell.
cat >apart.sh <<'APART'
#!/bin/sh
exec unshare --uts sh -c 'hostname "host-of-rank-$OMPI_COMM_WORLD_RANK"; exec "$0" "$@"' "$@"
APART
chmod +x apart.sh
echo '{"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2}}' >kept.json
echo '{"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4}}' >wrong.json

wire_bytes() { on $a ip -s -j link show wire | python3 -c 'import json, sys; s = json.load(sys.stdin)[0]["stats64"]; print(s["rx"]["bytes"] + s["tx"]["bytes"])'; }

# across NAME [apart] OPTION...: four ranks on two machines; NAME.wire gets the bytes that crossed the wire.
across()
{
    local name=$1 before wrapper=
    shift
    [ "$1" = apart ] && { wrapper=$WORK/apart.sh; shift; }
    before=$(wire_bytes)
    expect 0 "${ACROSS[@]}" -n 4 --map-by "${MAP:-ppr:2:node}" --host 10.77.0.1:2,10.77.0.2:2 $wrapper \
        "$ZERO" train "${common[@]}" --comm mpi --out "$WORK/$name" "$@"
    echo $(($(wire_bytes) - before)) >"$name.wire"
}

common=(--new gpt2:layers=4,heads=4,width=128,context=32 --data "$TEXT" --threads 1 --quiet --val none --steps 6 --micro-batch 1 --accumulation 1)
expect 0 "$ZERO" train "${common[@]}" --stage 3 --ranks 4 --out one
across apart apart --stage 3
across shared --stage 3
across kept --config "$WORK/kept.json"
for run in apart shared kept; do
    [ "$(fingerprint $run)" = "$(fingerprint one)" ] || fail "$run differs from one machine"
    echo "$run: $(cat $run.wire) bytes on the wire"
done
# a step's shards in each direction: 4 of gradients, and 8 of weights apart, 4 shared, 2 kept
python3 - "$(cat apart.wire)" "$(cat shared.wire)" "$(cat kept.wire)" <<'PY' || fail "the wire carried too much"
import sys
apart, shared, kept = map(float, sys.argv[1:])
print(f"shared / apart {shared / apart:.2f} (8/12), kept / apart {kept / apart:.2f} (6/12)")
sys.exit(not (shared < 0.75 * apart and kept < 0.58 * apart))
PY
# zero plan knows what crosses: to the byte what a run counts of rank 0, and all ranks are alike here.
crosses() # crosses RUN STAGE OPTION...: the last step of a run, and its plan over two machines; memory, too
{
    local run=$1 stage=$2
    shift 2
    expect 0 "$ZERO" plan --new "${common[1]}" --micro-batch 1 --ranks 4 --machines 2 --json "$@"
    python3 - "$run" "$stage" <<'PY' || fail "what zero plan says of $run is not what the run counts"
import json, sys
run, stage = sys.argv[1], int(sys.argv[2])
row = [r for r in json.load(open("out.txt"))["rows"] if r["stage"] == stage][0]
step = [j for j in map(json.loads, open(run + "/metrics.jsonl")) if "ms" in j][-1]
# Scalars are no part of the plan. They are the job's, or all-reduces where the job is one group; of a pipeline's messages it has what comes.
groups = step.get("groups", {"data": {op: n for op, n in step["comm"].items() if op != "all_reduce"}})
counted = {axis: sum(n.get("network", 0) for op, n in ops.items() if op != "send") for axis, ops in groups.items() if axis != "job"}
planned = {axis: n for axis, n in row["network"].items() if axis != "together"}
said = {axis: planned.get(axis, {"most": 0})["most"] for axis in counted}
held = {what: n["held"] for what, n in step["mem"].items()}
print(f"{run}: {counted} bytes come to a rank over the network in a step")
sys.exit(not (said == counted and row["bytes"] == held and all(n["all"] == 4 * n["most"] for n in planned.values())))
PY
}
crosses shared 3 --accumulation 1
crosses kept 3 --accumulation 1 --config "$WORK/kept.json"
# Adapters: each machine has one copy of the base at stages 0 to 2, to which the other machine's shards come. The adapters of one machine.
expect 0 "$ZERO" train "${common[@]}" --ranks 1 --out base
scratch=("${common[@]}") common=(--model "$WORK/base" --lora r=4 "${common[@]:2}")
for stage in 0 1 2; do
    expect 0 "$ZERO" train "${common[@]}" --stage $stage --ranks 4 --out adapted-$stage
    across across-$stage --stage $stage
    cmp across-$stage/adapter/adapter_model.safetensors adapted-0/adapter/adapter_model.safetensors || fail "adapters at stage $stage over two machines: other bits"
done
common=("${scratch[@]}")
for stage in 0 1 2; do crosses across-$stage $stage --accumulation 1 --lora r=4; done
python3 - <<'PY' || fail "the base does not lie once on each machine"
import json
def held(run): return [step["mem"]["parameters"]["held"] for step in map(json.loads, open(run + "/metrics.jsonl")) if "mem" in step][-1]
one, two = held("adapted-0"), held("across-0") # a quarter of the base, half of it, and the adapters
print(f"a rank's part of the base and adapters: {one} bytes on one machine, {two} on two")
assert 1.5 * one < two < 2 * one
PY
# Tensor ranks on two machines: one warning with who is where, what of a step crosses, and what helps. The weights are those of one machine.
expect 0 "$ZERO" train "${common[@]}" --ranks 4 --tensor 2 --out together
quiet=("${common[@]}") common=()
for word in "${quiet[@]}"; do [ "$word" = --quiet ] || common+=("$word"); done # warnings are to be heard
MAP=node across spread --tensor 2
[ "$(grep -c 'the tensor ranks of a model are on several machines (0 on host-a; 1 on host-b): in a step' err.txt)" -eq 1 ] \
    && grep -q 'ranks in the order of their machines (mpirun --map-by slot, srun --distribution=block) or --tensor 1 keep them together' err.txt \
    || fail "the warning of models on two machines: $(cat err.txt)"
[ "$(fingerprint spread)" = "$(fingerprint together)" ] || fail "tensor ranks on two machines have other bits"
python3 - <<'PY' || fail "what crosses is not what the warning says: $(cat err.txt)"
import json, re
said, unit = re.search(r"up to ([0-9.]+) kB of its sums .* over the network, ([0-9.]+) kB of them for h.0", open("err.txt").read()).groups()
step = [json.loads(line) for line in open("spread/metrics.jsonl")][2]
counted = sum(op.get("network", 0) for op in step["groups"]["tensor"].values())
assert abs(float(said) * 1e3 / counted - 1) < 0.01 and 4 * float(unit) < float(said), (said, unit, counted)
print(f"spread over machines: {said} kB of tensor ranks' sums a step and rank cross the network")
PY
# A pipeline across: tensor ranks share a machine, and each sends half of a boundary over the wire, 2 x 4 of which a step has. No
# warning, and the weights of one machine.
for i in "${!common[@]}"; do
    [ "${common[i]}" = --new ] && common[i + 1]=llama:layers=4,heads=4,kv_heads=2,width=128,context=32,tied=0
    [ "${common[i]}" = --accumulation ] && common[i + 1]=4
done
piped=(--pipeline 2)
expect 0 "$ZERO" train "${common[@]}" --ranks 4 "${piped[@]}" --tensor 2 --out piped
across pipes "${piped[@]}" --tensor 2
[ "$(fingerprint pipes)" = "$(fingerprint piped)" ] || fail "a pipeline over two machines has other bits"
! grep -q 'on several machines' err.txt || fail "a warning of a pipeline over two machines: $(cat err.txt)"
python3 - "$(cat pipes.wire)" <<'PY' || fail "what crosses is not the boundaries"
import sys
wire, boundaries = int(sys.argv[1]), 6 * 2 * 4 * 32 * 128 * 4
print(f"a pipeline over machines: {wire} bytes on the wire, {boundaries} of boundaries")
sys.exit(not boundaries < wire < 1.6 * boundaries)
PY
python3 - <<'PY' || fail "the bytes that metrics.jsonl counts over the network are not the boundaries"
import json, sys
step = [j for j in map(json.loads, open("pipes/metrics.jsonl")) if "groups" in j][-1]["groups"]["pipeline"]
# Rank 0 is half of a stage's tensor ranks, which divide a boundary: of 4 micro-batches it sends activations and gets gradients.
half = 4 * 32 * 128 * 4 // 2
sys.exit(not (step["send"]["network"] == half and step["recv"]["network"] == half))
PY
crosses pipes 0 "${piped[@]}" --tensor 2 --accumulation 4
# Data ranks of a pipeline stage on two machines, though another order would keep them together: a warning that says so.
expect 0 "$ZERO" train "${common[@]}" --ranks 4 "${piped[@]}" --stage 3 --out sharded
MAP=node across torn "${piped[@]}" --stage 3
[ "$(grep -c 'the ranks of pipeline stage 0 are on several machines (0 on host-a; 1 on host-b): in a step up to' err.txt)" -eq 1 ] \
    || fail "the warning of a pipeline stage on two machines: $(cat err.txt)"
[ "$(fingerprint torn)" = "$(fingerprint sharded)" ] || fail "a pipeline stage on two machines has other bits"
got=0
"${MPIRUN[@]}" -n 2 "$ZERO" train "${common[@]}" --comm mpi --config wrong.json --out wrong >out.txt 2>err.txt || got=$?
[ $got -ne 0 ] && grep -q 'zero_hpz_partition_size is 4, but 2 ranks share the memory of a machine here: it has to be 2, or 1' err.txt || fail "a wrong zero_hpz_partition_size: $(cat err.txt)"
echo "fewer bytes, the same weights"
