#!/usr/bin/env bash
# A run goes on in another way than it was made: what may change, and what is refused.
. "$(dirname "$0")/lib.sh"

SMALL="--new gpt2:layers=1,heads=2,width=16,context=16 --data $TEXT --threads 1 --eval-every 0 --save-every 1"
go_on() { "$ZERO" train $SMALL --resume "$@" >out.txt 2>err.txt; }
begin() { rm -rf "$1" && expect 0 "$ZERO" train $SMALL --quiet --steps 2 --out "$@"; }
scale_at() { sed -n "s/.*\"step\":$2,.*\"loss_scale\":\([^,}]*\).*/\1/p" "$1/metrics.jsonl"; }
told() { grep -qF -- "$1" out.txt err.txt || fail "nobody says \"$1\": $(cat out.txt err.txt)"; }

# The loss scale of fp16 goes on only from a dynamic one to a dynamic one; else it begins by the configuration, and says so once.
echo '{"fp16": {"enabled": true, "loss_scale": 128}}' >fixed.json
echo '{"fp16": {"enabled": true, "initial_scale_power": 26, "hysteresis": 1000}}' >high.json
echo '{"fp16": {"enabled": true, "initial_scale_power": 10}}' >low.json
echo '{"fp16": {"enabled": true, "min_loss_scale": 4096}}' >least.json
begin single
cp -r single half && go_on --out half --steps 4 --dtype fp16 || fail "fp16 after fp32: $(cat err.txt)"
[ "$(scale_at half 3)" = 65536.0 ] || fail "fp16 after fp32 begins at a scale of $(scale_at half 3)"
told "the loss scale begins anew at 65536"
manifest single 2 config none # as older ones are
cp -r single older && go_on --out older --steps 4 --dtype fp16 || fail "fp16 after fp32, an older checkpoint: $(cat err.txt)"
[ "$(scale_at older 3)" = 65536.0 ] || fail "fp16 after fp32, of an older checkpoint, begins at $(scale_at older 3)"
begin high --config high.json
cp -r high fixed && go_on --out fixed --steps 4 --config fixed.json || fail "a fixed scale after a dynamic one: $(cat err.txt)"
[ "$(scale_at fixed 3)" = 128.0 ] || fail "a fixed scale of 128 is $(scale_at fixed 3) after a dynamic one"
told "the loss scale is 128 (fp16.loss_scale): the checkpoint's is 67108864"
cp -r fixed again && go_on --out again --steps 5 --dtype fp16 || fail "a dynamic scale after a fixed one: $(cat err.txt)"
[ "$(scale_at again 5)" = 65536.0 ] || fail "a dynamic scale after a fixed one begins at $(scale_at again 5)"
begin low --config low.json
manifest low 2 config none
cp -r low least && go_on --out least --steps 3 --config least.json || fail "another least scale: $(cat err.txt)"
[ "$(scale_at least 3)" = 4096.0 ] || fail "the scale goes on at $(scale_at least 3), below its minimum of 4096"
go_on --out low --steps 3 --dtype fp16 || fail "a dynamic scale after another: $(cat err.txt)"
[ "$(scale_at low 3)" = 1024.0 ] || fail "a dynamic scale of 1024 goes on at $(scale_at low 3)"
! grep -q 'loss scale' out.txt err.txt || fail "a scale that goes on is told: $(cat out.txt err.txt)"

# What a manifest says must be possible: the key, what it says and its range are named (tests/formats/test_state_check.c has every key).
impossible() { # impossible KEY VALUE RANGE
    rm -rf crafted && cp -r single crafted && manifest crafted 2 "$1" "$2" && rm -rf crafted/checkpoints/step-00000001
    expect 65 "$ZERO" train $SMALL --resume --steps 4 --out crafted
    told "manifest.json\": the state's \"$1\" is $2; it must be a"
    told "$3"
}
impossible step -5 "from 0 to 1000000000000"
impossible updates 9223372036854775807 "from 0 to 1000000000000"
impossible loss_scale.scale 0.0 "from 1e-40 to 1e+40"

