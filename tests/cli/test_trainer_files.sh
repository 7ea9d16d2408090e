#!/usr/bin/env bash
# Files of the kinds that trainers built on DeepSpeed ship (axolotl, LLaMA-Factory, accelerate, transformers, ms-swift, FastChat, trl): each is
# planned at the stage and the tiers that it says, and trained; those that ask for what is not built are refused with the key named.
. "$(dirname "$0")/lib.sh"

BATCH='"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto"'
FP16='"fp16": {"enabled": "auto", "auto_cast": false, "loss_scale": 0, "initial_scale_power": 32, "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1}'
ADAMW='"optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}}'
BUCKETS='"overlap_comm": true, "contiguous_gradients": true, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"'
HOST='{"device": "cpu", "pin_memory": true}'
NONE='{"device": "none", "nvme_path": null, "pin_memory": true}'

cat >files.txt <<END
axolotl-stage-1 1 none none {"zero_optimization": {"stage": 1, "overlap_comm": true}, "bf16": {"enabled": "auto"}, $FP16, "compile": {"disable": false, "backend": "inductor"}, $BATCH, "wall_clock_breakdown": false}
axolotl-stage-3 3 none none {"zero_optimization": {"stage": 3, $BUCKETS, "sub_group_size": 0, "max_live_parameters": 0, "max_reuse_distance": 0, "gather_16bit_weights_on_model_save": true}, "bf16": {"enabled": true}, $BATCH}
axolotl-autotp 2 none none {"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "tensor_parallel": {"autotp_size": 2}, "gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": "auto", "train_batch_size": "auto"}
axolotl-all-on-host 3 cpu cpu {"zero_optimization": {"stage": 3, "offload_optimizer": $HOST, "offload_param": $HOST, $BUCKETS, "sub_group_size": 0, "stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0}, "bf16": {"enabled": true}, $BATCH}
factory-stage-0 0 none none {$BATCH, "zero_allow_untested_optimizer": true, $FP16, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 0, "allgather_partitions": true, "allgather_bucket_size": 5e8, "overlap_comm": false, "reduce_scatter": true, "reduce_bucket_size": 5e8, "contiguous_gradients": true, "round_robin_gradients": true}}
factory-monitors 3 cpu none {"train_micro_batch_size_per_gpu": "auto", "zero_force_ds_cpu_optimizer": true, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": false}, "sub_group_size": 1000000000}, "steps_per_print": 10000000, "comms_config": {"verbose": false}, "monitor_config": {"enabled": true, "tag": "DeepSpeedMonitor", "csv_monitor": {"enabled": false}}}
accelerate-stage-2 2 cpu none {$FP16, $ADAMW, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}}, "zero_optimization": {"stage": 2, "offload_optimizer": $HOST, "allgather_partitions": true, "allgather_bucket_size": 2e8, "overlap_comm": true, "reduce_scatter": true, "reduce_bucket_size": "auto", "contiguous_gradients": true}, $BATCH, "steps_per_print": 2000}
accelerate-sequences 3 none none {"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}, "gradient_accumulation_steps": 1, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "seq_parallel_communication_data_type": "bf16"}
transformers-stage-3 3 cpu cpu {"bfloat16": {"enabled": "auto"}, $ADAMW, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}}, "zero_optimization": {"stage": 3, "offload_optimizer": $HOST, "offload_param": $HOST, $BUCKETS, "sub_group_size": 1e9, "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9, "stage3_gather_fp16_weights_on_model_save": true}, $BATCH}
swift-stage-3 3 none none {$FP16, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3, "offload_optimizer": $NONE, "offload_param": $NONE, "overlap_comm": false, "zero_quantized_weights": false, "zero_quantized_gradients": false, "stage3_gather_16bit_weights_on_model_save": true}, $BATCH, "steps_per_print": 2000}
fastchat-stage-3 3 cpu cpu {"fp16": {"enabled": "auto", "loss_scale": 0}, $ADAMW, "zero_optimization": {"stage": 3, "offload_optimizer": $HOST, "offload_param": $HOST, $BUCKETS, "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9}, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
trl-stage-2 2 none none {"train_batch_size": "auto", "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 2, "offload_optimizer": $NONE, "offload_param": $NONE, "stage3_gather_16bit_weights_on_model_save": false}, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_allow_untested_optimizer": true}
END

while read -r name stage optimizer parameters text; do
    echo "$text" >"$name.json"
    expect 0 "$ZERO" plan --new $TINY --config "$name.json" --ranks 2 --json
    python3 - "$name" "$stage" "$optimizer" "$parameters" <<'PY' || fail "zero plan of $name: $(head -c 300 out.txt)"
import json, sys
name, stage, optimizer, parameters = sys.argv[1:]
row, = [r for r in json.load(open("out.txt"))["rows"] if str(r["stage"]) == stage]
assert row["ranks"] == 2, row
PY
    case $name in axolotl* | accelerate-stage-2 | transformers*) ;; *) continue ;; esac
    train --config "$name.json" --ranks 2 --steps 2 --eval-every 0 --out "$name"
    python3 - "$name" "$stage" "$optimizer" "$parameters" <<'PY' || fail "$name has run with another stage, or on other tiers"
import json, math, sys
name, stage, optimizer, parameters = sys.argv[1:]
zero = json.load(open(name + "/config.json"))["zero_optimization"]
devices = [zero[key]["device"] for key in ("offload_optimizer", "offload_param")]
assert str(zero["stage"]) == stage and devices == [optimizer, parameters], (zero["stage"], devices)
losses = [l["loss"] for l in map(json.loads, open(name + "/metrics.jsonl")) if "loss" in l]
assert len(losses) == 2 and all(map(math.isfinite, losses)), losses
PY
done <files.txt

# What has no effect is one line, and with --explain another for each reason, in every command that takes a file.
for command in "plan --new $TINY" "train --new $TINY --data $TEXT --threads 1 --steps 1 --eval-every 0 --out said --overwrite" \
               "eval --model axolotl-stage-3/model --data $TEXT --threads 1" "generate --model axolotl-stage-3/model --tokens 2 --threads 1"; do
    echo '{"zero_optimization": {"stage": 3, "contiguous_gradients": true, "offload_param": {"device": "cpu", "pin_memory": true}}, "dump_state": false}' >said.json
    keys="3 keys of said.json have"
    case $command in eval* | generate*) keys="1 key of said.json has" ;; esac
    expect 0 "$ZERO" $command --config said.json
    [ "$(grep -c "no effect here" err.txt)" -eq 1 ] && grep -qx "$keys no effect here (--explain)" err.txt || fail "$command: $(cat err.txt)"
    expect 0 "$ZERO" $command --config said.json --explain
    grep -qx "$keys no effect here (--explain)" err.txt || fail "$command --explain: $(cat err.txt)"
    grep -qE "^(config   )?said.json:1:[0-9]*: no effect here: zero_optimization.offload_param.pin_memory: the memory of this backend" err.txt || fail "$command --explain: $(cat err.txt)"
