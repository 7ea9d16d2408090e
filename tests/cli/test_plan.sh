#!/usr/bin/env bash
# zero plan: the paper's Table 1, bytes that equal those of a run, what fits into a memory; doctor and bench answer.
. "$(dirname "$0")/lib.sh"

row() { awk -v s="$1" -v n="$2" '$1 == s && $2 == n { print $(NF - 1), $NF }' out.txt; }
expect 0 "$ZERO" plan --params 7.5e9
for want in "1 4 52.5" "2 4 41.3" "3 4 30.0" "1 16 35.6" "2 16 21.6" "3 16 7.50" "1 64 31.4" "2 64 16.6" "3 64 1.88" "1 1024 30.1" "2 1024 15.1" "0 1024 120"; do
    set -- $want
    [ "$(row $1 $2)" = "$3 GB" ] || fail "Table 1, 7.5B, stage $1 at $2 ranks: $(row $1 $2), not $3 GB"
done
command=$(grep '^  zero plan --params ' out.txt) || fail "no command for a cluster: $(tail -6 out.txt)"
(PATH=$(dirname "$ZERO"):$PATH $command >cluster.txt) || fail "the command does not run: $command"
grep -qE '^ +3 +8 .* 15.0 GB  yes$' cluster.txt || fail "a cluster: $(cat cluster.txt)"
expect 0 "$ZERO" plan --params 7.5B --memory 32GB
grep -q 'stage 3: 4' out.txt || fail "what do I need"

# The plan of a run is what the run holds.
train --val none --steps 1 --micro-batch 3 --ranks 2 --stage 2 --out run
expect 0 "$ZERO" plan --new $TINY --micro-batch 3 --ranks 2 --json
python3 - <<'PY' || fail "plan and run differ"
import json
row = [r for r in json.load(open("out.txt"))["rows"] if r["stage"] == 2][0]
line = [json.loads(l) for l in open("run/metrics.jsonl")][0]
assert row["bytes"] == {k: v["held"] for k, v in line["mem"].items()}, (row["bytes"], line["mem"])
PY
expect 0 "$ZERO" plan --model run/model --ranks 4
expect 0 "$ZERO" plan --model run/model/config.json --ranks 4

expect 0 "$ZERO" plan --new $TINY --memory 2MB
command=$(grep '^  zero train ' out.txt)
rm -rf run
case $command in *"zero train --new $TINY --data text.txt"*) ;; *) fail "no command: $command" ;; esac
(cd "$WORK" && PATH=$(dirname "$ZERO"):$PATH timeout 100 $command --threads 1 --steps 1 --quiet) || fail "the command does not run: $command"

# It tells how long a step takes, once the machine is known; what was measured is remembered.
export XDG_CACHE_HOME=$WORK/cache
expect 0 "$ZERO" plan --new $TINY --ranks 1
grep -q '^How long a step takes is not known: --predict' out.txt || fail "no word of --predict: $(cat out.txt)"
expect 0 "$ZERO" plan --new $TINY --ranks 1 --predict
grep -qE '^Stage 0 on 1 rank of [0-9]+ threads? here: a step takes [0-9.]+ m?s \([0-9.]+ m?s to [0-9.]+ m?s\), [0-9]+ tokens/s; bound by [a-z]+ \(compute [0-9]+%' out.txt ||
    fail "no prediction: $(cat out.txt)"
grep -qE '^Predicted besides steps: [0-9.]+ m?s to evaluate a micro-batch\.$' out.txt || fail "what no run has taught is not left out: $(cat out.txt)"
expect 0 "$ZERO" plan --new $TINY --ranks 1 --json
python3 - <<'PY' || fail "predictions as JSON: $(cat out.txt)"
import json
for row in json.load(open("out.txt"))["rows"]:
    step, besides = row["step"], row["besides"]
    assert besides["evaluated_micro_batch"] > 0 and besides["before_first_step"] is None, besides
    assert 0 < step["low"] < step["seconds"] < step["high"] and abs(sum(step["parts"].values()) - step["seconds"]) < 1e-9, step
    assert abs(step["tokens_per_second"] * step["seconds"] / (row["micro_batch"] * 32) - 1) < 1e-6 and step["bound"] in step["parts"], step
