#!/usr/bin/env bash
# A flag that overlaps with a key of the configuration file takes effect, whatever the file has beside it, or is refused with the key named.
. "$(dirname "$0")/lib.sh"
SMALL="--new gpt2:layers=1,heads=2,width=16,context=16 --data $TEXT --threads 1 --eval-every 0 --quiet"

# highest FILE FLAGS...: the largest rate of ten steps with that file.
highest() {
    echo "$1" >c.json
    expect 0 "$ZERO" train $SMALL --config c.json --steps 6 --out run --overwrite "${@:2}"
    python3 -c 'import json; print("%g" % max(l["lr"] for l in map(json.loads, open("run/metrics.jsonl")) if "lr" in l))'
}

while read -r least file; do
    got=$(highest "$file" --lr 0.5) || exit 1
    awk -v got="$got" -v least="$least" 'BEGIN { exit !(got >= least && got <= 0.5) }' || fail "--lr 0.5 over $file: the highest rate is $got"
done <<'END'
0.5 {"optimizer":{"params":{"lr":1e-4}},"scheduler":{"type":"WarmupLR","params":{"warmup_num_steps":2}}}
0.5 {"scheduler":{"type":"WarmupLR","params":{"warmup_max_lr":1e-4,"warmup_num_steps":2}}}
0.4 {"scheduler":{"type":"WarmupDecayLR","params":{"total_num_steps":10,"warmup_num_steps":2}}}
0.4 {"optimizer":{"params":{"lr":1e-4}}}
END

cycle='{"type":"OneCycle","params":{"cycle_min_lr":0.1,"cycle_max_lr":0.2}}'
for file in "{\"scheduler\":$cycle}" "{\"optimizer\":{\"type\":\"Adam\"},\"scheduler\":$cycle}"; do
    echo "$file" >c.json
    refused 64 "--lr: the schedule OneCycle of c.json has rates of its own; change scheduler.params.cycle_max_lr" \
        "$ZERO" train $SMALL --config c.json --steps 6 --out out --lr 0.5
done
echo '{"optimizer":{"params":{"lr":1e-4}}}' >c.json
refused 64 "--lr 0.5 contradicts c.json:1, which says lr 0.0001 (strict)" "$ZERO" train $SMALL --config c.json --steps 6 --out out --lr 0.5 --strict
echo "a rate on the command line counts, or the run does not start"
