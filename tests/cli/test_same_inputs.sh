#!/usr/bin/env bash
# Two ranks that see other files under the same names, as copies on two machines may be: refused before the first step, by both, naming the
# ranks and what differs.
. "$(dirname "$0")/lib.sh"

SMALL=gpt2:layers=1,heads=2,width=16,context=16
RUN="--threads 1 --eval-every 0 --steps 2 --out $WORK/shared --overwrite --quiet"
port=$((20000 + $$ % 20000))
mkdir a b
cp "$TEXT" a/text.txt

FIRST= MORE= # what only rank 0 is given, and only rank 1

# both COMMAND...: in a as rank 0, in b as rank 1
both() {
    local here=0 there=0 other
    port=$((port + 1))
    export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_PORT=$port
    (cd b && RANK=1 LOCAL_RANK=1 exec timeout 60 "$ZERO" "$@" $MORE) >b.txt 2>&1 &
    other=$!
    (cd a && RANK=0 LOCAL_RANK=0 exec timeout 60 "$ZERO" "$@" $FIRST) >a.txt 2>&1 || here=$?
    wait $other || there=$?
    unset WORLD_SIZE LOCAL_WORLD_SIZE MASTER_PORT
    codes="$here $there"
}
# differ WORDS COMMAND...
differ() {
    local words=$1 rank
    shift
    both "$@"
    [ "$codes" = "64 64" ] || fail "exit codes $codes, not 64 64, of: $* ($(cat a.txt b.txt))"
    for rank in a b; do
        grep -qF -- "rank 1 has another $words" $rank.txt && ! grep -q 'rank 1: rank 1' $rank.txt || fail "rank $rank of: $* says \"$(cat $rank.txt)\", not \"$words\""
    done
    [ ! -e shared ] || fail "left behind by: $*"
}

# The text that is tokenised: shorter, or one letter of it.
head -c 20000 a/text.txt >b/text.txt
differ 'text to train on than rank 0: "text.txt" (18000 tokens' train --new $SMALL --data text.txt $RUN
{ head -c 20000 a/text.txt; echo X; tail -c +20003 a/text.txt; } >b/text.txt
differ 'text to train on than rank 0: "text.txt" (' train --new $SMALL --data text.txt $RUN
cp a/text.txt a/held.txt && head -c 2000 a/text.txt >b/held.txt
cp a/text.txt b/
differ 'held-out text than rank 0: "held.txt" (2000 tokens' train --new $SMALL --data text.txt --val held.txt $RUN

# A token file, which is mapped.
python3 - <<'P'
import array
ids = array.array("H", [i * 7 % 200 for i in range(200000)])
ids.tofile(open("a/ids.bin", "wb"))
for i in range(50000, 150000):
    ids[i] = 3
ids.tofile(open("b/ids.bin", "wb"))
P
differ 'text to train on than rank 0: "' train --new $SMALL,vocab=256 --data nanogpt:ids.bin $RUN

# Weights of a mixture.
cp a/held.txt b/
FIRST='held.txt:0.2 text.txt:0.8' MORE='held.txt:0.8 text.txt:0.2'
differ 'text to train on than rank 0: "held.txt" (27270 tokens, weight 0.8, hash ' train --new $SMALL $RUN --data
FIRST= MORE=

# Configuration, by its key; and an option that one of the ranks was given.
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}' >a/ds.json
echo '{"optimizer": {"type": "AdamW", "params": {"lr": 0.00100001}}}' >b/ds.json
differ 'configuration than rank 0: "optimizer.params.lr" (0.00100001), where rank 0 has "optimizer.params.lr" (0.001)' train --new $SMALL --data text.txt --config ds.json $RUN

# Options that decide what the ranks do together, and when.
cp a/ds.json b/
alone() { # alone OPTION [VALUE]: rank 1 has it; both have --resume, which some of them need
    MORE=$*
    differ "option than rank 0: \"$1\" (" train --new $SMALL --data text.txt ${RUN/--overwrite/--resume}
}
alone --dry-run
alone --allow-change dropout
alone --ignore-unused
alone --save-every 3
alone --save-seconds 7
alone --keep 5
alone --no-final-checkpoint
alone --profile trace.json
MORE=--resume
differ 'option than rank 0: "--resume" (1), where rank 0 has "--resume" (0)' train --new $SMALL --data text.txt ${RUN/--overwrite/}
MORE=--overwrite
differ 'option than rank 0: "--overwrite" (1), where rank 0 has "--overwrite" (0)' train --new $SMALL --data text.txt ${RUN/--overwrite/}
MORE=

# Model directory: weights, config.json, tokenizer; training on and evaluation.
train --data a/text.txt --eval-every 0 --steps 1 --out made
cp -r made/model a/model
cp -r made/model b/model
for rank in a b; do
    echo "{\"libzero\": {\"run\": {\"instructions\": \"$rank\"}}}" >$rank/made.json # each machine's own
done
both train --model model --data text.txt --config made.json $RUN
[ "$codes" = "0 0" ] || fail "two copies that are equal: $codes ($(cat a.txt b.txt))"
rm -r shared
python3 - <<'P'
with open("b/model/model.safetensors", "r+b") as f:
    f.seek(20001)
    byte = f.read(1)
    f.seek(20001)
    f.write(bytes([byte[0] ^ 1]))
P
differ 'weights than rank 0: "model/model.safetensors" (' train --model model --data text.txt $RUN
differ 'weights than rank 0: "model/model.safetensors" (' eval --model model --data text.txt --threads 1
cp made/model/model.safetensors b/model/
sed -i 's/"layer_norm_epsilon": [^,]*/"layer_norm_epsilon": 0.001/' b/model/config.json
differ 'model than rank 0: "layer_norm_epsilon" (0.001), where rank 0 has "layer_norm_epsilon" (1e-05)' train --model model --data text.txt $RUN
differ 'model than rank 0: "layer_norm_epsilon" (0.001)' eval --model model --data text.txt --threads 1
cp made/model/config.json b/model/
sed -i 's/"þ":254/"þ":255/; s/"ÿ":255/"ÿ":254/' b/model/tokenizer.json # which the text does not hold
differ 'tokenizer than rank 0: "model" (256 tokens)' eval --model model --data text.txt --threads 1
cp made/model/tokenizer.json b/model/
MORE='--dtype bf16'
differ 'configuration than rank 0: "bf16.enabled" (true)' eval --model model --data text.txt --threads 1
MORE=
tr 0 1 <a/text.txt >b/text.txt
differ 'text than rank 0: "text.txt" (' eval --model model --data text.txt --threads 1
cp a/text.txt b/
echo '{"eos_token_id": 3}' >a/model/generation_config.json
differ 'generation_config.json than rank 0: "model" (not there), where rank 0 has "model"' train --model model --data text.txt $RUN
rm a/model/generation_config.json
for rank in a b; do
    "$ZERO" tokenizer train --data $rank/text.txt --vocab $([ $rank = a ] && echo 270 || echo 265) --out $rank/bpe >out.txt 2>&1 || fail "no tokenizer: $(cat out.txt)"
done
differ 'tokenizer than rank 0: "bpe" (265 tokens), where rank 0 has "bpe" (270 tokens)' train --new $SMALL,vocab=300 --data text.txt --tokenizer bpe $RUN