PY
refused 64 'for 4096 ranks; zero simulate predicts other machines' "$ZERO" plan --new $TINY --ranks 4096 --predict
refused 64 '--params plans by formulas that know no kernels' "$ZERO" plan --params 1e9 --predict
refused 64 '--predict belongs to the table of bytes, not to --program' "$ZERO" plan --new $TINY --program --predict

# Where nothing fits it points on to what needs less.
expect 0 "$ZERO" plan --new $TINY --memory 1KB
grep -q "zero plan --new $TINY --config auto.json --device-memory" out.txt || fail "nothing fits, and no way out: $(tail -2 out.txt)"
mkdir nvme
echo '{"libzero": {"offload": "auto", "nvme_path": "nvme"}}' >auto.json
expect 0 "$ZERO" plan --new $TINY --config auto.json --device-memory 1GB --micro-batch 2
command=$(grep '^  zero train ' out.txt) || fail "no command after a placement was chosen: $(tail -2 out.txt)"
rm -rf run
(PATH=$(dirname "$ZERO"):$PATH timeout 100 $command --threads 1 --steps 1 --quiet) || fail "the command does not run: $command"
expect 0 "$ZERO" plan --new $TINY --config auto.json --device-memory 1KB
grep -q 'a smaller micro-batch (--micro-batch) and more ranks need less' out.txt || fail "nothing fits, and no way out: $(tail -2 out.txt)"

# Where states are offloaded each tier's bytes are told apart; a stage that cannot offload them has no row; budgets are held against them.
mkdir disk
echo '{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "disk"}, "offload_optimizer": {"device": "cpu"}}}' >offload.json
train --val none --steps 1 --micro-batch 3 --ranks 2 --config offload.json --out run --overwrite
expect 0 "$ZERO" plan --new $TINY --micro-batch 3 --ranks 2 --config offload.json --json
python3 - <<'PY' || fail "plan and run with offload differ"
import json
row, = json.load(open("out.txt"))["rows"]
line = [json.loads(l) for l in open("run/metrics.jsonl")][0]
assert row["stage"] == 3 and row["bytes"] == {k: v["held"] for k, v in line["mem"].items()}, (row["bytes"], line["mem"])
assert row["tiers"] == line["tiers"] and row["total"] == row["tiers"]["device"] + row["tiers"]["host"], (row, line["tiers"])
open("device", "w").write(str(row["tiers"]["device"]))
open("host", "w").write(str(2 * row["tiers"]["host"]))
PY
fits() { expect 0 "$ZERO" plan --new $TINY --micro-batch 3 --ranks 2 --config offload.json --json "$@"; grep -o '"fits":[a-z]*' out.txt; }
[ "$(fits --device-memory $(cat device) --host-memory $(cat host))" = '"fits":true' ] || fail "budgets of exactly the plan's bytes"
[ "$(fits --device-memory $(($(cat device) - 1)))" = '"fits":false' ] || fail "a byte less on the device"
[ "$(fits --host-memory $(($(cat host) - 1)))" = '"fits":false' ] || fail "a byte less on the host"
[ "$(fits --memory $((2 * $(cat device) + $(cat host))))" = '"fits":true' ] || fail "a machine's memory of exactly the bytes of its ranks"
[ "$(fits --memory $((2 * $(cat device) + $(cat host) - 2)))" = '"fits":false' ] || fail "two bytes less in the machine"
expect 0 "$ZERO" plan --new $TINY --config offload.json --device-memory 1MB --dtype bf16
grep -q 'parameters on NVMe, gradients and optimizer states on the host: stage 3 alone' out.txt || fail "where states lie"
command=$(grep '^  zero train ' out.txt)
case $command in *"--config offload.json --dtype bf16 --device-memory 1000000 --ranks "*) ;; *) fail "no command: $command" ;; esac
rm -rf run
(PATH=$(dirname "$ZERO"):$PATH timeout 100 $command --threads 1 --steps 1 --quiet) || fail "the command does not run: $command"
refused 64 '--memory BYTES' "$ZERO" plan --params 7.5e9 --device-memory 1GB
refused 64 'number of bytes' "$ZERO" plan --new gpt2 --host-memory 12XB

