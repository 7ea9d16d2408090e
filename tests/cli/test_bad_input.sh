#!/usr/bin/env bash
# Every kind of bad input: one clear line, the right exit code, nothing left behind.
. "$(dirname "$0")/lib.sh"
zt() { local code=$1 words=$2; shift 2; refused "$code" "$words" "$ZERO" train --new $TINY --steps 2 --threads 1 --quiet --out out "$@"; }

zt 74 'cannot open "missing.txt"' --data missing.txt
: >empty.txt
zt 65 '"empty.txt" is empty' --data empty.txt
printf 'BZh91AY&SY....' >packed.txt # whatever its name: bytes of an archive are no text
zt 65 '"packed.txt" is compressed by bzip2, where text is needed: unpack it first' --data packed.txt
printf 'PAR1....' >rows.jsonl
zt 65 'rows.jsonl: it does not end as it begins (cut off?): the Parquet file is damaged' --data rows.jsonl
zt 65 'is a directory' --data .
printf 'short' >short.txt
zt 65 '5 tokens, fewer than the 33 of one window' --data short.txt
{ printf 'ab\377\376cd'; head -c 200 "$TEXT"; } >invalid.txt
zt 65 'byte 2 (0xff) is not valid UTF-8' --data invalid.txt
zt 65 'byte 2 (0xff) is not valid UTF-8' --data text:invalid.txt --tokenizer chars
printf 'a,b\n1,2\n' >rows.csv
zt 65 '"rows.csv" is a table by its name' --data "$TEXT" --val rows.csv
printf '\223NUMPY\1\0' >array.npy
refused 65 '"array.npy" is an array of NumPy' "$ZERO" tokenizer train --vocab 300 --data array.npy --out learnt
zt 74 'cannot open "missing.txt"' --data "$TEXT" --val missing.txt

# A name whose extension stands for another format than the one that is written, before anything is read; a directory that is there may have any name.
named() { refused 64 "$1" "$ZERO" "${@:2}"; }
named '--to q.gguf: what is written there is a directory, not a .gguf file: name it q, for example' convert --from missing --format hf --to q.gguf
named '--draw p/x.PNG: what is written there is an SVG, not a .PNG file: name it p/x.svg, for example' plan --new $TINY --draw p/x.PNG
named '--out m.safetensors/: what is written there is a directory with a run' train --new $TINY --data missing --out m.safetensors/
named '--profile t.csv: what is written there is a trace in JSON' train --new $TINY --data missing --out out --profile t.csv
named 'name it t.bin, for example' tokenize --tokenizer bytes --data missing --out t.npy
named 'name it t, for example' tokenizer train --data missing --out t.json
named 'name it t, for example' tune --new $TINY --out t.json
named 'name it t.md, for example' compare --new $TINY --out t.html
named 'name it m.json, for example' doctor --write-machine m.yaml
[ ! -e q.gguf ] && [ ! -e m.safetensors ] || fail "something was made: $(ls)"
mkdir there.bin
for out in there.bin llama-3.1 v.2/../a .bin; do refused 74 'cannot open "missing"' "$ZERO" train --new $TINY --data missing --quiet --out $out; done

