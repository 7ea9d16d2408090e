#!/usr/bin/env bash
# What every command prints, letter for letter: each answer is compared with its golden copy in tests/cli/golden/, after
# golden/normalise has taken out what a machine, a run and a clock add. A file is a list of answers:
#   $ zero COMMAND    ("~" or "%" instead of "$": measured numbers are taken out, as golden/normalise says)
#   what it prints, then "[stderr]" and what it prints there, then "[exit CODE]", if it is not 0
# The copies were taken, and tried with other bits, on a processor with AVX2 alone. Where there is AVX-512 they are compared only
# if ZERO_GOLDEN is "all": plans and bits depend on it, and whether the filter takes all of that out has not been seen there.
# To write the golden copies anew, after a change that is meant (look at the difference before it is committed):
#   ZERO=$PWD/build/zero tests/cli/test_golden.sh --update [NAME...]    (NAME: one file of tests/cli/golden, without .txt)
. "$(dirname "$0")/lib.sh"
update=no
[ "${1:-}" != --update ] || { update=yes && shift; }
only=("$@")
if grep -qw avx512f /proc/cpuinfo && [ "${ZERO_GOLDEN:-}" != all ]; then
    echo "SKIPPED: golden copies are compared on processors with AVX2 alone (ZERO_GOLDEN=all compares them here, too)"
    exit 77
fi
export COLUMNS=80 LC_ALL=C TMPDIR=$WORK HOME=$WORK NO_COLOR=
unset OMP_NUM_THREADS
GOLDEN=$HERE/golden

TEXT=text.txt
. "$GOLDEN/fixtures.sh"

# answer MARK NAME COMMAND...: adds what it says to the file that is being made. What an earlier one taught is forgotten.
answer()
{
    local mark=$1 said=$2 code=0
    shift 2
    [ "${KEEPS:-no}" = yes ] || rm -rf "$XDG_CACHE_HOME"
    timeout 100 "$@" >out.txt 2>err.txt </dev/null || code=$?
    {
        printf '%s %s\n' "$mark" "$said"
        cat out.txt
        [ ! -s out.txt ] || [ -z "$(tail -c 1 out.txt)" ] || echo '[no end of line]'
        [ ! -s err.txt ] || { echo '[stderr]' && cat err.txt; }
        [ $code -eq 0 ] || echo "[exit $code]"
        echo
    } >>now.txt
}
is() { answer '$' "zero $*" "$ZERO" "$@"; }       # is ARGUMENT...: every letter is compared
times() { answer '~' "zero $*" "$ZERO" "$@"; }    # times ARGUMENT...: all but times and rates
measures() { answer '%' "zero $*" "$ZERO" "$@"; } # measures ARGUMENT...: all but numbers with a point
holds() { answer '$' "cat $*" cat "$@"; }         # holds FILE...: what a command has written
measured() { answer '%' "cat $*" cat "$@"; }

help()
{
    local command
    is
    is --help
    is --version
    for command in train run eval generate inspect convert diff verify tokenize tokenizer plan tune compare simulate bench data doctor; do
        is $command --help
    done
    is --man
    is --man diff
    # The other pages have the words of --help once more, and examples that test_man.sh tries; the table of keys is
    # docs/configuration.md (test_documentation.sh).
    answer '$' "zero --describe-configuration | cksum" bash -c "'$ZERO' --describe-configuration | cksum"
}

SMALL=gpt2:layers=3,heads=2,width=32,context=32