expect 0 "$ZERO" plan --new gpt2 --memory 100MB --seq 64
grep -q 'Nothing of this fits' out.txt || fail "a memory that is too small"
refused 64 'none of --new' "$ZERO" plan
refused 64 'number of bytes' "$ZERO" plan --new gpt2 --memory 12XB
refused 64 '--memory 80: that is 80 bytes; 80GB?' "$ZERO" plan --new gpt2 --memory 80

# Memory is the machine's, written as people do: what is printed fits into it, all ranks together.
for memory in 2mb "2 MB" 2000kb; do
    expect 0 "$ZERO" plan --new $TINY --ranks 2 --memory "$memory"
    grep -q '^The least that fits into 2.00 MB of one machine:$' out.txt || fail "--memory $memory: $(tail -3 out.txt)"
done
expect 0 "$ZERO" plan --new $TINY --ranks 4 --memory 7MB --json
python3 -c '
import json
for row in json.load(open("out.txt"))["rows"]: assert row["fits"] == (4 * row["total"] <= 7e6) or row["micro_batch"] > 1, row' || fail "ranks share the memory: $(cat out.txt)"

# What does not fit gets the least change with which it would; how many bytes kernels need depends on the processor.
expect 0 "$ZERO" plan --new gpt2:layers=2,heads=2,width=64,context=512,vocab=4000 --ranks 1 --memory 16MB --micro-batch 4
grep -qE '^With --ranks 1, stage 0 with offload_optimizer none, offload_param none, micro-batch [12], activation_checkpointing.number_checkpoints 3, --seq [0-9]+ would fit' out.txt || fail "no change that fits: $(cat out.txt)"

# No command of more ranks than a training can have; a window of no more than 4,096 tokens that nobody said, in words.
expect 0 "$ZERO" plan --new $TINY --ranks 1025 --micro-batch 1
! grep -q '^  zero train' out.txt && grep -q 'at most 1024 ranks' out.txt || fail "a command of 1025 ranks: $(tail -2 out.txt)"
expect 0 "$ZERO" plan --new llama:layers=1,heads=2,width=16,context=8192,vocab=99 --ranks 1
grep -q '^--seq 4096: the model.s context is 8192; --seq says another$' err.txt && grep -q 'windows of 4096 tokens' out.txt || fail "window: $(cat out.txt err.txt)"
refused 74 'there is no directory "org/name": models are read from the disk, and `hf download org/name --local-dir name` brings' "$ZERO" plan --model org/name --ranks 1
: >model.gguf
refused 74 '"model.gguf" is a GGUF file' "$ZERO" plan --model model.gguf --ranks 1
refused 64 'there is no preset' "$ZERO" plan --new gpt9

# Where ranks are, and what crosses the network: every rank once, groups, bytes by axis, the run's warning; a large grid, at once.
grid="--new llama:layers=6,heads=8,kv_heads=2,width=64,context=32,vocab=263 --ranks 16 --pipeline 2 --tensor 4 --accumulation 4"
expect 0 "$ZERO" plan $grid --stage 2 --machines 4,8,4
grep -qE '^ +1 +4 to 7 +0 +1 +0 to 3$' out.txt || fail "who is where: $(cat out.txt)"
grep -qE '^ +1 +8 to 11 +1 +0 +0 to 3$' out.txt && grep -q '^16 ranks on 3 machines:$' out.txt || fail "who is where: $(cat out.txt)"
grep -qE '^  tensor ranks: .* 0 B +0 B  none of 4$' out.txt || fail "tensor ranks inside of machines: $(cat out.txt)"
grep -qE '^  data ranks: .* kB .* MB  8 of 8: ranks 0 and 4; 1 and 5; 2 and 6; ...$' out.txt || fail "data ranks on two machines: $(cat out.txt)"
grep -q '^  mpirun -n 16 --hostfile hosts zero train .* --ranks 16 --tensor 4 --pipeline 2 --stage 2' out.txt || fail "the command over machines: $(cat out.txt)"
! grep -q '^warning' out.txt || fail "a warning of nothing: $(cat out.txt)"
expect 0 "$ZERO" plan $grid --machines 2,8,6
grep -q '^warning: the tensor ranks of a model are on several machines (0 and 1 on machine 0; 2 and 3 on machine 1): in a step up to .* of its sums come to a rank over the network, .* of them for layers.[0-9]; --tensor 2 keeps them together$' out.txt \
    || fail "the warning of a run: $(cat out.txt)"