done

# The file of a training on tensor ranks serves others, too: they hear that its number is not theirs.
for command in "eval --data $TEXT" "generate --tokens 2"; do
    expect 0 "$ZERO" $command --model axolotl-autotp/model --config axolotl-autotp.json --threads 1 --explain
    grep -qx '1 key of axolotl-autotp.json has no effect here (--explain)' err.txt &&
        grep -q '^axolotl-autotp.json:1:[0-9]*: no effect here: tensor_parallel.autotp_size: where nothing is trained --tensor alone says' err.txt ||
        fail "$command with tensor ranks in the file: $(cat err.txt)"
done

# sub_group_size 0, and any other, are the same bits.
sed 's/"sub_group_size": 0/"sub_group_size": 1e9/' axolotl-all-on-host.json >whole.json
train --config whole.json --ranks 2 --steps 2 --eval-every 0 --out whole
[ "$(fingerprint whole)" = "$(fingerprint axolotl-all-on-host)" ] || fail "sub_group_size 0 has other bits"

asks() {
    echo "$1" >asks.json
    refused "$2" "$3" "$ZERO" plan --new $TINY --config asks.json --ranks 2
    refused "$2" "$3" "$ZERO" train --new $TINY --data "$TEXT" --ranks 2 --threads 1 --quiet --config asks.json --out out
}
asks '{"pipeline": {"stages": 2}, "gradient_accumulation_steps": 1, "libzero": {"pipeline": {"schedule": "2bw"}}}' 78 'fewer than 2 pipeline stages'
asks '{"autotuning": {"enabled": true}}' 78 'autotuning.enabled true is refused: a training does not search: zero tune does, with this file'
asks '{"compression_training": {"weight_quantization": {"shared_parameters": {"enabled": true}}}}' 78 'compression_training is refused: DeepSpeed has removed it: 0.19.6 reads it, 0.19.8 refuses it'
asks '{"expert_parallel": {"enabled": true}}' 78 'expert_parallel is refused: expert parallelism is not built yet'
asks '{"sequence_parallel_size": 2}' 78 'sequence_parallel_size 2 is refused: dividing each sequence among ranks (Ulysses, AutoSP) is not built yet'
asks '{"wandb": {"enabled": true, "project": "x"}}' 78 'asks.json:1:11: wandb is refused: it needs a network service; tensorboard and csv_monitor write the same values to files'
asks '{"zero_optimization": {"zenflow": {"topk_ratio": 0.1}}}' 78 'zero_optimization.zenflow is refused: ZenFlow is not built yet'
asks '{"cuda_visible_devices": "0"}' 78 'asks.json:1:26: unknown key "cuda_visible_devices" (--allow-unknown ignores such keys)'
expect 0 "$ZERO" plan --new $TINY --config asks.json --allow-unknown
grep -qx 'asks.json:1:26: unknown key "cuda_visible_devices": it is ignored' err.txt || fail "--allow-unknown: $(cat err.txt)"
echo "the trainers' files plan and train as they say"