plan()
{
    is plan --params 7.5e9
    is plan --params 124M --ranks 8 --memory 24GB
    is plan --params 124M --ranks 8 --memory 1GB
    is plan --params 1B --ranks 4 --json
    is plan --new gpt2 --ranks 4 --micro-batch 1
    is plan --new $TINY
    is plan --new gpt2 --memory 16GB
    is plan --new gpt2-medium --memory 1GB
    is plan --new llama:layers=4,heads=4,kv_heads=2,width=64,context=64 --ranks 2 --dtype bf16 --memory 64MB --micro-batch 4
    is plan --new qwen3:layers=4,heads=4,kv_heads=2,width=64,context=64 --ranks 1 --stage 1 --micro-batch 4 --device-memory 1MB --host-memory 64MB
    is plan --new mistral:layers=2,heads=4,kv_heads=2,width=64,context=64 --ranks 2 --micro-batch 2 --memory 1MB
    is plan --new $SMALL --ranks 4 --tensor 2 --sequence-parallel --stage 2 --micro-batch 2
    is plan --new $SMALL --ranks 8 --tensor 2 --pipeline 2 --accumulation 4 --micro-batch 2
    is plan --new $SMALL --ranks 4 --pipeline 2 --schedule interleaved:2 --accumulation 4 --micro-batch 2
    is plan --new $SMALL --ranks 4 --pipeline 2 --schedule 2bw --split 0,2 --accumulation 4 --micro-batch 2
    is plan --new $SMALL --ranks 4 --machines 2 --micro-batch 2
    is plan --new $SMALL --ranks 8 --machines 2 --tensor 2 --pipeline 2 --accumulation 2 --micro-batch 2
    is plan --new $SMALL --ranks 5 --machines 3,2 --micro-batch 2
    is plan --new $SMALL --ranks 2 --config offload.json --micro-batch 2
    is plan --new $SMALL --ranks 2 --config offload.json --explain --micro-batch 2
    is plan --new $SMALL --ranks 2 --tensor 2 --config divided.json
    is plan --new $SMALL --config elastic.json
    is plan --new $SMALL --ranks 2 --stage 3 --micro-batch 2 --json
    is plan --new $SMALL --ranks 4 --machines 2 --tensor 2 --config divided.json --json
    is plan --new $SMALL --ranks 4 --pipeline 2 --accumulation 4 --micro-batch 2 --json
    is plan --new gpt2 --memory 8GB --json
    # The order of places is that of predicted times, which are the machine's.
    answer '%' "zero plan --new $SMALL --ranks 1 --config auto.json --micro-batch 2 | sort -r" \
        bash -c "'$ZERO' plan --new $SMALL --ranks 1 --config auto.json --micro-batch 2 | sort -r"
    answer '%' "zero plan --new $SMALL --ranks 1 --config auto.json --micro-batch 2 --json | sort -r" \
        bash -c "'$ZERO' plan --new $SMALL --ranks 1 --config auto.json --micro-batch 2 --json | sort -r"
    answer '%' "zero plan --new $SMALL --ranks 1 --config auto.json --micro-batch 2 --device-memory 1KB --host-memory 1KB | sort -r" \
        bash -c "'$ZERO' plan --new $SMALL --ranks 1 --config auto.json --micro-batch 2 --device-memory 1KB --host-memory 1KB | sort -r"
}

# After something is known of the machine.
plan_predicted()
{
    measures plan --new $SMALL --ranks 1 --micro-batch 2 --predict
    KEEPS=yes
    measures plan --new $SMALL --ranks 1 --micro-batch 2
    measures plan --new $SMALL --ranks 1 --micro-batch 2 --json
    KEEPS=no
}

plan_views()
{
    is plan --new $TINY --ranks 2 --stage 3 --micro-batch 2 --draw -
    is plan --new $TINY --ranks 2 --stage 1 --micro-batch 2 --program
    is plan --new $SMALL --config offload.json --ranks 2 --micro-batch 2 --draw -
    is plan --new $SMALL --config offload.json --ranks 2 --micro-batch 2 --program
    is plan --new $TINY --ranks 4 --pipeline 2 --accumulation 4 --micro-batch 2 --draw -
    is plan --new $SMALL --ranks 4 --pipeline 2 --schedule interleaved:2 --accumulation 4 --micro-batch 2 --draw -
    is plan --new $SMALL --ranks 4 --pipeline 2 --schedule 2bw --accumulation 4 --micro-batch 2 --draw -
    is plan --new $SMALL --ranks 4 --pipeline 2 --schedule zb-h1 --accumulation 4 --micro-batch 2 --draw -
    is plan --new $TINY --ranks 2 --stage 3 --micro-batch 2 --draw step.svg
    holds step.svg
    is plan --new $TINY --ranks 2 --pipeline 2 --accumulation 2 --micro-batch 2 --draw pipeline.svg
    holds pipeline.svg
}