expect 0 "$ZERO" plan $grid --machines 2,8,6 --json
python3 - <<'PY' || fail "what crosses, as JSON"
import json
rows = json.load(open("out.txt"))["rows"]
assert [r["stage"] for r in rows] == [0, 1, 2, 3]
for row in rows:
    ranks = []
    for machine, boxes in enumerate(row["machines"]):
        for box in boxes:
            places = [(p * 2 + d) * 4 + t for p in range(box["pipeline"][0], box["pipeline"][1] + 1) for d in range(box["data"][0], box["data"][1] + 1)
                      for t in range(box["tensor"][0], box["tensor"][1] + 1)]
            assert places == list(range(box["ranks"][0], box["ranks"][1] + 1)), box
            ranks += [(rank, machine) for rank in places]
    assert ranks == [(r, 0 if r < 2 else 1 if r < 10 else 2) for r in range(16)], ranks
    network = dict(row["network"])
    together = network.pop("together")
    assert sum(use["all"] for use in network.values()) == together["all"] and max(use["most"] for use in network.values()) <= together["most"], network
    assert (network["tensor"]["across"], network["data"]["across"], network["pipeline"]["across"]) == ([[0, 0], [2, 2]], [[0, 1], [4, 5]], [[0, 7]]), network
    tied = network["tied"] # of 263 tokens the last tensor rank has fewer, so all ranks are not 16 times the first
    assert tied["groups"] == 8 and 15 * tied["most"] > tied["all"] > 13 * tied["most"] and len(row["warnings"]) == 1, tied
assert len({row["network"]["tensor"]["all"] for row in rows}) == 1
assert rows[3]["network"]["data"]["all"] > rows[2]["network"]["data"]["all"]
PY
expect 0 "$ZERO" plan --new $TINY --ranks 4 --machines 1 --json
python3 -c 'import json; r = json.load(open("out.txt"))["rows"][3]; assert r["network"]["together"] == {"most": 0, "all": 0} and r["network"]["data"]["across"] == [] and r["warnings"] == [], r' || fail "one machine"
echo '{"zero_optimization": {"zero_hpz_partition_size": 4}}' >hpz.json
expect 0 "$ZERO" plan --new $TINY --ranks 8 --machines 2 --config hpz.json
expect 0 timeout 20 "$ZERO" plan --new gpt2:layers=126,heads=16,width=1024,context=1024 --ranks 1024 --pipeline 64 --tensor 8 --accumulation 64 --machines 64 --json
python3 -c 'import json; r = json.load(open("out.txt"))["rows"][3]; assert len(r["machines"]) == 64 and all(len(b) == 1 for b in r["machines"]), r["machines"]' || fail "a large grid"
refused 78 'zero_hpz_partition_size is 4, but 2 ranks share the memory of a machine here' "$ZERO" plan --new $TINY --ranks 8 --machines 4 --config hpz.json
refused 64 '--machines 3: 8 ranks cannot be divided equally among 3 machines' "$ZERO" plan --new $TINY --ranks 8 --machines 3
refused 64 '--machines 4,2,1 has 7 ranks on 3 machines, where the job has 8' "$ZERO" plan --new $TINY --ranks 8 --machines 4,2,1
refused 64 'expected a number of machines, or the ranks of each, as 4,2,2' "$ZERO" plan --new $TINY --ranks 8 --machines 4,x
refused 64 'it needs --ranks N' "$ZERO" plan --new $TINY --machines 2
refused 64 '--machines needs --new or --model' "$ZERO" plan --params 7.5e9 --ranks 8 --machines 2
refused 64 'planned for ranks of one machine' "$ZERO" plan --new $TINY --ranks 4 --machines 2 --config auto.json

