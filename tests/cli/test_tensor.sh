#!/usr/bin/env bash
# Tensor parallelism as a user meets it: the same bits on every grid of ranks, in every mode; checkpoints from any grid to any other and from
# before there were slices; what is printed and counted; ranks that die.
. "$(dirname "$0")/lib.sh"
GPT=gpt2:layers=2,heads=4,width=32,context=32,dropout=0.1
LLAMA=llama:layers=2,heads=4,kv_heads=2,width=32,inner=64,context=32,tied=0,vocab=257
SLICES='"train_batch_size": 4, "libzero": {"exact_tensor": 4, "exact_world": true'
config() { echo "{$SLICES${2:-}}${3:-}}" >"$1.json"; } # config NAME MORE_OF_LIBZERO MORE
run() { # run NAME CONFIG OPTION...
    expect 0 "$ZERO" train --data "$TEXT" --threads 1 --micro-batch 1 --quiet --config "$2.json" --out "$1" "${@:3}"
}
same() { # same NAME NAME...: these runs have equal losses, norms and weights
    local run
    for run in "${@:2}"; do [ "$(fingerprint "$run")" = "$(fingerprint "$1")" ] || fail "$run differs from $1"; done
}
values() { grep -o '"val_loss":[^,}]*' "$1/metrics.jsonl"; }