H100=(simulate --new llama-3.1-405b --machine h100-hgx --ranks 16384 --tensor 8 --pipeline 16 --seq 8192 --global-batch 2048)

simulate()
{
    is "${H100[@]}" --stage 1
    is "${H100[@]}" --stage 1 --mtbf 6300 --checkpoint-rate 500
    is "${H100[@]}" --stage 1 --mtbf 6300 --checkpoint-rate 500 --checkpoint-async --json
    is "${H100[@]}" --order best
    is simulate --new llama-3.1-70b --machine a100-dgx --ranks 8 --seq 2048
    is simulate --new llama-3.1-8b --machine a100-dgx --ranks 16 --seq 4096 --config offloaded.json
    is simulate --new llama-3.1-8b --machine h100 --ranks 64 --stage 3 --global-batch 512 --tokens 15T
    is simulate --new llama-3.1-8b --machine h100 --ranks 64 --stage 3 --global-batch 512 --tokens 15T --json
    is simulate --new gpt2 --machine v100-dgx2 --ranks 8 --steps 1000 --recompute full --framework deepspeed
    is simulate --new llama-3.1-70b --machine h100 --ranks 1024 --tensor 8 --pipeline 4 --stage 1 --context 2 --sequence-parallel --schedule interleaved:2 --accumulation 8 --products fp8
    is simulate --machine list
    is simulate --machine list --explain
    is simulate --machine list --json
    is simulate --run run.json --machine h100 --framework torchtitan
    is simulate --run run.json --machine h100 --tensor 2
    is simulate --runs runs.csv
    is simulate --new gpt2 --machine dgx --ranks 8
    is simulate --new gpt2 --machine h100-hgx --ranks 8 --framework abacus
    is simulate --new gpt2 --machine h100-hgx --ranks 100 --tensor 8
    is simulate --new gpt2 --machine h100-hgx --ranks 64 --pipeline 64
    is simulate --new gpt2 --machine v100-dgx2 --ranks 8 --products fp8
    is simulate --new gpt2 --machine wrong.json --ranks 8
}

tune()
{
    measures tune --new $TINY --data $TEXT --ranks 1 --threads 1 --config one.json --seconds 1 --trials 1
    measured tuned/tuned.json
    measured tuned/summary.txt
    measured tuned/cmd_optimal.txt
    measures tune --new $TINY --data $TEXT --ranks 1 --threads 1 --config one.json --seconds 1 --trials 1 --json --out again
    is tune --new $TINY --data $TEXT --ranks 1 --threads 1 --device-memory 1KB --host-memory 1KB --out none
    is tune --new $TINY --data $TEXT --ranks 3 --tensor 2
    is tune --data $TEXT
    is tune --new $TINY
}

compare()
{
    is compare --new $TINY --ranks 2 --threads 1 --micro-batch 2 --memory 100KB --steps 1 --quiet
    is compare --new $TINY --ranks 2 --threads 1 --micro-batch 2 --memory 100KB --steps 1 --quiet --json --out tables.md
    holds tables.md
    is compare --new $TINY --ranks 8 --threads 1 --micro-batch 2 --memory 1KB --steps 1 --dtype bf16
    measures compare --new $TINY --ranks 2 --threads 1 --micro-batch 2 --accumulation 2 --memory 64MB --steps 1 --quiet --json --out tables.md
    measured tables.md
    is compare --ranks 2
    is compare --new $TINY --ranks 1
    is compare --new $TINY --ranks 2 --steps 500
}

