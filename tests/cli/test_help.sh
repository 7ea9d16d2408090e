#!/usr/bin/env bash
# Help and version come from the one table of options; what no row allows is refused with the nearest name.
. "$(dirname "$0")/lib.sh"

COMMANDS="train run eval generate inspect convert diff verify tokenize tokenizer data plan compare bench doctor"
# What --help says of each option, one line an option: "--name ARGUMENT   text", on however many lines it stands.
options_of() { awk '/^  --/ { if (line) print line; line = $0; next } /^$/ { if (line) print line; line = "" } line { sub(/^ +/, " "); line = line $0 } END { if (line) print line }' "$1"; }

for command in $COMMANDS; do
    expect 0 "$ZERO" help $command
    mv out.txt help.txt
    expect 0 "$ZERO" $command --help
    cmp -s out.txt help.txt || fail "zero help $command is not zero $command --help"
    options_of out.txt >options.txt
    grep -qE '^  --help +this text$' options.txt || fail "options of $command: $(cat options.txt)"
    ! grep -vE '^  --[a-z-]+( [^ ]+)? +[^ [(]' options.txt || fail "an option of $command has no text"
    for other in $COMMANDS; do
        [ $other = $command ] || ! grep -E "(^|[ ,;(])$other( [a-z]+)?:( |$)" options.txt || fail "an option of $command speaks of $other"
    done
    grep -q "^usage: zero $command" out.txt || fail "no usage of $command"
    [ ! -s err.txt ] || fail "help of $command on stderr"
done
expect 0 "$ZERO" train --help
for option in --new --model --data --out --config --val --tokenizer --ranks --threads --comm --dtype --stage --micro-batch --accumulation --seq --steps \
              --epochs --lr --seed --eval-every --sample-every --profile --dry-run --strict --quiet --overwrite; do
    grep -q -- "^  $option" out.txt || fail "train --help lacks $option"
done
expect 0 "$ZERO" --version && grep -qE '^zero [0-9]+\.[0-9]+\.[0-9]+$' out.txt || fail "version"
expect 0 "$ZERO" --describe-configuration && grep -q 'zero_optimization.stage' out.txt || fail "table of keys"
expect 0 "$ZERO" help && mv out.txt help.txt
expect 0 "$ZERO" --help && cmp -s out.txt help.txt || fail "zero help is not zero --help"
expect 0 "$ZERO" help help && cmp -s out.txt help.txt || fail "zero help help is not zero --help"
expect 0 "$ZERO" convert --help && grep -q '(fp32|bf16|fp16) ' out.txt || fail "the types that convert writes"
expect 0 "$ZERO" --help && [ "$(grep -c '^  zero ' out.txt)" -ge 8 ] || fail "list of commands"

refused 64 "did you mean --steps?" "$ZERO" train --stpes 3
refused 64 "did you mean train?" "$ZERO" trian
refused 64 "unknown command tensor (zero --help lists all)" "$ZERO" tensor # of which less than half is train or any other
refused 64 "unknown option --abcde (zero eval --help lists all)" "$ZERO" eval --abcde # of which less than half is --data
refused 64 "unknown option -o; here it is --out" "$ZERO" train --data "$TEXT" -o x # which is no file of --data
refused 64 "unknown option -x (" "$ZERO" diff a -x
# The doctor's verdict comes first: how large a model, what is missing and how to get it, where to look.
expect 0 env PATH="$WORK" "$ZERO" doctor # without an mpirun
awk 'NR == 1 && !/^verdict .* up to [0-9.]+ billion parameters/ || NR == 2 && !/^missing .*(MPI|mpirun) .*: \.\/bootstrap deps/ || NR == 3 && !/^next .*zero plan / { exit 1 }' out.txt ||
    fail "the verdict: $(head -4 out.txt)"