# One to four ranks, of which none, two or four compute a model: the same bits at every stage, with rows divided or not, and where it is
# evaluated. The model is of four slices, one token table's last slices are empty, and pairs of slices share keys.
config four
n=0
for model in $(sample "$GPT $LLAMA" "$LLAMA"); do
    run one four --new "$model" --steps 3 --eval-every 1 --ranks 1
    for grid in $(sample "2,--tensor,2,--stage,1 4,--tensor,2,--stage,3,--sequence-parallel 4,--tensor,4,--stage,2 2,--stage,3" \
        "4,--tensor,2,--stage,3,--sequence-parallel 4,--tensor,4,--stage,2"); do
        # shellcheck disable=SC2086 # words
        run other four --new "$model" --steps 3 --eval-every 1 --ranks ${grid//,/ }
        same one other
        [ "$(values other)" = "$(values one)" ] || fail "$grid evaluates otherwise"
        cmp -s one/best/model.safetensors other/best/model.safetensors || fail "$grid has another best model"
        n=$((n + 1))
        rm -r other
    done
    rm -r one
done
# Without a promise two tensor ranks have bits of their own, but the same ones at every stage.
echo '{}' >plain.json
run zero plain --new $GPT --steps 3 --eval-every 0 --ranks 2 --tensor 2
run three plain --new $GPT --steps 3 --eval-every 0 --ranks 2 --tensor 2 --stage 3
same zero three

# Every mode is what it is on one rank.
mkdir nvme
python3 - >chat.jsonl <<'PY'
import json
for i in range(40):
    print(json.dumps({"messages": [{"role": "user", "content": f"what is {i}?"}, {"role": "assistant", "content": f"it is {i * i}, I say"}]}))
PY
HOST='"offload_optimizer": {"device": "cpu"}'
DISK='{"device": "nvme", "nvme_path": "nvme"}'
config lamb "" ', "optimizer": {"type": "Lamb", "params": {"lr": 0.01}}'
config delayed ', "delayed_update": {"start_step": 2}' ", \"zero_optimization\": {\"stage\": 2, $HOST}"
config fp16 "" ', "fp16": {"enabled": true}'
config nvme "" ", \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": $DISK, \"offload_param\": $DISK}"
config again "" ', "activation_checkpointing": {"number_checkpoints": 2}'
config shares "" ', "activation_checkpointing": {"number_checkpoints": 2, "partition_activations": true, "cpu_checkpointing": true}'
for mode in $(sample "lamb delayed fp16 nvme again shares" "lamb nvme"); do
    run alone $mode --new $GPT --steps 4 --eval-every 0
    run grid $mode --new $GPT --steps 4 --eval-every 0 --ranks 4 --tensor 2
    same alone grid
    rm -r alone grid
done
expect 0 "$ZERO" train --new $GPT --data chat.jsonl --chat chatml --threads 1 --micro-batch 1 --quiet --config four.json --steps 3 --out alone
expect 0 "$ZERO" train --new $GPT --data chat.jsonl --chat chatml --threads 1 --micro-batch 1 --quiet --config four.json --steps 3 --ranks 4 --tensor 2 --stage 3 --out grid
same alone grid
rm -r alone grid
expect 0 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --micro-batch 1 --config four.json --steps 2 --sample-every 2 --out alone
sed -n '/a sample/,/^---$/p' out.txt err.txt >alone.txt
expect 0 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --micro-batch 1 --config four.json --steps 2 --sample-every 2 --ranks 4 --tensor 4 --out grid --explain
sed -n '/a sample/,/^---$/p' out.txt err.txt >grid.txt
[ -s alone.txt ] && cmp -s alone.txt grid.txt || fail "samples differ"
grep -q 'ranks    4 (local processes, 1 data x 4 tensor), 1 thread each' out.txt || fail "the grid is not said: $(grep '^ranks' out.txt err.txt)"
grep -q '^exact    these bits on 1, 2 or 4 tensor ranks, which compute 4 slices' err.txt || fail "the promise is not said"
echo '{"libzero": {"offload": "auto"}}' >auto.json
# Chosen by the program: all on the device where there is room, optimizer states on the host where there is less; the plan says the same,
# every byte is where it was planned, and the bits are the same.
placed() { # placed NAME WHERE BYTES: of optimizer states, with so much room on the device
    expect 0 "$ZERO" plan --new $GPT,vocab=256 --micro-batch 1 --config auto.json --ranks 2 --tensor 2 --device-memory "$3" --json
    mv out.txt plan.json
    run "$1" auto --new $GPT --steps 1 --eval-every 0 --ranks 2 --tensor 2 --device-memory "$3"
    python3 - "$@" <<'PY' || fail "placed $1 with $3 bytes: $(cat "$1/config.json" "$1/metrics.jsonl")"
import json, sys
name, where = sys.argv[1:3]
chosen, = [p for p in json.load(open("plan.json"))["placements"] if p["chosen"]]
line = json.loads(open(name + "/metrics.jsonl").readline())
config = json.load(open(name + "/config.json"))
offload = config["zero_optimization"].get("offload_optimizer", {}).get("device", "none")
held = sum(m["held"] for m in line["mem"].values())
assert chosen["optimizer"] == where and offload == {"device": "none", "host": "cpu"}[where], (chosen, offload)
assert all(m["planned"] == m["held"] for m in line["mem"].values())
assert line.get("tiers", {"device": held, "host": 0, "nvme": 0}) == chosen["tiers"], chosen
assert (line.get("tiers", {}).get("host", 0) > 0) == (where == "host")
PY
}
placed ample device 1000000000
placed tight host 600000
same ample tight
run profiled four --new $GPT --steps 4 --eval-every 0 --ranks 4 --tensor 2 --profile trace.json
echo "{$SLICES}, \"flops_profiler\": {\"enabled\": true, \"profile_step\": 2}}" >flops.json
expect 0 "$ZERO" train --data "$TEXT" --threads 1 --micro-batch 1 --config flops.json --new $GPT --steps 2 --eval-every 0 --ranks 4 --tensor 2 --out flops
grep -qE '^flops    step 2 of rank 0 of 4: 34688 parameters, 18[0-9]{3} of them in this rank.s part, in 4 units' out.txt || fail "flops of a part: $(grep ^flops out.txt)"
grep -q '"name":"exchange"' trace.json || fail "the profile does not show what tensor ranks exchange"
expect 0 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --ranks 4 --tensor 2 --dry-run
[ ! -e out ] || fail "a dry run has left something"

# Saved every second step while training goes on, on two by two ranks; then continued from the second step on other grids, and the other
# way round. A part of a model is a rectangle in the files; the lineage says on how many tensor ranks they were written.
run whole four --new $LLAMA --steps 4 --eval-every 0 --save-every 2 --keep 0
run saved four --new $LLAMA --steps 4 --eval-every 0 --save-every 2 --keep 0 --ranks 4 --tensor 2 --stage 2
same whole saved
expect 0 "$ZERO" verify saved
grep -q 'confirmed: steps 3 to 4, replayed on 4 ranks' out.txt || fail "zero verify: $(cat out.txt err.txt)"
expect 0 "$ZERO" diff whole saved
expect 0 "$ZERO" diff whole/checkpoints/step-00000002 saved/checkpoints/step-00000002
expect 0 "$ZERO" inspect saved/checkpoints/step-00000002
grep -q 'on 4 ranks, 2 a model' out.txt || fail "zero inspect: $(head -3 out.txt)"
for run in whole saved; do expect 0 "$ZERO" convert --from $run/checkpoints/step-00000002 --to hf-$run; done
cmp -s hf-whole/model.safetensors hf-saved/model.safetensors || fail "the files of a model depend on the ranks that have written it"
python3 - <<'PY' || fail "what the manifests say"
import json
whole, saved = (json.load(open(f"{run}/checkpoints/step-00000002/manifest.json")) for run in ("whole", "saved"))
assert whole["format"] == saved["format"] == "libzero checkpoint 2"
assert "tensor" not in whole["state"]["lineage"] and saved["state"]["lineage"]["tensor"] == 2
assert saved["state"]["config"]["libzero"]["run"]["tensor"] == 2
PY
echo "{${SLICES/4, \"exact_world/2, \"exact_world}}}" >two.json
from() { # from NAME COPY: a copy of a run that has only come to its second step
    cp -r "$1" "$2" && rm -r "$2/checkpoints/step-00000004" "$2/checkpoints/latest"
}
for grid in $(sample "1 4,--tensor,4 4,--stage,3" "4,--tensor,4"); do
    from saved next
    # shellcheck disable=SC2086 # words
    run next four --new $LLAMA --steps 4 --eval-every 0 --resume --ranks ${grid//,/ }
    same whole next
    rm -r next
done
from whole next
run next four --new $LLAMA --steps 4 --eval-every 0 --resume --ranks 4 --tensor 2 --stage 3 --sequence-parallel
same whole next
rm -r next
# Another number of slices would go on with other bits under the same promise.
from saved next
expect 78 "$ZERO" train --data "$TEXT" --threads 1 --micro-batch 1 --config two.json --out next --new $LLAMA --steps 4 --resume
grep -q 'was made with libzero.exact_tensor 4, this training has 2: from here on its bits would be others' err.txt || fail "another T: $(cat err.txt)"
rm -r next
run fine-1 four --model saved --steps 2 --eval-every 0
run fine-4 four --model saved --steps 2 --eval-every 0 --ranks 4 --tensor 4 --stage 3
same fine-1 fine-4

# format_1 is a run of two ranks from before there were slices: it goes on with four slices on any grid, all with the same bits; and what
# is not cut is still written in its format.
awk 'BEGIN { for (i = 0; i < 120; i++) printf "the %d foxes and %d owls said %d.\n", i % 7, i % 5, (i % 7) * (i % 5) }' >fox.txt
echo '{"train_batch_size": 2, "libzero": {"exact_tensor": 4, "exact_world": true}}' >fox.json
fox() { # fox NAME CONFIG OPTION...
    rm -rf "$1" && cp -r "$HERE/format_1" "$1"
    expect 0 "$ZERO" train --new gpt2:layers=1,heads=4,width=16,context=16 --tokenizer chars --data fox.txt --val none --threads 1 --micro-batch 1 \
        --steps 4 --quiet --resume --out "$1" --config "$2" "${@:3}"
}
echo '{"train_batch_size": 2}' >before.json
fox before before.json --ranks 2 --stage 2
fox one fox.json --ranks 1
fox two fox.json --ranks 2 --tensor 2
fox four fox.json --ranks 4 --tensor 4
fox grid fox.json --ranks 4 --tensor 2 --stage 3
same one two four grid
python3 - <<'PY' || fail "what became of the earlier checkpoint"
import json
losses = {run: [l["loss"] for l in map(json.loads, open(run + "/metrics.jsonl"))] for run in ("before", "two")}
assert len(losses["before"]) == 4 and all(abs(a / b - 1) < 1e-5 for a, b in zip(*losses.values())), losses
before = json.load(open("before/checkpoints/step-00000004/manifest.json"))
assert before["format"] == "libzero checkpoint 1" and "tensor" not in before["state"]["lineage"]
PY

# A step's messages are those of the plan, and divided by axis.
expect 0 "$ZERO" plan --new $LLAMA --config four.json --ranks 4 --tensor 2 --micro-batch 1 --stage 2 --json
python3 - <<'PY' || fail "metrics.jsonl and zero plan"
import json
planned = [row for row in json.load(open("out.txt"))["rows"] if row["stage"] == 2][0]["exchanged"]
steps = [l for l in map(json.loads, open("saved/metrics.jsonl")) if "comm" in l]
total = lambda ops: sum(op["bytes"] for op in ops.values())
for step in steps:
    groups = step["groups"]
    assert set(groups) == {"data", "tensor", "job"} and total(groups["tensor"]) == planned > 0, (groups, planned)
    for op in set(step["comm"]).union(*groups.values()):
        for field in ("calls", "bytes"):
            parts = [group.get(op, {}).get(field, 0) for group in groups.values()]
            assert step["comm"][op][field] == sum(parts), (op, field, step["comm"], groups)
    assert groups["job"]["all_reduce"]["calls"] > 0
    assert all(m["planned"] == m["held"] for m in step["mem"].values())
assert "groups" not in open("whole/metrics.jsonl").read()
PY
# What exchanges are for adds up to what is exchanged. Communication does not grow with the number of layers.
echo '{"train_batch_size": 12, "activation_checkpointing": {"number_checkpoints": 3, "partition_activations": true}}' >purposes.json
for layers in 6 7; do
    for rows in "" --sequence-parallel; do
        # shellcheck disable=SC2086 # words
        expect 0 "$ZERO" plan --new ${LLAMA/layers=2/layers=$layers} --config purposes.json --ranks 4 --tensor 4 --micro-batch 4 --json $rows
        mv out.txt "plan-$layers$rows.json"
    done
done
python3 - <<'PY' || fail "what exchanges are for"
import json
def rows(name): return json.load(open(f"plan-{name}.json"))["rows"]
def purposes(row): return {(e["for"], e["as"]): e["calls"] for e in row["exchanges"]}
for name in ("6", "7", "6--sequence-parallel"):
    for row in rows(name):
        assert 3 * sum(e["bytes"] for e in row["exchanges"]) == row["exchanged"], row
for less, more in zip(rows("6"), rows("7")):
    assert less["zero_r"]["windows"] == more["zero_r"]["windows"] > 0
    assert less["bytes"]["communication"] == more["bytes"]["communication"]
whole, divided = purposes(rows("6")[2]), purposes(rows("6--sequence-parallel")[2])
sums, gathers = whole.pop(("sums", "all_reduce")), divided.pop(("rows", "all_gather"))
assert 4 * 6 + 2 < sums <= 6 * 6 + 2 and sums == divided.pop(("sums", "reduce_scatter")), (sums, divided)
assert gathers == sums + 2 * 6 - 1, (gathers, sums) # two more a layer in backward; one less where the embedding is computed again
assert whole == {("shared", "all_reduce"): 6, ("loss", "all_gather"): 1, ("checkpoints", "all_gather"): 1}, whole
assert divided == {("shared", "all_reduce"): 6, ("loss", "all_gather"): 1, ("gains", "all_reduce"): 7}, divided
PY
before=$(date +%s%N)
expect 0 "$ZERO" plan --new llama-3.1-8b --ranks 1024 --tensor 8
[ $((($(date +%s%N) - before) / 1000000)) -lt "$(sample 1000 20000)" ] || fail "a plan of 1024 ranks takes too long"
grep -q '^8 tensor ranks: each fetches .* a step from the others' out.txt || fail "zero plan: $(cat out.txt)"
expect 0 "$ZERO" bench step --new $GPT --ranks 2 --tensor 2 --threads 1 --seconds 0.1
grep -q 'exchanges of tensor ranks' out.txt || fail "zero bench step: $(cat out.txt)"
grep -q '^2 ranks (local processes, 1 data x 2 tensor), ' out.txt && grep -q '; 4 x 32 a data rank, ' out.txt || fail "the grid of zero bench step: $(cat out.txt)"

# A run that goes on elsewhere compares data ranks with data ranks.
expect 0 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --steps 1 --eval-every 0 --out moved --ranks 4 --tensor 2
expect 0 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --steps 2 --eval-every 0 --out moved --ranks 4 --resume
grep -q '4 data ranks instead of 2 data ranks (4 ranks, 2 a model): ' out.txt || fail "other ranks: $(cat out.txt)"

# A flag without effect is said at once, a key is counted.
unused='--sequence-parallel: no effect here: libzero.sequence_parallel: there are no tensor-parallel ranks, among which rows could be divided'
for command in "train --data $TEXT --steps 1 --eval-every 0 --out flag --overwrite" "train --data $TEXT --steps 1 --eval-every 0 --out flag --overwrite --strict" \
               "bench step --seconds 0.1"; do
    # shellcheck disable=SC2086 # words
    expect 0 "$ZERO" ${command%% --*} --new $GPT --threads 1 --sequence-parallel --${command#* --}
    grep -qx -- "$unused" err.txt && ! grep -q -- --explain err.txt || fail "zero $command: $(cat err.txt)"
done
# Threads that nobody has chosen are said, as bits depend on them.
expect 0 "$ZERO" train --new $GPT --data "$TEXT" --config four.json --micro-batch 1 --steps 1 --eval-every 0 --out threads
grep -q '^libzero.exact_world: .* of a rank follow' err.txt || fail "threads of an exact run: $(cat err.txt)"
echo '{"libzero": {"exact_tensor": 2}}' >two.json
expect 0 "$ZERO" train --new $GPT --data "$TEXT" --config two.json --steps 1 --eval-every 0 --out threads --overwrite
grep -q '^libzero.exact_tensor: .* of a rank follow' err.txt || fail "threads of a run of slices: $(cat err.txt)"

# A rank that dies, or stops, ends all others within the deadline and is named; with --restarts whole models go on.
parent=
trap '[ -z "$parent" ] || kill -KILL $parent 2>/dev/null; cd /; rm -rf "$WORK"' EXIT
start() { # start OPTION...: two by two ranks; their parent's number is in $parent, theirs in $children, once steps come
    rm -rf run
    "$ZERO" train --new $GPT --data "$TEXT" --val none --threads 1 --micro-batch 1 --quiet --ranks 4 --tensor 2 --stage 2 --steps 10000000 --out run "$@" >out.txt 2>err.txt &
    parent=$!
    for _ in $(seq 600); do [ -s run/metrics.jsonl ] && break; sleep 0.05; done
    children=$(children_of $parent)
    [ "$(echo "$children" | wc -l)" -eq 4 ] || fail "no four ranks at work: $(cat err.txt)"
}
ended() { # ended CODE MILLISECONDS WORDS: since $begin
    local got=0
    for _ in $(seq 400); do kill -0 $parent 2>/dev/null || break; sleep 0.05; done
    kill -KILL $parent 2>/dev/null # where it still runs: 137 is told below
    wait $parent || got=$?
    local ms=$((($(date +%s%N) - begin) / 1000000))
    [ $got -eq "$1" ] && grep -qE "$3" err.txt || fail "exit code $got, not $1, or not \"$3\": $(cat err.txt)"
    [ $ms -lt "$2" ] || fail "ended after $ms ms"
    for pid in $children; do kill -0 "$pid" 2>/dev/null && fail "rank process $pid is left"; done
}
for rank in 1 4; do # of the first model, of the second
    start
    begin=$(date +%s%N)
    kill -KILL "$(echo "$children" | sed -n ${rank}p)"
    ended 137 3000 "rank $((rank - 1)) was killed by signal 9 .* step [0-9]+"
    [ "$(wc -l <err.txt)" -eq 1 ] || fail "more than one line: $(cat err.txt)"
done
start --timeout 1
begin=$(date +%s%N)
kill -STOP "$(echo "$children" | sed -n 2p)"
ended 74 6000 'rank 1 '
start --restarts 1 --min-ranks 1 --save-every 20
kill -KILL "$(echo "$children" | tail -1)"
for _ in $(seq 200); do grep -q 'restart 1 of 1, with 2 ranks' err.txt && [ "$(children_of $parent | wc -l)" -eq 2 ] && break; sleep 0.05; done
grep -q 'rank 3 was killed by signal 9 .*; restart 1 of 1, with 2 ranks' err.txt || fail "no restart of a whole model: $(cat err.txt)"
steps=$(wc -l <run/metrics.jsonl)
for _ in $(seq 200); do [ "$(wc -l <run/metrics.jsonl)" -gt "$((steps + 5))" ] && break; sleep 0.05; done
children=$(children_of $parent)
begin=$(date +%s%N)
kill -TERM $parent
ended 75 60000 'ended as asked after step'
parent=

# So do they if a rank dies at once, when nobody may have told yet how many ranks compute a model.
echo '{"tensor_parallel": {"autotp_size": 2}}' >two.json
for said in "--tensor 2" "--config two.json"; do
    rm -rf run
    # shellcheck disable=SC2086 # words
    "$ZERO" train --new $GPT --data "$TEXT" --val none --threads 1 --micro-batch 1 --quiet --ranks 4 $said --restarts 1 --min-ranks 1 --steps 10000000 --out run >out.txt 2>err.txt &
    parent=$!
    for _ in $(seq 1000); do child=$(children_of $parent | tail -1); [ -n "$child" ] && break; sleep 0.01; done
    kill -KILL "$child"
    for _ in $(seq 400); do [ -s run/metrics.jsonl ] && break; sleep 0.05; done
    children=$(children_of $parent)
    begin=$(date +%s%N)
    kill -TERM $parent
    ended 75 60000 'restart 1 of 1, with 2 ranks'
done
parent=

# The same bits with MPI.
if command -v mpirun >/dev/null && "$ZERO" doctor | grep -q "^MPI *module found"; then
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # Open MPI leaks at its end
    expect 0 "${MPIRUN[@]}" -n 4 "$ZERO" train --data "$TEXT" --threads 1 --micro-batch 1 --quiet --config four.json --comm mpi --new $LLAMA --steps 4 --eval-every 0 --tensor 2 \
        --stage 3 --out mpi
    same whole mpi
else
    echo "SKIPPED: there is no mpirun, or no module for MPI: tensor ranks are not tried with it"
fi
echo "$n grids with the bits of one rank, and what else a user meets"