# What the machine is, is no answer of ours: of these the labels are compared alone.
doctor() { measures doctor && measures doctor --json; }

bench()
{
    answer '%' "zero bench comm, without an mpirun" env PATH="$WORK" "$ZERO" bench comm --ranks 2 --threads 1 --seconds 0.001
    measures bench gemm --threads 1 --seconds 0.001
    measures bench optimizer --params 100000 --threads 1 --seconds 0.001
    measures bench blocks --params 65536 --threads 1 --seconds 0.001
    measures bench step --new $TINY --threads 1 --seconds 0.001
    measures bench checkpoint --threads 1 --new gpt2:layers=1,heads=1,width=16,context=16
    measures bench memory --threads 1 --seconds 0.001
    measures bench memory --threads 1 --seconds 0.001 --json
    measures bench io --threads 1 --seconds 0.001 --bytes 1MiB --block 64KiB --depth 2
    measures bench io --threads 1 --seconds 0.001 --bytes 1MiB --block 64KiB --depth 2 --json
    is bench
    is bench disk
    is bench io --threads 1 --block 5000
    is bench io --threads 1 --bytes 16384
    is bench io --threads 1 --path nowhere
    is bench gemm --json
    is bench memory --ranks 2
    is bench checkpoint --threads 1 --path nowhere/else --new gpt2:layers=1,heads=1,width=16,context=16
}

RUN=(--data $TEXT --threads 1 --backend ref --micro-batch 2 --no-learn)

train()
{
    rm -rf run
    times train --new $TINY "${RUN[@]}" --steps 6 --eval-every 3 --sample-every 6 --save-every 3 --seed 5 --out run
    measured run/metrics.jsonl
    measured run/times.json
    holds run/config.json
    holds run/model/config.json
    holds run/model/tokenizer_config.json
    holds run/model/receipt.json
    holds run/checkpoints/step-00000006/manifest.json
    is train --new $TINY "${RUN[@]}" --steps 6 --seed 5 --out run
    times train --new $TINY "${RUN[@]}" --steps 8 --seed 5 --out run --resume
    times train --new $TINY "${RUN[@]}" --steps 8 --seed 5 --out run --resume
    times train --new $TINY "${RUN[@]}" --steps 8 --seed 6 --out run --resume
    times train --new llama:layers=2,heads=4,kv_heads=2,width=32,context=32 "${RUN[@]}" --ranks 2 --stage 3 --steps 2 --val none --config keys.json --explain --out small
    measured small/metrics.jsonl
    times train --new $TINY "${RUN[@]}" --ranks 2 --tensor 2 --steps 2 --val none --dtype bf16 --dry-run
    times train --new $TINY "${RUN[@]}" --ranks 2 --pipeline 2 --accumulation 2 --steps 2 --val none --out staged
    times train --new $TINY "${RUN[@]}" --steps 3 --val none --config recorded.json --profile trace.json --out recorded
    times train --model run "${RUN[@]}" --steps 1 --tokenizer bytes --epochs 1 --dry-run
    times train --model run "${RUN[@]}" --steps 1 --dry-run
    is train --new $TINY "${RUN[@]}" --steps 1 --quiet --out quiet
    is train --new $TINY "${RUN[@]}" --steps 1 --quiet --config unknown.json --out out
    is train --new $TINY "${RUN[@]}" --steps 1 --stage 1 --strict --config offload.json --out out
    is train --new $TINY "${RUN[@]}" --steps 1 --device-memory 10KB --out out
    is train --new $TINY "${RUN[@]}" --ranks 3 --tensor 2 --out out
    is train --new gpt2:layers=2,heads=3,width=32 "${RUN[@]}" --out out
    is train --new gpt9 "${RUN[@]}" --out out
    is train --new $TINY --data nowhere.txt --out out
    is train --new $TINY --data short.txt --out out
}

