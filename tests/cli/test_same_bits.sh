#!/usr/bin/env bash
# tools/same-bits: what is the same is called the same, what was changed in any output is found and named, and only what is meant is allowed.
. "$(dirname "$0")/lib.sh"
SAME=$HERE/../../tools/same-bits
export PYTHONDONTWRITEBYTECODE=1
CASE='gpt2-stage0-ranks1-fp32-adam'

# compared CODE LAST [OPTION...]: this program with the one in ./planted, which changes what $PLANT says.
compared() {
    local code=$1 last=$2
    shift 2
    expect "$code" "$SAME" --new "$(dirname "$ZERO")" "$@" planted "$CASE"
    [ "$(tail -1 out.txt)" = "$last" ] || fail "it ends with \"$(tail -1 out.txt)\", not \"$last\""
}
mkdir planted
cat >planted/zero <<'PROGRAM'
#!/usr/bin/env bash
[[ $PLANT != older || $1 != help && $1 != --describe-configuration ]] || { "$ZERO" "$@" | sed 's/--tensor/--tensors/g'; exit; }
"$ZERO" "$@"
code=$?
[ "$1" != train ] || case $PLANT in
    model) printf '\001' | dd of=out/model/model.safetensors bs=1 seek="$(($(stat -c %s out/model/model.safetensors) - 4))" conv=notrunc status=none ;;
    loss) sed -i '2s/"loss":\([0-9]*\.[0-9]\{6\}\)/"loss":\11/' out/metrics.jsonl ;;
esac
exit $code
PROGRAM
chmod +x planted/zero
export ZERO
PLANT=none compared 0 '1 cases: 1 same, 0 differ as allowed, 0 differ, 0 refused by both'
PLANT=model compared 1 '1 cases: 0 same, 0 differ as allowed, 1 differ, 0 refused by both' --allow lamb,masked,default-schedule,workspace
grep -qE '^differs  .*: out/model/model.safetensors "[a-z_.0-9]+"\[[0-9]+\] \(1 of [0-9]+ elements\): ' out.txt || fail "$(cat out.txt)"
PLANT=loss compared 1 '1 cases: 0 same, 0 differ as allowed, 1 differ, 0 refused by both'
grep -qE '^differs  .*: out/metrics.jsonl, line 2 \(step 2\).loss: ' out.txt || fail "$(cat out.txt)"
CASE=tensor-plan
PLANT=none compared 0 '1 cases: 1 same, 0 differ as allowed, 0 differ, 0 refused by both'
PLANT=older compared 2 '1 cases: 0 same, 0 differ as allowed, 0 differ, 0 refused by both, 1 SKIPPED'
grep -qx 'SKIPPED  tensor-plan: planted does not know --tensor' out.txt || fail "$(cat out.txt)"
expect 2 "$SAME" --allow lamp planted
grep -qF -- '--allow lamp: it knows lamb, masked' err.txt || fail "$(cat err.txt)"
refused 1 'no-such-commit is neither a commit nor a folder with a program zero' "$SAME" no-such-commit

# Its parts: every pair of values occurs, what a reason does not account for is not allowed by it, added fields are no difference.
python3 - "${SAME%/*}" <<'PY' || fail "a part of tools/same-bits"
import itertools, sys
sys.path.insert(0, sys.argv[1])
from same_bits import cases, differences

rows = cases.covering_rows(2)
assert all(cases.is_possible(row) for row in rows)
for a, b in itertools.combinations(cases.AXES, 2):
    for x, y in itertools.product(cases.AXES[a], cases.AXES[b]):
        assert any(row[a] == x and row[b] == y for row in rows) == cases.is_possible({a: x, b: y}), (a, x, b, y)

def row(workspace=100, gradients=50, total=150, **more):
    return {"rows": [{"bytes": {"gradients": gradients, "workspace": workspace}, "total": total, **more}]}

def found(old, new, allow, traits=(), kind="plan"):
    case = cases.Case("x", [], {}, traits)
    return [d.where for d in differences.json_differences(kind, "plan", old, new) if not differences.ALLOWED[allow][1](case, d)]

steps = [{"loss": n, "comm": {"broadcast": {"calls": n}}} for n in (1, 2)]
assert found(*steps, "lamb", ["lamb"], "metrics") == ["plan.comm.broadcast.calls"]
assert found(*steps, "lamb", ["masked"], "metrics") == ["plan.loss", "plan.comm.broadcast.calls"]

assert found(row(), row(), "workspace") == []
assert found(row(), row(more=1), "workspace") == []
assert found(row(more=1), row(), "workspace") == ["plan.rows[0].more"]
assert found(row(), row(108, total=158), "workspace") == []
assert found(row(), row(108, total=158), "lamb", ["lamb"]) == ["plan.rows[0].bytes.workspace", "plan.rows[0].total"]
assert found(row(), row(108, total=159), "workspace") == ["plan.rows[0].total"]
assert found(row(), row(108, 51, 159), "workspace") == ["plan.rows[0].bytes.gradients", "plan.rows[0].total"]
traffic = [{"mem": {"workspace": {"planned": n}}, "comm": {"all_reduce": {"calls": 1, "bytes": n}}} for n in (5, 6)]
assert found(*traffic, "workspace") == ["plan.comm.all_reduce.bytes"]
assert found(row(), row(gradients=50.0), "workspace") == ["plan.rows[0].bytes.gradients"]
PY