sed -n 4p out.txt | grep -q '^zero ' || fail "after the verdict: $(sed -n 4p out.txt)"
for version in -v -V version; do expect 0 "$ZERO" $version && grep -q '^zero 0' out.txt || fail "zero $version"; done
expect 0 "$ZERO" run -n 2 true
refused 64 'no program to start' "$ZERO" run -n 2
refused 64 "did you mean train?" "$ZERO" help trian
refused 64 "one of fp32|bf16|fp16" "$ZERO" convert --from a --to b --dtype auto
refused 64 "no option of zero eval" "$ZERO" eval --lr 1
refused 64 "needs a value" "$ZERO" train --steps
refused 64 "needs a value" "$ZERO" train --data --out out
refused 64 "given twice" "$ZERO" train --steps 1 --steps 2
refused 64 "whole number" "$ZERO" train --steps 1x
refused 64 "from 0 to 3" "$ZERO" train --stage 4
refused 64 "--tokens 1000000000: it must be from 1 to 1000000" "$ZERO" generate --model x --tokens 1000000000
refused 64 "one of fp32|bf16|fp16|auto" "$ZERO" train --dtype fp8
refused 64 "neither bytes nor chars" "$ZERO" train --new $TINY --data "$TEXT" --out out --tokenizer words
refused 64 "takes no value" "$ZERO" train --quiet=yes
refused 64 "unexpected argument extra (usage: zero doctor" "$ZERO" doctor extra
# A word without its option: which one may have been meant.
refused 64 "unexpected argument $TEXT; did you mean --data $TEXT?" "$ZERO" train "$TEXT"
refused 64 "unexpected argument $WORK; did you mean --model $WORK?" "$ZERO" eval "$WORK"
refused 64 "unexpected argument gpt2; did you mean --new gpt2?" "$ZERO" plan gpt2
refused 64 "unexpected argument hello; did you mean --prompt hello?" "$ZERO" generate --model x hello
refused 64 "unexpected argument help: zero help train" "$ZERO" train help
refused 64 "bench matmul: it must be one of comm|gemm|" "$ZERO" bench matmul
refused 64 "data book: it must be show (usage: " "$ZERO" data book
expect 0 "$ZERO" train --help me
refused 64 "must be a number" "$ZERO" train --lr nan
expect 64 "$ZERO"
# Names that other trainers have for our options: each is told ours, in either spelling, with a value or without.
while read -r command theirs ours; do
    refused 64 "unknown option ${theirs%=*}; here it is $ours (zero $command --help lists all)" "$ZERO" $command $theirs 1
done <<'END'
train --bf16 --dtype bf16
train --fp16=true --dtype fp16
train --batch-size --micro-batch
generate --batch-size --batch
train --learning-rate --lr
train --learning_rate=1e-4 --lr
train --output-dir --out
convert --output_dir --to
train --per_device_train_batch_size --micro-batch
train --num_train_epochs --epochs
train --max_steps --steps
train --deepspeed --config
train --deepspeed_config --config
train --gradient-accumulation-steps --accumulation
train --model_name_or_path --model
eval --model_name_or_path --model
train --random_seed --seed
generate --manual-seed --seed
train --max_seq_length --seq
train --save_total_limit --keep
train --resume_from_checkpoint --resume
train --nproc_per_node --ranks
generate --max_new_tokens --tokens
tokenizer --vocab_size --vocab
train --weight_decay optimizer.params.weight_decay in the file of --config
simulate --gpus --ranks
train --gpus --ranks
generate -n --tokens
plan --nodes --machines
train --warmup_steps --warmup
train --warmup_ratio --warmup P%
train --lr_scheduler_type --schedule-lr
train --lr-wsd-decay-iters --decay
END
# What has no option here: why.
while read -r command theirs why; do
    refused 64 "unknown option $theirs; $why (zero $command --help lists all)" "$ZERO" $command $theirs 1
done <<'END'
simulate --nodes --ranks counts the devices of all machines
train --nnodes mpirun or srun starts ranks on several machines, without --ranks
train --local_rank ranks find their numbers in the environment of their launcher
train --device libzero computes on CPUs, which needs no option
train --lora_rank --lora r=16,alpha=32,targets=q_proj+v_proj,dropout=0.05 says all of it
train --verbose every step is told unless --quiet is given
doctor --verbose what is worth knowing is told already
END
refused 64 "--out is no option of zero convert; here it is --to" "$ZERO" convert --out x
refused 64 "unknown option --deepspeed (zero doctor --help lists all)" "$ZERO" doctor --deepspeed # which has none for it
refused 64 "--explain is about the keys of a configuration file: --config FILE is missing" "$ZERO" plan --new $TINY --explain
refused 64 "--quiet and --explain are both given" "$ZERO" train --new $TINY --data "$TEXT" --out out --config x --quiet --explain
# Each of the table's names stands there once a command, is none of our own, and is of a key that there is.
python3 - "$HERE/../../cli/foreign_options.c" "$ZERO" <<'PY' || fail "the table of other trainers' names"
import re, subprocess, sys
rows = re.findall(r'^ +\{OPT_(\w+), (NULL|"[^"]*"), "([^"]*)"\},$', open(sys.argv[1]).read(), re.M)
assert len(rows) > 30
manual = {c: subprocess.run([sys.argv[2], c, "--help"], capture_output=True, text=True).stdout for c in ("train", "eval", "generate", "convert", "plan")}
keys = subprocess.run([sys.argv[2], "--describe-configuration"], capture_output=True, text=True).stdout
for option, written, names in rows:
    ours = "--" + option.lower().replace("_", "-")
    for key in re.findall(r"[a-z_0-9]+(?:\.[a-z_0-9]+)+|[a-z_]+_[a-z_]+", written):
        assert "`%s`" % key in keys, key
    for name in names.split():
        for command, text in manual.items():
            assert not (re.search(r"^  %s " % ours, text, re.M) and re.search(r"^  --%s " % name, text, re.M)), (name, command)
PY
echo "help and options agree"