# What is known is told: with the rates that a run has taught.
train_predicted()
{
    local keep=(--data $TEXT --threads 1 --backend ref --micro-batch 2)
    times train --new $TINY "${keep[@]}" --steps 30 --val none --quiet --out learnt
    KEEPS=yes
    times train --new $TINY "${keep[@]}" --steps 1 --val none --explain --dry-run
    KEEPS=no
}

terminal()
{
    local columns
    for columns in 200 80 20; do
        answer '~' "zero train, on a terminal of $columns columns" script -qec "stty cols $columns; '$ZERO' train --new $TINY --data $TEXT --threads 1 --backend ref --micro-batch 2 --val none --no-learn --steps 3 --seed 5 --out on-$columns" /dev/null
    done
    answer '$' "zero data show, on a terminal" env -u NO_COLOR script -qec "'$ZERO' data show --data chat.jsonl --chat chatml --seq 170 --micro-batch 1" /dev/null
    answer '$' "zero data show, on a terminal without colours" env NO_COLOR=1 script -qec "'$ZERO' data show --data chat.jsonl --chat chatml --seq 170 --micro-batch 1" /dev/null
    answer '$' "zero plan, on a dumb terminal" env TERM=dumb script -qec "'$ZERO' plan --params 124M --ranks 2" /dev/null
}

# A run of a few steps, for those that look at one.
a_run() { rm -rf run && expect 0 "$ZERO" train --new $TINY "${RUN[@]}" --steps 6 --save-every 3 --seed 5 --quiet --out run; }

inspect()
{
    a_run
    is inspect run
    measures inspect run --json
    is inspect run/model
    is inspect made.safetensors --json
    is inspect made.safetensors --sums
    is inspect made.safetensors --sums --json
    is inspect format_1
    is inspect gpt2 llama
    is inspect s1-groups-r2 --json
    is inspect s2-schedule-r3 --sums
    rm -rf harmed && cp -r run harmed && flip harmed/model/model.safetensors 5000
    is inspect harmed --verify
    truncate -s 100 harmed/checkpoints/step-00000006/exp_avg.safetensors
    is inspect harmed
    is inspect nowhere
    is inspect
    is inspect $TEXT
    is inspect model.gguf
    is inspect saved_tokenizer
    is inspect saved_tokenizer/tokenizer.json
}

diff_of() # what differs: the same, different, missing
{
    a_run
    is diff run run
    is diff run/model run/checkpoints/step-00000006
    is diff run/checkpoints/step-00000003 run/checkpoints/step-00000006
    rm -rf other && cp -r run other && sed -i '2s/"loss":[0-9.]*/"loss":5.25/' other/metrics.jsonl
    is diff run other
    is diff made.safetensors made.safetensors
    is diff made.safetensors changed.safetensors
    is diff made.safetensors gpt2
    is diff made.safetensors made.safetensors --json
    is diff made.safetensors changed.safetensors --json
    is diff made.safetensors gpt2 --json
    measures diff run/checkpoints/step-00000003 run/checkpoints/step-00000006 --json
    is diff run run --json
    rm -r other/model other/checkpoints
    is diff run other
    is diff other other
    is diff run other --json
    is diff run nowhere
    is diff run
    is diff run gpt2
}

verify()
{
    a_run
    is verify run
    is verify run --json
    is verify run --from-step 3
    is verify run --from-step 4
    is verify run --data short.txt
    rm -rf other && cp -r run other && sed -i '5s/"loss":[0-9.]*/"loss":5.25/' other/metrics.jsonl
    is verify other
    sed -i 's/^{"step":5,"loss":[0-9.]*/{"step":5,"loss":5.25/' other/metrics.jsonl
    is verify other
    is verify other --json
    flip other/model/model.safetensors 5000
    is verify other
    flip other/checkpoints/step-00000006/exp_avg.safetensors 5000
    is verify other
    is verify nowhere
    is verify gpt2
}