# A model of the same shapes that computes something else: both values are named, by resume, verify and diff.
refuses_model() { # refuses_model RUN KEY WAS IS CHANGED_SPEC...: the run goes on with no other model than its own
    local run=$1 key=$2 was=$3 is=$4
    shift 4
    expect 78 "$ZERO" train --data "$TEXT" --threads 1 --eval-every 0 --out "$run" --steps 4 --resume "$@"
    told "is of a model whose \"$key\" is $was, this training's has $is"
}
begin_model() { rm -rf "$1" && expect 0 "$ZERO" train --data "$TEXT" --threads 1 --eval-every 0 --quiet --save-every 1 --steps 2 --out "$@"; }
GPT=gpt2:layers=1,heads=2,width=16,context=16
LLAMA=llama:layers=1,heads=4,kv_heads=2,width=32,context=16
begin_model heads --new $GPT,dropout=0.5
refuses_model heads n_head 2 4 --new gpt2:layers=1,heads=4,width=16,context=16,dropout=0.5
refuses_model heads resid_pdrop 0.5 0.0 --new $GPT
told "--allow-change dropout"
expect 64 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --out heads --steps 4 --resume --allow-change heads
told 'nothing is called "heads"; what may change on purpose: dropout'
expect 64 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --out other --steps 4 --allow-change dropout
told "--resume is missing"
refuses_model heads n_head 2 4 --new gpt2:layers=1,heads=4,width=16,context=16 --allow-change dropout
begin_model theta --new $LLAMA,theta=10000
refuses_model theta rope_theta 10000.0 500000.0 --new $LLAMA,theta=500000
cp -r theta/model edited && sed -i 's/"rms_norm_eps": [^,]*/"rms_norm_eps": 0.001/' edited/config.json
begin_model further --model theta/model
refuses_model further rms_norm_eps 1e-5 0.001 --model edited
begin_model other_heads --new gpt2:layers=1,heads=4,width=16,context=16,dropout=0.5
cp other_heads/checkpoints/step-00000002/manifest.json saved.json
cp heads/checkpoints/step-00000002/*.safetensors other_heads/checkpoints/step-00000002/
cp heads/checkpoints/step-00000002/manifest.json other_heads/checkpoints/step-00000002/ && manifest other_heads 2 model_config.n_head 4
expect 1 "$ZERO" diff heads/checkpoints/step-00000002 other_heads/checkpoints/step-00000002
told 'the tensors: the model'\''s "n_head" is 2 in heads/checkpoints/step-00000002 and 4 in other_heads'
expect 1 "$ZERO" diff theta/model edited
told 'the model'\''s "rms_norm_eps" is'
sed -i "s/heads=2/heads=1/" heads/config.json
expect 78 "$ZERO" verify heads
told 'is of a model whose "n_head" is 2, this training'\''s has 1'
sed -i "s/heads=1/heads=2/; s/dropout=0.5/dropout=0.25/" heads/config.json
expect 78 "$ZERO" verify heads
told 'is of a model whose "resid_pdrop" is 0.5, this training'\''s has 0.25: only steps that were made as the run'\''s config.json says can be replayed'
! grep -q -- --allow-change err.txt || fail "an option that verify lacks: $(cat err.txt)"
sed -i "s/dropout=0.25/dropout=0.5/" heads/config.json
expect 0 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --eval-every 0 --save-every 1 --quiet --keep 0 --out heads --steps 4 --resume --allow-change dropout
expect 0 "$ZERO" verify heads --from-step 2 --to-step 4 # its step 3 was made without dropout, from a checkpoint that was made with it
manifest heads 3 model_config none # as other programs and older ones write it
rm -r heads/checkpoints/step-00000004
expect 0 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --eval-every 0 --quiet --out heads --steps 4 --resume

# Which tensors are decayed is the checkpoint's to say, unless the configuration does.
begin_model decay --new $GPT
manifest decay 2 config.libzero.decay_all true
cp -r decay said
goes_on() { expect 0 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --eval-every 0 --save-every 1 --steps 3 --resume --out "$@"; }
goes_on decay --explain
told "libzero.decay_all true: the checkpoint was made with weight decay on every tensor"
told "weight decay 0.1 on every tensor"
grep -q '"decay_all": true' decay/config.json || fail "config.json does not say which tensors are decayed"
echo '{"libzero": {"decay_all": false}}' >matrices.json
cp -r said explicit && goes_on explicit --config matrices.json
told "libzero.decay_all false holds from here on: the checkpoint was made with weight decay on every tensor"
manifest said 2 config.libzero.decay_all null
manifest said 2 config.optimizer.params.weight_decay 0.05
manifest said 2 lineage.imported_from '"DeepSpeed"'
expect 78 "$ZERO" train --new $GPT --data "$TEXT" --threads 1 --steps 3 --resume --out said
told "decay neither all tensors nor those of two or more dimensions"
goes_on said --config matrices.json
told "optimizer.params.weight_decay 0.05: the checkpoint was made with it"

# A best loss over other windows of the held-out text is none to beat; over the same ones it is, and one of which nobody knows.
expect 0 "$ZERO" train ${SMALL/--eval-every 0/} --quiet --micro-batch 2 --eval-every 1 --steps 2 --out best
rm -r best/checkpoints/step-00000002
manifest best 1 train.best 0.001 # nothing is better
evaluates() { # evaluates RUN OPTION...: its best loss is that of the checkpoint
    local run=$1
    shift
    expect 0 "$ZERO" train ${SMALL/--eval-every 0/} --micro-batch 2 --out "$run" --resume "$@"
    grep -q "val loss 0.001000" out.txt err.txt
}
cp -r best same && evaluates same --eval-every 1 --steps 2 || fail "another best: $(cat out.txt err.txt)"
cp -r best more && ! evaluates more --eval-every 40 --steps 2 || fail "still the best: $(cat out.txt err.txt)"
told "the best model so far was chosen by 2 windows of the held-out text, this run reads 4"
manifest best 1 train.best_windows none # as older ones are
evaluates best --eval-every 40 --steps 2 || fail "another best: $(cat out.txt err.txt)"

# What earlier programs computed without a key for it goes on: the mean of micro-batches' means, and a schedule that begins at rate 0.
python3 -c 'for i in range(60): print("{\"prompt\": \"%s\", \"completion\": \" %s.\"}" % ("the owl " * (i % 5), i))' >pairs.jsonl
echo '{"libzero": {"loss_mean": "micro_batch", "schedule_from_one": false}}' >former.json
FORMER="--new gpt2:layers=1,heads=2,width=16,context=16 --data pairs.jsonl --val none --threads 1 --micro-batch 1 --accumulation 4 --save-every 2 --keep 0"
expect 0 "$ZERO" train $FORMER --quiet --steps 6 --config former.json --out former
for key in loss_mean schedule_from_one; do manifest former 2 config.libzero.$key none; done
goes_on_as_it_was() { # from step 2, then from the checkpoint that this has made at step 4
    rm -r kept/checkpoints/step-0000000"$1"
    expect 0 "$ZERO" train $FORMER --steps 6 --out kept --resume
    told "libzero.loss_mean micro_batch: the checkpoint was made with it"
    [ "$(fingerprint kept)" = "$(fingerprint former)" ] || fail "a run of an earlier program goes on otherwise: $(fingerprint kept) $(fingerprint former)"
}
cp -r former kept && rm -r kept/checkpoints/step-00000004 && goes_on_as_it_was 6
goes_on_as_it_was 6
earlier() { # earlier RUN: its config.json is that of a program before these keys
    python3 -c 'import json, sys; c = json.load(open(sys.argv[1])); [c["libzero"].pop(k) for k in ("loss_mean", "schedule_from_one")]; json.dump(c, open(sys.argv[1], "w"))' "$1/config.json"
}
cp -r former replayed && earlier replayed
for step in 4 6; do for key in loss_mean schedule_from_one; do manifest replayed $step config.libzero.$key none; done; done
expect 0 "$ZERO" verify replayed --from-step 2 --to-step 4

# Whoever says the keys decides; and a run that comes from elsewhere never had these formulas.
echo '{"libzero": {"loss_mean": "targets", "schedule_from_one": true}}' >now.json
decided() { # decided RUN OPTION...: it goes on with the formulas of today
    rm -r "$1"/checkpoints/step-0000000[46]
    expect 0 "$ZERO" train $FORMER --steps 6 --resume --out "$@"
    ! grep -q 'libzero.loss_mean micro_batch' out.txt err.txt && grep -q '"loss_mean": "targets"' "$1/config.json" && grep -q '"schedule_from_one": true' "$1/config.json" ||
        fail "other formulas than what was said: $(grep -E 'loss_mean|from_one' "$1/config.json")"
}
cp -r former said_now && decided said_now --config now.json
manifest former 2 train none
cp -r former imported && decided imported

# What a first run said of its micro-batch holds on any ranks, for as often as it goes on.
expect 0 "$ZERO" train $SMALL --quiet --ranks 2 --micro-batch 4 --steps 2 --out batch
for ranks in 4 4 2 2; do
    expect 0 "$ZERO" train $SMALL --ranks $ranks --steps $((steps = ${steps:-2} + 1)) --resume --out batch
done
[ "$(grep -o '"tokens":[0-9]*' batch/metrics.jsonl | sort | uniq -c | tr -s ' ')" = ' 6 "tokens":128' ] || fail "steps of other sizes: $(grep -o '"tokens":[0-9]*' batch/metrics.jsonl)"