# docs/parallelism.md shows what its own command prints.
python3 - "$HERE/../../docs/parallelism.md" <<'PY' || fail "docs/parallelism.md: no command, or no table"
import re, sys
section = open(sys.argv[1]).read().split("\n### Which grid to choose\n")[1].split("\n### ")[0]
command, table = re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)
open("command.txt", "w").write(command.split("#")[0])
open("table.txt", "w").write(table)
PY
command=$(cat command.txt)
(PATH=$(dirname "$ZERO"):$PATH && $command >out.txt) || fail "the command of docs/parallelism.md: $command"
while IFS= read -r line; do
    grep -qxF -- "$line" out.txt || fail "docs/parallelism.md: zero plan does not print: $line"
done <table.txt

# The program: as a list, as a drawing, as letters; the three tell of the same calls, exchanges and transfers.
views="--new gpt2:layers=3,heads=2,width=64,context=32,vocab=512 --ranks 2 --dtype bf16 --micro-batch 2 --accumulation 2"
cat >tiles.json <<'JSON'
{"libzero": {"tiling": {"all": 2}}, "activation_checkpointing": {"number_checkpoints": 2, "cpu_checkpointing": true},
 "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "disk"}, "offload_optimizer": {"device": "nvme", "nvme_path": "disk"}}}
JSON
cat >divided.json <<'JSON'
{"activation_checkpointing": {"number_checkpoints": 4, "partition_activations": true}}
JSON
for how in $(sample "--stage,0 --stage,1 --stage,3 --config,offload.json" "--stage,3") --tensor,2,--config,divided.json --config,tiles.json; do
    how=${how//,/ }
    expect 0 "$ZERO" plan $views $how --program && mv out.txt program.txt
    [ "$how" = "--config tiles.json" ] || ! grep -q ' begun ' <(tail -n +20 program.txt) || fail "a body without streamed pieces"
    expect 0 "$ZERO" plan $views $how --draw - && mv out.txt letters.txt
    expect 0 "$ZERO" plan $views $how --draw program.svg
    grep -qx 'program.svg: a drawing of the program' err.txt && [ ! -s out.txt ] || fail "where the drawing is: $(cat out.txt err.txt)"
    python3 "$HERE/plan_views.py" program.txt program.svg letters.txt || fail "views of the program of $how"
done
expect 0 "$ZERO" plan $views --tensor 2 --config divided.json --program
[ "$(grep -c '^ *[0-9]*  JOIN  .* activation checkpoints+' out.txt)" -eq 2 ] || fail "divided checkpoints: not two are brought together"
head -1 out.txt | grep -q ': stage 0, 2 ranks (1 data x 2 tensor), micro-batches' || fail "the title: $(head -1 out.txt)"
# Four segments have three checkpoints whole, or two buffers and two halves. With fewer segments dividing costs more than it saves.
expect 0 "$ZERO" plan $views --tensor 2 --config divided.json
grep -q '^  P_a  each keeps 1/2 of an activation checkpoint, and fetches .* in 4 gathers of the rest (micro-batch 2); with so few segments that saves nothing: checkpoints take 49.2 kB divided, 49.2 kB whole$' out.txt || fail "ZeRO-R: $(cat out.txt)"
sed -i 's/: 4/: 3/' divided.json
expect 0 "$ZERO" plan $views --tensor 2 --config divided.json
grep -q '^  P_a  .* in 2 gathers of the rest (micro-batch 2); with so few segments that costs memory: checkpoints take 41.0 kB divided, 32.8 kB whole$' out.txt || fail "ZeRO-R of three segments: $(cat out.txt)"
expect 0 "$ZERO" plan ${views/layers=3/layers=8} --tensor 2 --config <(sed 's/: 3/: 8/' divided.json)
grep -q '^  P_a  .* gathers of the rest (micro-batch 2)$' out.txt || fail "ZeRO-R of eight segments: $(cat out.txt)"
grep -q '^ *[0-9]*    [A-Z].* ended h.0/' program.txt || fail "tiles: no instruction in the body of a CALL"
grep -q '^  [0-9 a-z]*forward again: ' letters.txt || fail "checkpoints: nothing is computed again"
head -1 program.txt | grep -qx 'gpt2:.*: stage 3, 2 ranks, micro-batches of 2 x 32 tokens, bf16' || fail "the title: $(head -1 program.txt)"
expect 0 "$ZERO" plan --new $TINY --config offload.json --program && grep -q ': stage 3, 1 rank, ' out.txt || fail "one rank, where none are given"
# Of a large model, and of one whose name is no XML, too.
expect 0 "$ZERO" plan --new llama:layers=300,heads=2,width=64,vocab=512 --stage 2 --ranks 2 --draw large.svg
python3 -c 'import sys, xml.etree.ElementTree as t; r = t.parse("large.svg").getroot(); assert int(r.get("width")) <= 1240, r.get("width"); t = "".join(r.itertext()); assert t.count("... 296 like these ...") == 2 and "the calls of layers.2 to layers.297;" in t, t[-900:]' || fail "a large drawing"
mkdir 'a<b&c' && cp run/model/config.json 'a<b&c/'
expect 0 "$ZERO" plan --model 'a<b&c' --draw name.svg
python3 -c 'import xml.etree.ElementTree as t; assert "a<b&c" in "".join(t.parse("name.svg").getroot().itertext())' || fail "a name with < and &"
# What does not go together, and a file that cannot be written; nothing is left behind.
refused 64 '--program and --draw are both given' "$ZERO" plan --new $TINY --program --draw out
refused 64 '--json and --program are both given' "$ZERO" plan --new $TINY --program --json
refused 64 '--json and --draw are both given' "$ZERO" plan --new $TINY --draw out --json
refused 64 '--program needs --new or --model' "$ZERO" plan --params 7.5e9 --program
refused 64 '--draw needs --new or --model' "$ZERO" plan --params 7.5e9 --draw out
refused 64 '--memory asks what fits' "$ZERO" plan --new $TINY --memory 1GB --draw -
refused 64 'libzero.offload is auto' "$ZERO" plan --new $TINY --config auto.json --program
refused 64 '--draw needs a value' "$ZERO" plan --new $TINY --draw
refused 74 'nowhere/out' "$ZERO" plan --new $TINY --draw nowhere/out
[ "$(find . -name '*.svg*' | sort | tr '\n' ' ')" = "./large.svg ./name.svg ./program.svg " ] || fail "left behind: $(find . -name '*.svg*')"

# docs/how-it-works.md shows what its own command makes, and lines of the list that --program prints.
python3 - "$HERE/../../docs/how-it-works.md" <<'PY' || fail "docs/how-it-works.md: no command, no configuration or no list"
import re, sys
section = open(sys.argv[1]).read().split("\n## The program\n")[1].split("\n## ")[0]
blocks = re.findall(r"^```(?:json)?\n(.*?)^```$", section, re.M | re.S)
config, command, listed, letters = blocks
open("nvme.json", "w").write(config)
open("command.txt", "w").write(command)
open("listed.txt", "w").write(listed)
open("letters.txt", "w").write(letters)
PY
drawn=$(cat command.txt)
shown=${drawn% --draw program.svg}
(PATH=$(dirname "$ZERO"):$PATH && $drawn 2>/dev/null && $shown --program >program.txt && $shown --draw - >letters-now.txt) || fail "the commands of docs/how-it-works.md: $drawn"
cmp program.svg "$HERE/../../docs/program.svg" || fail "docs/program.svg is not what this draws: $drawn"
while IFS= read -r line; do
    grep -qxF -- "$line" program.txt || fail "docs/how-it-works.md: --program does not print: $line"
done <listed.txt
while IFS= read -r line; do
    grep -qxF -- "$line" letters-now.txt || fail "docs/how-it-works.md: --draw - does not print: $line"
done <letters.txt

expect 0 "$ZERO" doctor
grep -qE '^locked memory +(unlimited$|[0-9.]+ [kMGTP]?B)' out.txt || fail "a limit without its unit: $(grep '^locked' out.txt)"
for what in processor cores instructions compute memory MPI io_uring disk "largest model"; do
    grep -q "^$what " out.txt || fail "doctor says nothing of $what"
done
for what in O_DIRECT engine bandwidth; do
    grep -q "^  $what " out.txt || fail "doctor says nothing of the disk's $what"
done
[ "$(grep -c 'billion parameters (paper' out.txt)" -eq 5 ] || fail "doctor: not a row for each tier"
# Its JSON has what its text has. Memory and rates are measured anew for each, so they need not be the same.
mv out.txt doctor.txt
expect 0 "$ZERO" doctor --json
python3 - doctor.txt out.txt <<'P' || fail "zero doctor --json: $(cat out.txt)"
import json, re, sys
text, answer = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))
label = lambda name: re.search(rf"^{name} +(.*)$", text, re.M)[1]
near = lambda value, shown: abs(value - float(shown)) <= 0.2 * abs(value) + 0.01
yes = lambda flag: "yes" if flag else "no"
assert answer["version"] == label("zero"), answer["version"]
assert "{name} {release}, {machine}".format(**answer["system"]) == label("system")
processor, limits, mpi, largest = (answer[key] for key in ("processor", "limits", "mpi", "largest_model"))
assert processor["model"] == label("processor") and "{cores} may be used ({cores_reason})".format(**processor) == label("cores")
flags = [yes(processor[key]) for key in ("avx2_fma", "avx512", "avx512_bf16", "amx_bf16", "crc32")]
assert flags == re.findall(r"(yes|no)\b", label("instructions")), flags
assert answer["backends"] == label("backends")
assert near(answer["memory"]["bytes"] / 1e9, label("memory").split()[0]), answer["memory"]
assert near(answer["verdict"]["parameters_in_memory"] / 1e9, re.search(r"up to ([0-9.]+)", label("verdict"))[1]), answer["verdict"]
lacks = ", ".join("{what} ({why})".format(**lack) for lack in answer["missing"]) or "nothing"
command = ": " + answer["missing_command"] if "missing_command" in answer else ""
assert lacks + command == label("missing"), (lacks, command)
assert re.sub(r"[0-9.]+GB", "", answer["next_command"]) in re.sub(r"[0-9.]+GB", "", label("next"))
for key, name in ("driver", "NVIDIA"), ("cublaslt", "  cuBLASLt"), ("nvrtc", "  NVRTC"):
    library = answer["nvidia"][key]
    assert library.get("error", library.get("version")) in label(name), (library, label(name))