zt 74 'missing.json' --data "$TEXT" --config missing.json
mkdir cfg
zt 78 'is a directory' --data "$TEXT" --config cfg
truncate -s 1G big.json
zt 78 '1073741824 bytes' --data "$TEXT" --config big.json
python3 -c "print('[' * 10000)" >deep.json
zt 78 'nested deeper' --data "$TEXT" --config deep.json
config() { echo "$1" >bad.json; zt 78 "$2" --data "$TEXT" --config bad.json; }
config '{"gradient_clipping": NaN}' 'bad.json:1:23: NaN'
config '{"zero_optimization": {"stage": "two"}}' 'bad.json:1:33: zero_optimization.stage'
config '{"zero_optimization": {"stage": 7}}' 'found 7'
config '{"zero_optimization": {"stage": 1.5}}' 'found 1.5'
config '{"gradient_clipping": "much"}' 'gradient_clipping'
config '{"gradient_clipping": -1}' 'gradient_clipping'
config '{"train_micro_batch_size_per_gpu": 0}' 'train_micro_batch_size_per_gpu'
config '{"optimizer": {"type": "AdamW", "params": {"lr": "fast"}}}' 'optimizer.params.lr'
config '{"optimizer": {"type": "Adam", "params": {"betas": [0.9]}}}' 'optimizer.params.betas'
cycle='"type": "OneCycle", "params": {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 1'
config "{\"scheduler\": {$cycle, \"cycle_min_mom\": 1}}}" 'scheduler.params.cycle_min_mom is 1, which beta1 reaches by update 1'
echo "{\"scheduler\": {$cycle, \"decay_step_size\": 1, \"decay_mom_rate\": 0.05}}}" >bad.json
refused 78 'scheduler.params.decay_mom_rate 0.05 takes beta1 to 1 or above at update 6 of 9' "$ZERO" train --new $TINY --data "$TEXT" --steps 9 --threads 1 --quiet --out out --config bad.json
config '{"zero_optimisation": {"stage": 1}}' 'did you mean "zero_optimization"?'
config '{"steps_per_print": 1, "steps_per_print": 2}' 'steps_per_print'
config '{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}' '7 != 2*2*1'
config '{"bf16": {"enabled": true}, "fp16": {"enabled": true}}' 'both enabled'
# The file is checked before any text is read: what is wrong with the text is not noticed. That there is no text is.
for data in invalid.txt empty.txt; do
    echo '{"zero_optimisation": {"stage": 1}}' >bad.json
    zt 78 'did you mean "zero_optimization"?' --data $data --tokenizer chars --config bad.json
    echo '{"zero_optimization": {"stage": 1, "offload_param": {"device": "cpu"}}}' >bad.json
    zt 78 'parameters are partitioned from stage 3 on' --data $data --tokenizer chars --config bad.json
done
echo '{"zero_optimization": {"stage": 2}}' >two.json
zt 64 'contradicts two.json' --data "$TEXT" --config two.json --stage 3 --strict

refused 74 '"/proc/nowhere' "$ZERO" train --new $TINY --steps 2 --threads 1 --quiet --data "$TEXT" --out /proc/nowhere/run
refused 74 'is no directory' "$ZERO" train --new $TINY --steps 2 --threads 1 --quiet --data "$TEXT" --out "$TEXT"
mkdir -p held/model && echo mine >held/model/model.safetensors
refused 64 'which no run of libzero has written' "$ZERO" train --new $TINY --steps 2 --threads 1 --quiet --data "$TEXT" --out held
[ "$(cat held/model/model.safetensors)" = mine ] || fail "what lies there was touched"

