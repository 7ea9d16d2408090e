#!/usr/bin/env bash
# Schedules of the learning rate by flags: the rates of a run, what is refused, and how a run goes on.
. "$(dirname "$0")/lib.sh"
SMALL="--new gpt2:layers=1,heads=2,width=16,context=16 --data $TEXT --threads 1 --eval-every 0 --save-every 1 --quiet"

rates() { # rates DIR: those of its updates
    python3 -c 'import json, sys; print(*("%.3g" % l["lr"] for l in map(json.loads, open(sys.argv[1])) if "lr" in l))' "$1/metrics.jsonl"
}
while IFS='|' read -r flags want; do
    expect 0 "$ZERO" train $SMALL --steps 8 --lr 1 --out run --overwrite $flags
    [ "$(rates run)" = "$want" ] || fail "$flags: the rates are $(rates run), not $want"
done <<'END'
--schedule-lr constant --warmup 4|0.25 0.5 0.75 1 1 1 1 1
--schedule-lr linear --warmup 25%|0.5 1 0.857 0.714 0.571 0.429 0.286 0.143
--schedule-lr cosine|1 0.955 0.831 0.65 0.45 0.269 0.145 0.1
--warmup 2|0.5 1 0.94 0.775 0.55 0.325 0.16 0.1
--schedule-lr wsd|1 1 1 1 1 1 0.667 0.333
--schedule-lr wsd --warmup 0 --decay 50%|1 1 1 1 0.8 0.6 0.4 0.2
END
expect 0 "$ZERO" train $SMALL --steps 8 --lr 1 --out usual --overwrite
expect 0 "$ZERO" train $SMALL --steps 8 --lr 1 --out run --overwrite --schedule-lr cosine
cmp -s usual/model/model.safetensors run/model/model.safetensors || fail "--schedule-lr cosine is not the default"
echo "rates"

echo '{"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 3}}}' >theirs.json
echo '{"libzero": {"schedule": {"type": "wsd", "warmup": 2, "decay": 4, "min_lr_ratio": 0.2}}}' >ours.json
expect 0 "$ZERO" train $SMALL --steps 8 --lr 1 --out run --overwrite --config ours.json
[ "$(rates run)" = "0.5 1 1 1 0.8 0.6 0.4 0.2" ] || fail "the file's rates are $(rates run)"
expect 0 "$ZERO" train $SMALL --steps 8 --lr 1 --out run --overwrite --config ours.json --decay 2 --warmup 1
[ "$(rates run)" = "1 1 1 1 1 1 0.6 0.2" ] || fail "flags over the file: the rates are $(rates run)"
expect 0 "$ZERO" train $SMALL --steps 8 --lr 1 --out run --overwrite --config theirs.json --schedule-lr constant --warmup 2
[ "$(rates run)" = "0.5 1 1 1 1 1 1 1" ] || fail "a flag over DeepSpeed's scheduler: the rates are $(rates run)"
expect 0 "$ZERO" train $SMALL --steps 8 --warmup 5 --dry-run --out dry # whose one step has no length to be checked
TRAIN="train $SMALL --steps 8 --out out"
refused 64 '--schedule-lr "wsd" contradicts theirs.json:1, which says scheduler.type "WarmupLR" (strict)' "$ZERO" $TRAIN --config theirs.json --schedule-lr wsd --strict
refused 78 "--warmup: libzero.schedule.warmup is for the schedule constant, linear, cosine or wsd (libzero.schedule.type, --schedule-lr); this one is WarmupLR" "$ZERO" $TRAIN --config theirs.json --warmup 2
refused 78 "--decay: libzero.schedule.decay is for the schedule wsd (libzero.schedule.type, --schedule-lr); this one is linear" "$ZERO" $TRAIN --schedule-lr linear --decay 2
refused 64 "a warm-up of 9 updates (--warmup 9) does not fit into a run of 8" "$ZERO" $TRAIN --warmup 9
refused 64 "a warm-up of 4 updates (--warmup 50%) and a decay of 5 (--decay 5) do not fit into a run of 8" "$ZERO" $TRAIN --schedule-lr wsd --warmup 50% --decay 5
refused 64 "--decay: libzero.schedule.decay: found 5x, expected a number of updates, such as 100, or a part of the run, such as \"5%\"" "$ZERO" $TRAIN --schedule-lr wsd --decay 5x
[ ! -e out ] || fail "a refused command has written something"
echo "refusals"

# What wsd has not begun to decay goes on as a longer run: the same bits as if that had been one.
WSD="--schedule-lr wsd --warmup 2 --decay 3"
expect 0 "$ZERO" train $SMALL --steps 9 --out long $WSD
expect 0 "$ZERO" train $SMALL --steps 8 --out short --keep 0 $WSD
rm -rf short/checkpoints/step-0000000[678]
expect 0 "$ZERO" train $SMALL --steps 9 --out short --resume $WSD
cmp -s long/model/model.safetensors short/model/model.safetensors || fail "wsd does not go on with the bits of a longer run"
[ "$(rates long)" = "$(rates short)" ] || fail "wsd goes on with the rates $(rates short)"
# A run of such a schedule goes on by the default as one of the default does: counted from one.
expect 0 "$ZERO" train $SMALL --steps 12 --lr 1 --out short --resume
last=$(rates short | awk '{ print $10, $11, $12 }')
expect 0 "$ZERO" train $SMALL --steps 12 --lr 1 --out usual --overwrite
[ "$last" = "$(rates usual | awk '{ print $10, $11, $12 }')" ] || fail "after wsd the default has the rates $last, not those of $(rates usual)"
echo "runs that go on"
