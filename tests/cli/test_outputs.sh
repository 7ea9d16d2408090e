#!/usr/bin/env bash
# Nothing of the user's is lost: what a command reads, what it did not write, and what lies among its files stay, and the refusal says so.
. "$(dirname "$0")/lib.sh"

G="--new gpt2:layers=1,heads=2,width=16,context=16 --threads 1 --quiet --micro-batch 1 --eval-every 0"
D="--data $TEXT"
expect 0 "$ZERO" train $G $D --out r --steps 2 --save-every 2
lies() { find "$1" -type f ! -name .lock ! -name out.txt ! -name err.txt -print0 | sort -z | xargs -0 md5sum; } # all that lies there
stays() { # stays DIR WORDS COMMAND...: refused with these words, without advice to overwrite, and nothing in DIR has changed
    local directory=$1 words=$2 before
    shift 2
    before=$(lies "$directory")
    refused 64 "$words" "$@"
    ! grep -q -- '--overwrite replaces' err.txt || fail "advises --overwrite: $(cat err.txt)"
    [ "$before" = "$(lies "$directory")" ] || fail "changed by: $*"
}

# The model, the tokenizer, the configuration and the data that a run reads, by whatever name.
mkdir w && cp -r r/model w/model
cp "$TEXT" w/text.txt
mkdir elsewhere && ln -s ../w/model elsewhere/linked && ln -s ../w/model/tokenizer.json elsewhere/tokenizer.json
for way in "" --overwrite --resume; do
    (cd w && stays . 'is read by this command (--model model)' "$ZERO" train --model model --data text.txt --threads 1 --quiet --out . --steps 2 $way) || exit 1
    stays w 'is read by this command (--model elsewhere/linked)' "$ZERO" train --model elsewhere/linked $D --threads 1 --quiet --out w --steps 2 $way
done
stays w '--tokenizer elsewhere/tokenizer.json' "$ZERO" train $G $D --tokenizer elsewhere/tokenizer.json --out w --steps 2 --overwrite
stays r '--config r/config.json' "$ZERO" train $G $D --config r/config.json --out r --steps 2 --overwrite
cp -r r held && cp "$TEXT" held/model/text.txt
stays held 'held/model/text.txt' "$ZERO" train $G --data held/model/text.txt --out held --steps 2 --overwrite
rm held/model/text.txt && mv r/model/model.safetensors held/weights && ln -s ../../held/best/model.safetensors r/model/model.safetensors
mv held/model held/best && mv held/weights held/best/model.safetensors
stays held '--model r/model' "$ZERO" train --model r/model $D --threads 1 --quiet --out held --steps 2 --overwrite
cp --remove-destination held/best/model.safetensors r/model/model.safetensors