assert len(answer["nvidia"]["cards"]) == len(re.findall("^  cuda:[0-9]", text, re.M)), answer["nvidia"]
assert label("MPI").startswith("module found, built with " + mpi["library"] if mpi["module"] else mpi["error"]), mpi
bytes_of = lambda shown: float(shown.split()[0]) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[shown.split()[1]]
locked = label("locked memory")
assert locked == "unlimited" if limits["locked_memory_bytes"] is None else near(limits["locked_memory_bytes"], bytes_of(locked)), limits
assert limits["open_files"] == int(label("open files").split()[0]), limits
assert answer["io_uring"]["offered"] == label("io_uring").startswith("yes")
disk = answer["disk"]
assert label("disk").startswith('"%s" (%s, ' % (disk["path"], disk["file_system"])), disk
assert disk["engine"] == label("  engine") and yes(disk["direct"]) == label("  O_DIRECT").split()[0], disk
assert all(disk[key + "_bytes_per_second"] > 1e6 for key in ("read", "write", "update")), disk
rows = re.findall(r"^ {15}(\S.*\S) +([0-9.]+) billion parameters \(paper: ([0-9.]+)\)$", text, re.M)
assert len(rows) == 5 and [row[0] for row in rows] == [row["states"] for row in largest["placements"]], rows
for row, (_, ours, paper) in zip(largest["placements"], rows):
    assert near(row["parameters"] / 1e9, ours) and near(row["paper_parameters"] / 1e9, paper), (row, ours, paper)