convert()
{
    a_run
    is convert --from run --to hf
    is convert --from run --to hf
    is convert --from run --to hf --overwrite
    is convert --from run --to sharded --dtype bf16 --shard-size 30kB
    holds sharded/model.safetensors.index.json
    is convert --from run --to quiet --quiet
    is convert --from s2-schedule-r3 --to weights
    is convert --from s2-schedule-r3 --to states --format libzero
    is convert --from s1-groups-r2 --to groups --dtype fp16
    is convert --from run --to out --format libzero
    is convert --from hf --to out --format libzero
    is convert --from run --to run --overwrite
    is convert --from nowhere --to out
    is convert --to out
    is convert --from broken --to out
}

data()
{
    a_run
    is data show --data $TEXT --seq 40 --micro-batch 2
    is data show --data $TEXT --model run
    is data show --data chat.jsonl --chat chatml --seq 170 --micro-batch 1
    is data show --data chat.jsonl --chat chatml --seq 170 --micro-batch 2 --json
    is data show --data $TEXT:0.5 chat.jsonl:0.5 --chat chatml --seq 30 --micro-batch 4
    is data show --data $TEXT --tokenizer chars --seq 20 --micro-batch 1
    is data show --data $TEXT --tokenizer saved_tokenizer --seq 20 --micro-batch 1 --val none
    is data show --data chat.jsonl
    is data show --data bad.jsonl
    is data show --data $TEXT:1 chat.jsonl
    is data show --data $TEXT:0
    is data show --data 'nothing-*.txt'
    is data show --data chat.jsonl --chat alpaca
    is data show --data model.gguf
    is data show
    is data
}

tokenize()
{
    times tokenizer train --vocab 300 --data $TEXT --out learnt
    holds learnt/tokenizer_config.json
    is tokenizer train --vocab 300 --data $TEXT --out learnt
    is tokenizer train --vocab 256 --data $TEXT --out out
    is tokenizer train --data chat.jsonl --out out
    is tokenizer learn
    times tokenize --tokenizer learnt --data $TEXT --out one.bin --threads 1
    holds one.bin.json
    times tokenize --tokenizer saved_tokenizer --data saved_tokenizer/text.txt records.jsonl --out two.bin --threads 1
    is tokenize --tokenizer learnt --data $TEXT --out one.bin
    is tokenize --tokenizer chars --data $TEXT --out out
    is tokenize --tokenizer absent --data $TEXT --out out
    is tokenize --tokenizer bytes --data chat.jsonl --chat chatml --out out
    is tokenize --tokenizer bytes --data one.bin --out out
    is tokenize --data $TEXT --out out
}

eval_of()
{
    a_run
    is eval --model run --data few.txt --threads 1 --backend ref
    is eval --model gpt2 --data few.txt --tokenizer bytes --threads 1 --backend ref --seq 64
    measures eval --model gpt2 --data few.txt --tokenizer bytes --threads 1 --backend ref --seq 64 --json
    is eval --model run/model --data short.txt --threads 1
    is eval --model run/model --data $TEXT --ranks 3 --tensor 2
    is eval --model nowhere --data $TEXT
    is eval --model run/model --data few.txt --config keys.json --explain --threads 1 --backend ref
}

generate()
{
    local greedy=(--temperature 0 --threads 1 --backend ref --no-learn)
    a_run
    times generate --model gpt2 --prompt Speak --tokens 20 "${greedy[@]}"
    is generate --model gpt2 --prompt Speak --prompt "I say" --tokens 10 --quiet "${greedy[@]}"
    is generate --model llama --prompt Speak --tokens 10 --quiet --json "${greedy[@]}"
    is generate --model llama --prompts prompts.jsonl --field asked --tokens 5 --quiet --json "${greedy[@]}"
    times generate --model gpt2 --prompt Speak --chat chatml --tokens 4 "${greedy[@]}"
    is generate --model run/model --prompt "$(head -c 200 $TEXT)" --tokens 1 --quiet "${greedy[@]}"
    is generate --model nowhere
    is generate --model run --tokens 0
    is generate --model run --prompts nowhere.txt
}