# What no run has written, under a run's names or among a run's files.
mkdir other && cp r/model/config.json r/model/model.safetensors other
stays other '"other/config.json" is there, which no run' "$ZERO" train $G $D --out other --steps 2
stays other '"other/config.json" is there, which no run' "$ZERO" train $G $D --out other --steps 2 --overwrite
stays other '"other/config.json" is there, which no run' "$ZERO" train $G $D --out other --steps 2 --resume
mkdir -p mine/model mine/checkpoints/old && cp other/* mine/model
stays mine '"mine/checkpoints/old" is there' "$ZERO" train $G $D --out mine --steps 2 --overwrite
rm -r mine/checkpoints
stays mine '"mine/model" is there' "$ZERO" train $G $D --out mine --steps 2 --overwrite
echo 'my notes' >mine/metrics.jsonl && rm -r mine/model
stays mine '"mine/metrics.jsonl" is there' "$ZERO" train $G $D --out mine --steps 2 --overwrite
echo 'held by another program' >mine/.lock && rm mine/metrics.jsonl
stays mine '"mine/.lock" is there' "$ZERO" train $G $D --out mine --steps 2 --overwrite
grep -q 'another program' mine/.lock || fail "a lock of another program is emptied"
cp -r r/model r/best
for place in model best checkpoints/step-00000002; do
    echo notes >r/$place/NOTES.md
    stays r "\"r/$place/NOTES.md\" is there" "$ZERO" train $G $D --out r --steps 2 --overwrite
    expect 0 "$ZERO" train $G $D --out r --steps 2 --resume # which removes nothing
    rm r/$place/NOTES.md
done
mkdir r/checkpoints/.step-00000003.tmp && echo notes >r/checkpoints/.step-00000003.tmp/NOTES.md
stays r '"r/checkpoints/.step-00000003.tmp/NOTES.md" is there' "$ZERO" train $G $D --out r --steps 2 --overwrite
rm -r r/checkpoints/.step-00000003.tmp
mkdir -p deepspeed/checkpoints/global_step3 && echo global_step3 >deepspeed/checkpoints/latest
stays deepspeed '"deepspeed/checkpoints" is there' "$ZERO" train $G $D --out deepspeed --steps 2 --resume
refused 64 '"r" already holds a run (checkpoints, model, best, times.json, metrics.jsonl, config.json): --resume continues it from step 2, --overwrite replaces it' "$ZERO" train $G $D --out r --steps 2
echo text >r/text.md
: >r/config.json.tmp.123.0
: >r/mine.tmp.123.0
expect 0 "$ZERO" train $G $D --out r --steps 2 --save-every 2 --overwrite
[ -f r/text.md ] && [ -f r/mine.tmp.123.0 ] && [ ! -e r/config.json.tmp.123.0 ] || fail "what a killed start has left stays, or more than that goes: $(ls -A r)"
mkdir killed && : >killed/config.json.tmp.123.0
expect 0 "$ZERO" train $G $D --out killed --steps 2
[ ! -e killed/config.json.tmp.123.0 ] || fail "what a killed start has left stays"

# A save that was killed between the two renames of a file system that cannot exchange names: the step is there under another name only.
for way in --resume --overwrite; do
    cp -r r two && mv two/checkpoints/step-00000002 two/checkpoints/.step-00000002.tmp.earlier
    cp -r r/checkpoints/step-00000002 two/checkpoints/.step-00000002.tmp
    rm two/checkpoints/.step-00000002.tmp/manifest.json
    mkdir two/checkpoints/.step-00000001.tmp.earlier
    expect 0 "$ZERO" train $G $D --out two --steps 3 $way --no-final-checkpoint
    ls -A two/checkpoints >there.txt 2>&1
    [ $way = --overwrite ] || [ "$(grep -c step there.txt)" = 1 ] || fail "after --resume: $(cat there.txt)"
    ! grep -q tmp there.txt || fail "left behind after $way: $(cat there.txt)"
    [ "$(wc -l <two/metrics.jsonl)" = 3 ] || fail "metrics after $way: $(cat two/metrics.jsonl)"
    rm -r two
done

# A model that the user has put where a run lies is none of the run's. One of the run's own that a kill has left unfinished is.
expect 0 "$ZERO" train $G $D --out put --steps 2 --save-every 1
rm put/model/* && cp other/* put/model
for way in --overwrite --resume; do stays put '"put/model" is there, which no run' "$ZERO" train $G $D --out put --steps 2 $way; done
begun='{"format": "libzero receipt 1", "weights": null}'
for left in nothing receipt.json.tmp.12.0 receipt.json; do
    for way in --overwrite --resume; do
        rm -rf put/model && mkdir put/model
        [ $left = nothing ] || echo "$begun" >put/model/$left
        [ $left != receipt.json ] || cp other/* put/model
        expect 0 "$ZERO" verify put
        ! grep -q receipt out.txt err.txt || fail "says something of a receipt that is begun: $(cat out.txt)"
        expect 0 "$ZERO" train $G $D --out put --steps 2 --save-every 1 $way
        grep -q '"hash"' put/model/receipt.json && [ -z "$(ls put/model | grep tmp)" ] || fail "not finished: $(ls put/model)"
    done
done

# Older checkpoints give way to newer ones, what the user has put into their folders does not.
expect 0 "$ZERO" train $G $D --out older --steps 2 --save-every 1
echo notes >older/checkpoints/step-00000001/NOTES.md
expect 0 "$ZERO" train ${G/--quiet/} $D --out older --steps 5 --save-every 1 --keep 1 --resume
[ "$(ls older/checkpoints | tr '\n' ' ')" = "latest step-00000001 step-00000005 " ] && [ -s older/checkpoints/step-00000001/NOTES.md ] || fail "kept: $(ls older/checkpoints)"
[ "$(grep -c 'step-00000001" is not removed, .* it holds NOTES.md' err.txt)" = 1 ] || fail "not told once: $(cat err.txt)"

# Checkpoints on another disk stay there, by a link that was there before the run.
mkdir -p disk spread && ln -s ../disk spread/checkpoints
for way in "" --overwrite; do
    expect 0 "$ZERO" train $G $D --out spread --steps 2 --save-every 1 $way
    [ -L spread/checkpoints ] && [ -s disk/latest ] || fail "the link is gone: $(ls -l spread)"
done
expect 0 "$ZERO" train $G $D --out spread --steps 1 --no-final-checkpoint --overwrite
[ -z "$(ls -A disk)" ] || fail "left on the disk: $(ls -A disk)"

# Ranks write into one directory: one that is not there for all of them is noticed before anything in it has changed.
mkdir here there
cp -r r here/r
before=$(lies here)
for rank in 1 0; do
    (cd $([ $rank = 0 ] && echo here || echo there) && RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_PORT=$((20000 + $$ % 20000)) timeout 60 \
        "$ZERO" train $G $D --out r --steps 2 --overwrite >out.txt 2>err.txt; echo $? >code.txt) &
done
wait
rm here/*.txt
[ "$before" = "$(lies here)" ] && [ ! -e there/r ] && [ "$(cat there/code.txt)" = 64 ] || fail "begun in two places: $(ls here there), $(cat there/code.txt)"
grep -qF '"r" of rank 1 (on ' there/err.txt && grep -q 'must be shared by all machines' there/err.txt || fail "not said: $(cat there/err.txt)"

# A profile replaces a profile.
cp "$TEXT" text3.txt
stays . '"text3.txt" is read by this command (--data text3.txt)' "$ZERO" train $G --data text3.txt --profile text3.txt --out pp --steps 6
stays . '"text3.txt" is read by this command (--val text3.txt)' "$ZERO" train $G $D --val text3.txt --profile text3.txt --out pp --steps 6
stays . '"text3.txt" exists, and is no profile that libzero wrote' "$ZERO" train $G $D --profile text3.txt --out pp --steps 6
[ ! -e pp ] || fail "begun"
: >trace.json # as mktemp leaves it: there is nothing to lose
for _ in 1 2; do expect 0 "$ZERO" train $G $D --profile trace.json --out pp --steps 3 --overwrite; done
echo '{"flops_profiler": {"enabled": true, "profile_step": 1, "output_file": "text3.txt"}}' >flops.json
stays . '"text3.txt" exists, and is no table of flops_profiler' "$ZERO" train $G $D --config flops.json --out pp --steps 2 --overwrite
sed -i s/text3.txt/flops.txt/ flops.json
for _ in 1 2; do expect 0 "$ZERO" train $G $D --config flops.json --out pp --steps 2 --overwrite; done
mkdir -p csv/job && echo mine >csv/job/Train_Samples_lr.csv
echo '{"csv_monitor": {"enabled": true, "output_path": "csv", "job_name": "job"}}' >csv.json
stays csv 'Train_Samples_lr.csv" exists, and is no file of csv_monitor' "$ZERO" train $G $D --config csv.json --out pp --steps 2 --overwrite
rm csv/job/*
for _ in 1 2; do expect 0 "$ZERO" train $G $D --config csv.json --out pp --steps 2 --overwrite; done

# What goes along with a run stays out of what the run itself writes, whether that is there yet or not.
mkdir new
ln -s new way
for path in new/metrics.jsonl new/sub/../config.json ./way/.lock new/model/trace.json new/checkpoints/step-00000001/trace.json new new/best; do
    stays new "--profile \"$path\"" "$ZERO" train $G $D --profile $path --out new --steps 2
    [ -z "$(ls -A new)" ] || fail "begun with --profile $path: $(ls -A new)"
done
stays pp 'would be written over or into "pp/metrics.jsonl"' "$ZERO" train $G $D --profile pp/metrics.jsonl --out pp --steps 3 --overwrite
for section in '"flops_profiler": {"enabled": true, "profile_step": 1, "output_file": "pp/metrics.jsonl"}' '"csv_monitor": {"enabled": true, "output_path": "pp", "job_name": "model"}' \
    '"tensorboard": {"enabled": true, "output_path": "pp/best", "job_name": "job"}'; do
    echo "{$section}" >inside.json
    stays pp "which is the run's own: choose another place" "$ZERO" train $G $D --config inside.json --out pp --steps 3 --overwrite
done
[ ! -e pp/best/job ] || fail "a folder is made in the best model: $(ls pp/best)"

# Token files and tokenizers.
cp "$TEXT" text3
stays . '"text3" is read by this command (--data text3)' "$ZERO" tokenize --tokenizer bytes --data text3 --out text3 --overwrite
stays . '"text3" exists, and is no token file' "$ZERO" tokenize --tokenizer bytes $D --out text3 --overwrite
echo '{}' >book.bin.json
stays . '"book.bin.json" exists, and is no note of a token file' "$ZERO" tokenize --tokenizer bytes $D --out book.bin
rm book.bin.json
for _ in 1 2; do expect 0 "$ZERO" tokenize --tokenizer bytes $D --out book.bin --overwrite; done
mkdir hub && cp r/model/tokenizer.json hub/tokenizer.json
stays hub '"hub/tokenizer.json" exists, and is no file of a tokenizer' "$ZERO" tokenizer train --vocab 300 $D --out hub --overwrite
mv hub/tokenizer.json hub/tokenizer_config.json
stays hub '"hub/tokenizer_config.json" exists, and is no file of a tokenizer' "$ZERO" tokenizer train --vocab 300 $D --out hub
for _ in 1 2; do expect 0 "$ZERO" tokenizer train --vocab 300 $D --out learnt --overwrite; done

# A link in the place of the model may lead to another disk, and not into another run.
mkdir distant && expect 0 "$ZERO" train $G $D --out afar --steps 1 && mv afar/model distant/model && ln -s ../distant/model afar/model
expect 0 "$ZERO" train $G $D --out afar --steps 2 --overwrite
[ -L afar/model ] && grep -q '"step": 2,' distant/model/receipt.json || fail "the model is not where the link leads"
mkdir linking && ln -s ../r/model linking/model
stays r '"linking/model" is there, which no run' "$ZERO" train $G $D --out linking --steps 1 --overwrite

# A converted model replaces a model, and nothing that lies beside it.
expect 0 "$ZERO" convert --from r --to hf --quiet
refused 64 '"hf" is there already: choose another directory, or --overwrite replaces it' "$ZERO" convert --from r --to hf
echo notes >hf/NOTES.md
mkdir hf/.git
for way in "" --overwrite; do
    stays hf 'holds more than a model' "$ZERO" convert --from r --to hf $way
    grep -q 'NOTES.md' err.txt && grep -qF '.git' err.txt || fail "what would go is not named: $(cat err.txt)"
done
rm -r hf/NOTES.md hf/.git
cp hf/tokenizer_config.json kept.json
echo '{}' >hf/chat_template.jinja
echo '  ' >>hf/tokenizer_config.json
stays hf 'as libzero wrote them (' "$ZERO" convert --from r --to hf --overwrite
grep -q 'chat_template.jinja' err.txt && grep -q 'tokenizer_config.json' err.txt || fail "not named: $(cat err.txt)"
rm hf/chat_template.jinja && mv kept.json hf/tokenizer_config.json
mv hf/model.safetensors linked && ln -s ../linked hf/model.safetensors
stays hf 'wrote them (model.safetensors): it is not replaced; remove' "$ZERO" convert --from r --to hf --overwrite
mv linked hf/model.safetensors
cp -r hf theirs && rm theirs/receipt.json
for way in "" --overwrite; do stays theirs '"theirs" is a model that libzero has not written' "$ZERO" convert --from r --to theirs $way; done
for way in "" --overwrite; do expect 0 "$ZERO" convert --from hf --to hf/narrow --dtype bf16 --quiet $way; done # what lies below is not read
rm -r hf/narrow
stays hf '"hf" is read by this command (--model hf)' "$ZERO" convert --from r --model hf --to hf --overwrite
stays r '"r/model" is read by this command' "$ZERO" convert --from r --to r/model --overwrite
expect 0 "$ZERO" convert --from r --to hf --overwrite --quiet
expect 0 "$ZERO" train $G $D --out trained --steps 1
expect 0 "$ZERO" convert --from r --to trained/model --overwrite --quiet
stays trained '"trained/model" is there, which no run' "$ZERO" train $G $D --out trained --steps 1 --overwrite # a converted model is none of the run's
echo "what the user has stays"