P
expect 0 "$ZERO" doctor --path nowhere --json
python3 -c 'import json; disk = json.load(open("out.txt"))["disk"]; assert list(disk) == ["error"] and "nowhere" in disk["error"], disk' || fail "$(cat out.txt)"
expect 0 "$ZERO" doctor --path nowhere
grep -q '^disk .*"nowhere"' out.txt || fail "doctor: not a word of a directory that is none"
expect 0 "$ZERO" bench comm --ranks 2 --seconds 0.001
for what in reduce-scatter all-gather all-reduce barrier 'mapped parameters'; do
    grep -q "^$what " out.txt || fail "bench says nothing of $what"
done
export XDG_CACHE_HOME=$WORK/cache # what bench keeps
expect 0 "$ZERO" bench memory --seconds 0.001 --threads 2
[ "$(grep -cE '^ +[12] .* GB/s$' out.txt)" -eq 2 ] || fail "bench memory: not a row for 1 and one for 2 threads"
[ "$(grep -cE '^ +[12] +(64|128|256) .* GB/s, [0-9.]+ of it$' out.txt)" -eq 6 ] || fail "bench memory: not sums of 3 widths for 1 and 2 threads"
grep -q '"copy"' cache/libzero/rates-*.json || fail "bench memory keeps nothing"
expect 0 "$ZERO" bench memory --seconds 0.001 --threads 1 --json
python3 -c 'import json; said = json.load(open("out.txt")); assert [r["threads"] for r in said["rows"]] == [1] and [r["width"] for r in said["sums"] if 0 < r["sums"] < 1e13] == [64, 128, 256]' || fail "bench memory --json"
expect 0 "$ZERO" bench io --seconds 0.001 --bytes 8MiB
for what in read write update; do
    grep -q "^$what .* GB/s" out.txt || fail "bench io says nothing of $what"