zt 64 'at most 1024' --data "$TEXT" --ranks 1025
zt 64 'from 1' --data "$TEXT" --ranks 0
zt 64 '--comm self is one rank' --data "$TEXT" --ranks 2 --comm self
zt 64 'mpirun' --data "$TEXT" --ranks 2 --comm mpi
# Tensor parallelism: what contradicts what, with the numbers; then what cannot be cut, with what could, and who asks for it.
plan() { local code=$1 words=$2; shift 2; refused "$code" "$words" "$ZERO" plan --new $TINY "$@"; }
both() { plan "$@"; zt "$1" "$2" --data "$TEXT" "${@:3}"; }
tensor() { echo "$1" >bad.json; both "$2" "$3" --ranks 4 --config bad.json "${@:4}"; }
both 64 '3 ranks are no multiple of --tensor 2: --ranks 2 or 4' --ranks 3 --tensor 2
both 64 '--tensor -1: it must be from 1 to 1024' --tensor -1
zt 64 '1 rank is no multiple of --tensor 4: --ranks 4 or 8' --data "$TEXT" --tensor 4
tensor '{"tensor_parallel": {"autotp_size": 3}}' 78 '4 ranks are no multiple of tensor_parallel.autotp_size 3 (bad.json:1:37): 3 or 6 ranks'
tensor '{"tensor_parallel": {"autotp_size": 4, "tp": {"tp_size": 2}}}' 78 'tensor_parallel.tp.tp_size 2 (bad.json:1:58) contradicts tensor_parallel.autotp_size 4 (bad.json:1:37)'
tensor '{"tensor_parallel": {"tp": {"tp_size": 2}}}' 64 '--tensor 4 contradicts tensor_parallel.tp.tp_size 2 (bad.json:1:40)' --tensor 4
tensor '{"libzero": {"sequence_parallel": false}}' 64 '--sequence-parallel contradicts libzero.sequence_parallel false (bad.json:1:35)' --tensor 2 --sequence-parallel
tensor '{"libzero": {"exact_tensor": 6}}' 78 'libzero.exact_tensor: found 6, expected a power of two: 4 or 8'
tensor '{"libzero": {"exact_tensor": 2}}' 78 'libzero.exact_tensor 2 is no multiple of --tensor 4: it goes with --tensor 1, 2' --tensor 4
tensor '{"libzero": {"tiling": {"mlp": 2}}}' 78 'libzero.tiling.mlp 2 (bad.json:1:32) cuts weights into tiles, --tensor 2 the model into slices' --tensor 2
tensor '{"seq_parallel_communication_data_type": "bf16"}' 78 'seq_parallel_communication_data_type "bf16" (bad.json:1:42) is refused with --tensor 2: sums of slices are fp32' --tensor 2
tensor '{"tensor_parallel": {"partition_config": {"layer_specs": []}}}' 78 'tensor_parallel.partition_config is refused: the model says its own split'
tensor '{"tensor_parallel": {"injection_policy_tuple": ["o_proj"]}}' 78 'tensor_parallel.injection_policy_tuple is refused: the model says its own split'
tensor '{"tensor_parallel": {"vocab_parallel_lm_head": false}}' 78 'tensor_parallel.vocab_parallel_lm_head false is refused: the head is always divided'
tensor '{"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}' 78 'x data ranks: 12 != 2*2*2, on 2 data ranks (4 ranks, 2 a model)' --tensor 2
tensor '{"elasticity": {"enabled": true, "max_train_batch_size": 24, "micro_batch_sizes": [2], "num_gpus_per_node": 4}}' 78 'elasticity.model_parallel_size is 1, but a model has 2 tensor ranks' --tensor 2
tensor '{}' 78 "$TINY has 2 heads, which --tensor 4 does not divide: 2" --tensor 4
tensor '{"tensor_parallel": {"tp": {"tp_size": 4}}}' 78 "$TINY has 2 heads, which tensor_parallel.tp.tp_size 4 (bad.json:1:40) does not divide: 2"
tensor '{"libzero": {"exact_tensor": 4}}' 78 "$TINY has 2 heads, which libzero.exact_tensor 4 (bad.json:1:30) does not divide: 2"
plan 78 "$TINY has 2 heads, which --tensor 4 does not divide: 2" --tensor 4 # as many ranks as a model needs
refused 78 'gpt2-xl has 25 heads, which --tensor 2 does not divide: 5 or 25' "$ZERO" plan --new gpt2-xl --tensor 2
# Pipelines: likewise.
piped() { echo "$1" >bad.json; both "$2" "$3" --ranks 8 --config bad.json "${@:4}"; }
both 64 '3 ranks are no multiple of --pipeline 2: --ranks 2 or 4' --ranks 3 --pipeline 2
both 64 '6 ranks are no multiple of --pipeline 2 x --tensor 2, which is 4: --ranks 4 or 8' --ranks 6 --pipeline 2 --tensor 2
both 64 '--pipeline 0: it must be from 1 to 256' --ranks 2 --pipeline 0
both 64 '--schedule zero: expected one of 1f1b, gpipe, interleaved:CHUNKS (2 to 8), zb-h1, pipedream, 2bw' --ranks 2 --pipeline 2 --schedule zero
both 64 '--split 6,0: expected first units of chunks in ascending order' --ranks 2 --pipeline 2 --split 6,0
both 64 '--split 0,1,2 begins 3 chunks, and there are 2' --ranks 2 --pipeline 2 --split 0,1,2
both 64 '--split 1,2 does not begin with unit 0' --ranks 2 --pipeline 2 --split 1,2
piped '{"pipeline": {"stages": 3}}' 78 '8 ranks are no multiple of pipeline.stages 3 (bad.json:1:25): 6 or 9 ranks'
piped '{"pipeline": {"stages": 4}}' 64 '--pipeline 2 contradicts pipeline.stages 4 (bad.json:1:25)' --pipeline 2
piped '{"libzero": {"pipeline": {"schedule": "gpipe"}}}' 64 '--schedule zb-h1 contradicts libzero.pipeline.schedule "gpipe" (bad.json:1:39)' --pipeline 2 --schedule zb-h1
piped '{"libzero": {"pipeline": {"split": [0, 2]}}}' 64 '--split 0,1 contradicts libzero.pipeline.split [0,2] (bad.json:1:36)' --pipeline 2 --split 0,1
piped '{"pipeline": {"partition": "profile"}}' 78 'found "profile", expected best, uniform, parameters or type:REGEX (DeepSpeed itself has no profile)'
piped '{"pipeline": {"partition": "type:["}}' 78 'pipeline.partition: "[" is no regular expression: ' --pipeline 2
piped '{"pipeline": {"pipe_partitioned": false}}' 78 'pipeline.pipe_partitioned false is refused: tensor ranks always divide'
piped '{"gradient_accumulation_steps": 6}' 78 '(8 ranks: 4 pipeline stages x 2 tensor)), no multiple of 4 pipeline stages; 4 or 8 would do, or 1f1b' --pipeline 4 --tensor 2 --schedule interleaved
piped '{"gradient_accumulation_steps": 2}' 78 '--schedule 2bw: a step has 2 micro-batches' --pipeline 4 --schedule 2bw
piped '{}' 78 'gradient_clipping: 0 would do' --pipeline 2 --schedule pipedream
piped '{"zero_optimization": {"stage": 3}}' 78 'which zero_optimization.stage 3 divides: expected 0, 1 or 2' --pipeline 2 --schedule pipedream
piped '{"gradient_accumulation_steps": 4, "fp16": {"enabled": true}}' 78 'a fixed fp16.loss_scale would do, or bf16' --pipeline 2 --schedule 2bw
piped '{"gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}' 78 'zero_optimization.offload_param.device "cpu" (bad.json:1:98) would keep them elsewhere' --pipeline 2 --schedule 2bw
for command in eval generate; do
    refused 64 "--pipeline is no option of zero $command, which needs a run without a pipeline" "$ZERO" $command --model held --pipeline 2