launch()
{
    is run --ranks 2 true
    is run --ranks 2 sh -c 'echo "rank of $WORLD_SIZE"'
    is run --ranks 2 sh -c '[ $RANK = 0 ] || exit 3; sleep 20'
    is run --ranks 1 sh -c 'kill -KILL $$'
    is run --ranks 1 ./nowhere
    is run --ranks 2
    is run --ranks 0 true
}

refusals()
{
    is trian
    is train --stpes 3
    is train --steps 1x
    is train --stage 4
    is train --lr nan
    is train --data
    is train --steps 1 --steps 2
    is train --learning-rate 1
    is train --lora_rank 1
    is train text.txt
    is train --quiet=yes
    is train help
    is help trian
    is convert --out x
    is simulate --nodes 1
    is plan --new $TINY --explain
    is plan --new $TINY --program --draw out
    is plan --new $TINY --json --program
    is plan --params 7.5e9 --program
    is plan --new $TINY --draw nowhere/out
    is plan --new gpt2:layers=2,heads=3,width=32
    is plan --new gpt2:layer=2
    is plan --new $TINY --config syntax.json
    is plan --new $TINY --config unknown.json
    is plan --new $TINY --config clash.json
    is plan --new $TINY --config nowhere.json
    is plan --new $TINY --ranks 3 --tensor 2
    is plan --model nowhere
    is plan
    is doctor extra
    is diff a -x
}

# unfolded FILE: each key of a long line of JSON stands in a line of its own, so that a difference can be read.
unfolded() { awk 'length > 160 { gsub(/,"/, ",\n    \"") } { print }' "$1"; }

# A sanitizer makes trainings long: there the answers that need none are compared, and the messages of a few that do.
files=$(sample "help:help plan:plan plan_predicted:plan_predicted plan_views:plan_views simulate:simulate tune:tune compare:compare doctor:doctor bench:bench train:train train_predicted:train_predicted terminal:terminal inspect:inspect diff:diff_of verify:verify convert:convert data:data tokenize:tokenize eval:eval_of generate:generate run:launch refusals:refusals" \
    "help:help plan:plan plan_views:plan_views inspect:inspect data:data refusals:refusals")
fixtures
different=0
for file in $files; do
    name=${file%:*} function=${file#*:}
    [ ${#only[@]} -eq 0 ] || [[ " ${only[*]} " == *" $name "* ]] || continue
    if [ $name = terminal ] && ! command -v script >/dev/null; then echo "SKIPPED: what is printed on a terminal, because there is no script"; continue; fi
    : >now.txt
    $function
    "$GOLDEN/normalise" "$WORK" <now.txt >$name.said || fail "the answers of $name cannot be normalised"
    if [ $update = yes ]; then
        cp $name.said "$GOLDEN/$name.txt"
    elif ! cmp -s "$GOLDEN/$name.txt" $name.said; then
        unfolded "$GOLDEN/$name.txt" >kept.txt
        unfolded $name.said | command diff -u --label "tests/cli/golden/$name.txt" --label "what is printed now" kept.txt - >difference
        different=$((different + 1))
        head -60 difference >&2
        [ "$(wc -l <difference)" -le 60 ] || echo "... $(($(wc -l <difference) - 60)) more lines" >&2
    fi
done
[ $different -eq 0 ] || fail "$different files of tests/cli/golden are not what is printed; if this is meant: ZERO=$ZERO $0 --update"
echo "every answer is its golden copy"
