# What the commands of test_golden.sh look at: made here, or copied from other tests, into the current directory.
# shellcheck shell=bash disable=SC2154 # $HERE, $TEXT and flip are of lib.sh

fixtures()
{
    local name
    cp -r "$HERE/format_1" "$HERE/saved_tokenizer" .
    for name in s1-groups-r2 s2-schedule-r3 s3-frozen-r3; do cp -r "$HERE/../formats/deepspeed/$name" $name; done
    cp -r s2-schedule-r3 broken
    for name in gpt2:smollm2 llama:llama2; do
        cp -r "$HERE/generate/${name%:*}" ${name%:*}
        cp "$HERE/../tokenizer/tokenizers/${name#*:}.json" ${name%:*}/tokenizer.json
    done
    chmod -R u+w .
    flip broken/global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt 9000
    head -c 20 $TEXT >short.txt
    head -c 1000 $TEXT >few.txt
    mkdir disk
    printf 'GGUF\003\000\000\000' >model.gguf
    echo '{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "disk"}, "offload_optimizer": {"device": "cpu"}}}' >offload.json
    echo '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "activation_checkpointing": {"number_checkpoints": 24}}' >offloaded.json
    echo '{"activation_checkpointing": {"partition_activations": true, "number_checkpoints": 3}, "train_micro_batch_size_per_gpu": 2}' >divided.json
    echo '{"elasticity": {"enabled": true, "max_train_batch_size": 12, "micro_batch_sizes": [1, 2, 3], "version": 0.1}}' >elastic.json
    echo '{"libzero": {"offload": "auto", "nvme_path": "disk", "device_memory": "4GB", "host_memory": "4GB"}}' >auto.json
    echo '{"zero_allow_untested_optimizer": true, "zero_optimization": {"stage": 3, "contiguous_gradients": true}, "prescale_gradients": false, "dump_state": true}' >keys.json
    echo '{"train_batch_size": 2, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 0}, "activation_checkpointing": {"number_checkpoints": 2}}' >one.json
    echo '{"steps_per_print": 2, "wall_clock_breakdown": true, "memory_breakdown": true, "flops_profiler": {"enabled": true, "profile_step": 2}, "comms_logger": {"enabled": true}}' >recorded.json
    echo '{"zero_optimisation": {"stage": 1}}' >unknown.json
    echo '{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2}' >clash.json
    printf '{"bf16": {"enabled": true},\n "fp16": }\n' >syntax.json
    echo '{"name": "wrong", "gpus": 8}' >wrong.json
    cat >chat.jsonl <<'END'
{"messages": [{"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "Four."}]}
{"prompt": "The owl is", "completion": " wise."}

{"text": "A record of plain text that counts as a whole, because nothing in it is a prompt."}
END
    printf '{"text": "fine"}\n{"text": 7}\n' >bad.jsonl
    printf '{"text": "one"}\n{"text": ""}\n{"text": "two"}\n' >records.jsonl
    printf '{"asked": "Speak"}\n{"asked": "First Citizen:"}\n' >prompts.jsonl
    printf '{"layers": 80, "width": 8192, "heads": 64, "kv_heads": 8, "gated": true, "devices": 512, "tensor": 8, "seq": 8192,\n "global_batch": 512, "stage": 3, "products": "fp8", "recompute": "operators", "overlaps_tensor": true}\n' >run.json
    python3 - <<'END'
import json, struct
for name, last in (("made", 2.5), ("changed", 2.75)):
    values = {"a.weight": [0.5, -1.25, 3.0, 0.0, 7.75, last], "b": [float("inf"), 1.0]}
    header, at = {}, 0
    for tensor, x in values.items():
        header[tensor] = {"dtype": "F32", "shape": [2, 3] if len(x) == 6 else [2], "data_offsets": [at, at + 4 * len(x)]}
        at += 4 * len(x)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(name + ".safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(struct.pack("<f", v) for x in values.values() for v in x))
END
}