done
refused 64 '--params plans by formulas that know no pipelines: --schedule needs --new or --model' "$ZERO" plan --params 1e9 --schedule gpipe
refused 64 'bench gemm knows no pipelines (--pipeline, --schedule, --split): step does' "$ZERO" bench gemm --pipeline 2 --threads 1
uncut() { refused 78 "$1 has $2" "$ZERO" train --new "$1" --data "$TEXT" --ranks 4 --threads 1 --quiet --out out "${@:3}"; }
uncut llama:layers=1,heads=6,kv_heads=3,width=48,inner=96,context=32 '3 heads of keys and values, which --tensor 2 neither divides nor is a multiple of: 3 or 6' --tensor 2
uncut llama:layers=1,heads=4,width=48,inner=97,context=32 'an MLP of width 97, which --tensor 4 does not divide; no number of tensor ranks fits this model: none above 1 divides both its 4 heads and the width 97 of its MLP' --tensor 4
for flag in "--tensor 2" --sequence-parallel; do
    # shellcheck disable=SC2086 # words
    refused 64 "--params plans by formulas that know no tensor parallelism: ${flag% 2} needs --new or --model" "$ZERO" plan --params 1e9 $flag
done
refused 64 'bench gemm knows no tensor parallelism' "$ZERO" bench gemm --tensor 2
refused 64 '3 ranks are no multiple of --tensor 2: --ranks 2 or 4' "$ZERO" bench step --new $TINY --ranks 3 --threads 1 --tensor 2

