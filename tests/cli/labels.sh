# What the tests of classifiers share: texts with labels, a language model, trainings of it, and comparisons of these.
python3 - <<'PY' || fail "data"
import json, random
random.seed(3)
words = "the a cat dog runs sees big small red blue fish bird tree house near over under".split()
telling = {"good": "bright", "fair": "plain", "poor": "dull"}
def texts(count):
    for i in range(count):
        label, word = list(telling.items())[i % 3]
        text = random.choices(words, k=random.randint(1, 5))
        text.insert(random.randint(0, len(text)), word)
        yield " ".join(text), label
for name, count in ("texts", 120), ("held", 30):
    with open(name + ".jsonl", "w") as f, open(name + "-stars.jsonl", "w") as stars:
        for text, label in texts(count):
            f.write(json.dumps({"text": text, "label": label}) + "\n")
            stars.write(json.dumps({"review": text, "stars": {"poor": 1, "fair": 3, "good": 10}[label], "id": "x"}) + "\n")
open("text.txt", "w").write("\n".join(text for text, _ in texts(400)))
PY

expect 0 "$ZERO" train --new llama:layers=2,width=32,heads=4,kv_heads=2,context=128 --data text.txt --out base --steps 10 \
    --micro-batch 2 --seq 64 --threads 1 --quiet
exact='"libzero": {"exact_world": true, "exact_pipeline": true}, "train_batch_size": 4'
echo "{$exact}" >exact.json
mkdir nvme
for tier in host:cpu nvme:nvme; do
    place="{\"device\": \"${tier#*:}\", \"nvme_path\": \"nvme\"}"
    echo "{\"zero_optimization\": {\"offload_optimizer\": $place, \"offload_param\": $place}, $exact}" >"${tier%:*}.json"
done
echo '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "train_batch_size": 4,
    "libzero": {"exact_world": true, "delayed_update": {"start_step": 2}}}' >delayed.json
echo '{"train_batch_size": 4, "gradient_clipping": 0, "libzero": {"loss_mean": "micro_batch"}}' >stages.json

# learn NAME ARGUMENTS...: a training of 30 steps of 4 windows, whose losses go to NAME.txt; `steps`, `every`, `rate` and `config` change it.
learn()
{
    local name=$1
    shift
    expect 0 "$ZERO" train --model base --task classify --data texts.jsonl --val held.jsonl --out "$name" --steps "${steps:-30}" --seq 128 \
        --micro-batch 1 --threads 1 --lr "${rate:-5e-3}" --eval-every "${every:-15}" --config "${config:-exact.json}" --quiet "$@"
    python3 - "$name" >"$name.txt" <<'PY' || fail "$name: no metrics"
import json, sys
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    print(*(line.get(key) for key in ("step", "loss", "val_loss", "val_accuracy")))
    assert "val_margin" not in line, line
PY
}

# same A B: the same losses and accuracies, bit by bit.
same() { cmp "$1.txt" "$2.txt" || fail "$1 and $2 differ: $(diff "$1.txt" "$2.txt" | head -4)"; }

# says WORDS: the command before said so.
says() { grep -qF -- "$1" out.txt err.txt || fail "it said \"$(cat out.txt err.txt)\", not \"$1\""; }

# alike A B: losses within 1e-3.
alike()
{
    python3 - "$1" "$2" <<'PY' || fail "$1 and $2 differ by more than rounding"
import sys
a, b = ([line.split()[1:] for line in open(name + ".txt")] for name in sys.argv[1:])
assert len(a) == len(b)
for x, y in zip(a, b):
    for u, v in list(zip(x, y))[:2]:
        assert u == v == "None" or abs(float(u) - float(v)) < 1e-3 * max(1, float(u)), (x, y)
PY
}

# refuses STATUS WORDS ARGUMENTS...: the program ends so, and says so.
refuses()
{
    local status=$1 words=$2
    shift 2
    expect "$status" "$ZERO" "$@"
    says "$words"
}