done
grep -q '"direct"' cache/libzero/rates-*.json && grep -q '"copy"' cache/libzero/rates-*.json || fail "bench io keeps nothing, or loses what memory kept"
expect 0 "$ZERO" bench io --path cache --seconds 0.001 --bytes 1MiB --block 64KiB --depth 2 --json
python3 -c 'import json; o = json.load(open("out.txt")); assert o["block"] == 65536 and o["depth"] == 2 and o["scratch"] <= 1 << 20 and o["update"]["median"] > 0, o' || fail "bench io --json"
expect 0 "$ZERO" bench checkpoint --path cache --new gpt2:layers=1,heads=1,width=16,context=16 --ranks 2 --stage 3
for what in save load; do
    grep -q "^$what .* GB/s" out.txt || fail "bench checkpoint says nothing of $what"
done
refused 64 'nowhere' "$ZERO" bench checkpoint --path nowhere/else --new gpt2:layers=1,heads=1,width=16,context=16
[ -z "$(find . -name 'zero-bench*')" ] || fail "bench io leaves scratch files"
refused 64 'a multiple of 4096' "$ZERO" bench io --block 5000
refused 64 'no measuring' "$ZERO" bench io --bytes 16384
refused 64 'nowhere' "$ZERO" bench io --path nowhere
XDG_CACHE_HOME=/proc/nowhere expect 0 "$ZERO" bench io --seconds 0.001 --bytes 8MiB
grep -q 'not kept' err.txt || fail "bench io: not a word of figures that cannot be kept"
refused 64 'prints no JSON' "$ZERO" bench gemm --json
refused 64 'with one rank' "$ZERO" bench memory --ranks 2
refused 64 'usage' "$ZERO" bench
refused 64 'one of comm|gemm' "$ZERO" bench disk
echo "planned"