zt 64 'a context of 32' --data "$TEXT" --seq 99
zt 74 'cannot open "missing.txt"' --data missing.txt --ranks 2
bad_spec() { refused 64 "$2" "$ZERO" train --new "$1" --data "$TEXT" --quiet --out out; }
bad_spec gpt2:layers=2,heads=3,width=32 'not divisible by 3 heads'
while read -r name meant; do bad_spec "$name" "did you mean \"$meant\"?"; done <<'END'
gpt3 gpt2
gpt2-small gpt2
gpt2xl gpt2-xl
GPT2-Large gpt2-large
gpt2-lrge gpt2-large
llama-3-8b llama-3.1-8b
llama-3-70b llama-3.1-70b
meta-llama/Llama-3.1-8B-Instruct llama-3.1-8b
llama-7b llama-2-7b
END
bad_spec bert-base 'there are gpt2, gpt2-medium, '
mkdir gpt2-mine && bad_spec gpt2-mine 'this is a directory, no preset: --model starts from it'
bad_spec gpt2:depth=2 'there is no field "depth"; there are vocab, '
bad_spec gpt2:layer=2 'did you mean "layers"?'
refused 64 'neither --new nor --model' "$ZERO" train --data "$TEXT" --out out
refused 64 'both --new and --model' "$ZERO" train --new $TINY --model x --data "$TEXT" --out out
refused 64 'no text' "$ZERO" train --new $TINY --out out
# What is wrong is told in the order in which one looks: options, what is trained, data, the file, and the place for outputs at last.
expect 0 "$ZERO" train --new $TINY --data "$TEXT" --threads 1 --steps 1 --val none --quiet # into ./run
[ -d run/model ] || fail "without --out a run is in ./run"
first() { refused "$1" "$2" "$ZERO" train "${@:3}"; }
first 64 'unknown option --nwe' --nwe gpt3 --data missing.txt --config missing.json
first 64 'neither --new nor --model' --data missing.txt --config missing.json
first 64 'there is no preset "gpt3"' --new gpt3 --data missing.txt --config missing.json
first 74 'there is no directory "gpt2"' --model gpt2 --data missing.txt --config missing.json
mkdir nothing && first 74 '"nothing" is no model: it has no config.json' --model nothing --data missing.txt
first 74 '"text.txt" is a file: a model is a directory' --model text.txt --data missing.txt
first 64 '--resume and --overwrite are both given' --new $TINY --data "$TEXT" --resume --overwrite
refused 74 'cannot open "missing.txt"' "$ZERO" compare --new $TINY --ranks 2 --data missing.txt
refused 74 '"missing" is not there' "$ZERO" diff run missing
refused 74 '"text.txt" is a file, and its name does not end in .safetensors' "$ZERO" convert --from text.txt --to out
first 74 'cannot open "missing.txt"' --new $TINY --data missing.txt --config missing.json
first 74 'missing.json' --new $TINY --data "$TEXT" --config missing.json
first 64 '"run" already holds a run (checkpoints, model, times.json, metrics.jsonl, config.json): --resume continues it from step 1, --overwrite replaces it, another --out leaves' \
    --new $TINY --data "$TEXT"
expect 0 "$ZERO" convert --from run --quiet
expect 0 "$ZERO" tokenize --tokenizer bytes --data "$TEXT"
expect 0 "$ZERO" tokenizer train --data "$TEXT" --vocab 260
[ -s converted/config.json ] && [ -s tokens.bin ] && [ -s tokenizer/tokenizer.json ] || fail "without --out: $(ls)"
refused 64 '--steps and --epochs' "$ZERO" train --new $TINY --data "$TEXT" --out out --steps 1 --epochs 1
refused 78 'TB a rank are needed' "$ZERO" train --new gpt2-xl --micro-batch 500 --data "$TEXT" --quiet --out out

train --steps 2 --val none --out model-run
cp -r model-run/model truncated
truncate -s -100 truncated/model.safetensors
refused 65 'model.safetensors' "$ZERO" eval --model truncated --data "$TEXT"
refused 65 'model.safetensors' "$ZERO" train --model truncated --data "$TEXT" --threads 1 --quiet --steps 1 --out out
refused 65 'model.safetensors' "$ZERO" generate --model truncated
rm truncated/model.safetensors
refused 74 'model.safetensors' "$ZERO" eval --model truncated --data "$TEXT"
refused 74 'nowhere' "$ZERO" eval --model nowhere --data "$TEXT"
refused 64 'no program' "$ZERO" run --ranks 2
refused 64 'no such program' "$ZERO" run --ranks 2 there-is-no-such-program
refused 64 'how many ranks' "$ZERO" run true

# Address space that ends before the model fits: refused, not killed.
if (ulimit -v 600000; "$ZERO" --version) >/dev/null 2>&1; then
    ( ulimit -v 600000; refused 74 'memory' "$ZERO" train --new gpt2 --seq 64 --micro-batch 1 --data "$TEXT" --threads 1 --quiet --steps 1 --out out ) || exit 1
else
    echo "SKIPPED a part: this build (a sanitizer's) does not start under a limit of address space"
fi
# A file size limit takes the place of a full shared memory: what cannot be reserved is refused.
( ulimit -f 200; trap '' XFSZ; refused 74 '' "$ZERO" train --new gpt2:layers=2,heads=2,width=256,context=32 --data "$TEXT" --threads 1 --ranks 2 --quiet --steps 1 --out out ) || exit 1
echo "every bad input was refused"
