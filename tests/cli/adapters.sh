# What the tests of adapters share: configurations of every grid, and comparisons of runs.
SLICES='"train_batch_size": 4, "libzero": {"exact_tensor": 4, "exact_world": true'
config() { echo "{$SLICES${2:-}}${3:-}}" >"$1.json"; } # config NAME MORE_OF_LIBZERO MORE
of() { # losses, norms and the adapter of a run
    python3 - "$1" <<'PY'
import sys, json, hashlib
lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
print([(l["step"], l["loss"], l["grad_norm"]) for l in lines if "loss" in l])
print(hashlib.sha256(open(sys.argv[1] + "/adapter/adapter_model.safetensors", "rb").read()).hexdigest())
PY
}
same() { [ "$(of "$1")" = "$(of "$2")" ] || fail "$3: $2 differs from $1"; }
