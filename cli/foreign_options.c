// The names that other trainers give to options (Hugging Face's Trainer, accelerate, PEFT, axolotl,
// DeepSpeed, Megatron, torchrun, Slurm, llm.c, nanoGPT, llama.cpp): who writes such a name is told
// the right one, or what there is instead. To add a name, add a word to its row.
#include "option_table.h"

#include <stdio.h>
#include <string.h>

static const struct {
    cli_option_id id;    // a row applies to the commands that have this option
    const char *written; // how the option is written here; NULL: its own name
    const char *names;   // without "--", separated by spaces; '_' in an argument matches '-'
} rows[] = {
    {OPT_DTYPE, "--dtype bf16", "bf16 bfloat16"},
    {OPT_DTYPE, "--dtype fp16", "fp16 half"},
    {OPT_DTYPE, "--dtype fp32", "fp32"},
    {OPT_DTYPE, NULL, "mixed-precision precision torch-dtype data-type"},
    {OPT_BATCH, NULL, "batch-size per-device-eval-batch-size"},
    {OPT_MICRO_BATCH, NULL,
     "batch-size micro-batch-size per-device-train-batch-size per-gpu-train-batch-size "
     "train-micro-batch-size-per-gpu per-device-batch-size b"},
    {OPT_ACCUMULATION, NULL,
     "gradient-accumulation-steps gradient-accumulation grad-accum accumulation-steps"},
    {OPT_ADAPTER, NULL, "lora lora-path adapter-name-or-path adapter-path peft peft-model"},
    {OPT_LR, NULL, "learning-rate peak-lr max-lr l"},
    {OPT_OUT, NULL, "output-dir output out-dir save-dir save-path save o logging-dir"},
    {OPT_TO, NULL, "output-dir output out-dir out save-dir outfile o"},
    {OPT_FROM, NULL, "input input-dir checkpoint checkpoint-dir"},
    {OPT_EPOCHS, NULL, "num-train-epochs num-epochs n-epochs max-epochs"},
    {OPT_STEPS, NULL, "max-steps num-steps train-iters max-iters iterations num-train-steps"},
    {OPT_CONFIG, NULL, "deepspeed deepspeed-config ds-config ds-config-file config-file"},
    {OPT_STAGE, NULL, "zero-stage"},
    {OPT_MODEL, NULL,
     "model-name-or-path model-name model-path base-model pretrained-model-name-or-path load m "
     "init-from"},
    {OPT_DATA, NULL,
     "dataset dataset-name dataset-path dataset-dir train-file train-data train-data-path "
     "data-path data-dir input-file train-files datasets input-bin f file"},
    {OPT_VAL, NULL, "validation-file valid-data valid-data-path eval-file eval-dataset val-data"},
    {OPT_SEQ, NULL,
     "max-seq-length max-seq-len max-length seq-length sequence-len sequence-length seq-len "
     "block-size context-length cutoff-len model-max-length n-ctx ctx-size"},
    {OPT_EVAL_EVERY, NULL, "eval-steps eval-interval"},
    {OPT_SAVE_EVERY, NULL, "save-steps save-interval checkpoint-interval"},
    {OPT_KEEP, NULL, "save-total-limit"},
    {OPT_RESUME, NULL, "resume-from-checkpoint auto-resume"},
    {OPT_OVERWRITE, NULL, "overwrite-output-dir"},
    {OPT_SEED, NULL, "random-seed manual-seed data-seed"},
    {OPT_MACHINES, NULL, "nodes nnodes num-nodes num-machines"},
    {OPT_TOKENS, NULL, "max-new-tokens max-tokens num-tokens n-predict max-length length n"},
    {OPT_RANKS, NULL,
     "num-gpus gpus num-processes nproc-per-node nproc world-size n-gpus n np ntasks devices "
     "num-devices processes"},
    {OPT_TENSOR, NULL,
     "tensor-model-parallel-size tensor-parallel-size tensor-parallel autotp-size tp-size tp"},
    {OPT_PIPELINE, NULL,
     "pipeline-model-parallel-size pipeline-parallel-size pipeline-parallel pipeline-stages "
     "pipe-parallel-size pp-size pp"},
    {OPT_THREADS, NULL,
     "num-threads num-workers dataloader-num-workers preprocessing-num-workers "
     "cpus-per-task num-proc"},
    {OPT_TEMPERATURE, NULL, "temp"},
    {OPT_PROMPT, NULL, "p text input-text start"},
    {OPT_CHAT, NULL, "template chat-template prompt-template"},
    {OPT_FIELD, NULL, "text-column dataset-text-field text-field"},
    {OPT_MAP, NULL, "columns column-mapping columns-mapping field-mapping"},
    {OPT_TOKENIZER, NULL, "tokenizer-name tokenizer-name-or-path tokenizer-path tokenizer-type"},
    {OPT_VOCAB, NULL, "vocab-size"},
    {OPT_CONFIG, "optimizer.params.weight_decay in the file of --config", "weight-decay wd"},
    {OPT_CONFIG, "optimizer.params.betas in the file of --config", "adam-beta1 adam-beta2 betas"},
    {OPT_CONFIG, "optimizer.params.eps in the file of --config", "adam-epsilon adam-eps"},
    {OPT_OPTIMIZER, NULL, "optim"},
    {OPT_SCHEDULE_LR, NULL, "lr-scheduler-type lr-scheduler lr-decay-style lr-schedule"},
    {OPT_WARMUP, NULL,
     "warmup-steps num-warmup-steps warmup-iters lr-warmup-iters lr-warmup-steps"},
    {OPT_WARMUP, "--warmup P%", "warmup-ratio lr-warmup-fraction"},
    {OPT_DECAY, NULL, "decay-steps num-decay-steps lr-wsd-decay-iters"},
    {OPT_DECAY, "--decay P%", "warmdown-ratio"},
    {OPT_CONFIG, "gradient_clipping in the file of --config",
     "max-grad-norm grad-clip clip-grad clip gradient-clipping"},
    {OPT_CONFIG, "steps_per_print in the file of --config", "logging-steps log-interval"},
    {OPT_CONFIG, "train_batch_size in the file of --config", "train-batch-size global-batch-size"},
    {OPT_CONFIG, "activation_checkpointing.number_checkpoints in the file of --config",
     "gradient-checkpointing activation-checkpointing recompute-activations"},
    {OPT_CONFIG, "zero_optimization.offload_optimizer.device in the file of --config",
     "offload-optimizer-device offload-optimizer cpu-offload"},
    {OPT_CONFIG, "zero_optimization.offload_param.device in the file of --config",
     "offload-param-device offload-params"},
    {OPT_CONFIG, "tensorboard.enabled or csv_monitor.enabled in the file of --config", "report-to"},
};

// What has no option here, and why: a clause that follows the option's name.
static const struct {
    cli_option_id id; // a row applies to the commands that have this option
    const char *says;
    const char *names; // as above
} absent[] = {
    {OPT_MACHINE, "--ranks counts the devices of all machines",
     "nodes nnodes num-nodes num-machines"},
    {OPT_MACHINE, "tools/score-runs reads tables of published runs", "runs"},
    {OPT_COMM, "mpirun or srun starts ranks on several machines, without --ranks",
     "nodes nnodes num-nodes num-machines N hostfile hosts node-rank machine-rank master-addr "
     "master-port main-process-ip main-process-port rdzv-endpoint rdzv-backend include exclude"},
    {OPT_RANKS, "its ranks are on this machine alone",
     "nodes nnodes num-nodes num-machines N hostfile hosts node-rank master-addr master-port"},
    {OPT_THREADS, "ranks find their numbers in the environment of their launcher",
     "local-rank rank local-world-size"},
    {OPT_THREADS, "libzero computes on CPUs, which needs no option",
     "device device-map cuda cpu gpu use-cpu no-cuda cuda-visible-devices n-gpu-layers ngl"},
    {OPT_LORA, "--lora r=16,alpha=32,targets=q_proj+v_proj,dropout=0.05 says all of it",
     "lora-rank lora-r lora-alpha lora-dropout lora-target-modules lora-modules target-modules "
     "use-peft peft use-rslora"},
    {OPT_LORA, "--base nf4 or int8 keeps what adapters adapt in 4 or 8 bits",
     "qlora load-in-4bit load-in-8bit bits"},
    {OPT_LORA, "--lora r=16,dora trains adapters with magnitudes", "dora use-dora"},
    {OPT_LORA,
     "zero convert --from MODEL --adapter ADAPTER --to DIR adds an adapter to its model, which "
     "--model takes; --resume goes on with the run that made it",
     "adapter adapter-name-or-path"},
    {OPT_PREFERENCE, "--preference dpo,beta=0.1 says all of it",
     "pref-beta pref-loss rlhf dpo-beta loss-type simpo-gamma orpo-beta kto-chosen-weight "
     "kto-rejected-weight label-smoothing rl"},
    {OPT_REFERENCE, "the reference is the model as the run begins, or --model without its adapter",
     "ref-model ref-model-path precompute-ref-log-probs"},
    {OPT_CONFIG, "the key libzero.lora of the configuration says what trains",
     "lora lora-rank lora-r lora-alpha lora-dropout lora-target-modules lora-modules peft"},
    {OPT_DATA, "zero eval and zero generate take adapters; what is read here needs none",
     "adapter adapter-name-or-path lora lora-path"},
    {OPT_ATTENTION, "records with prompts are packed whole; --attention document packs all data",
     "packing sample-packing neat-packing pack"},
    {OPT_QUIET, "every step is told unless --quiet is given",
     "verbose verbosity v log-level logging-level debug disable-tqdm progress"},
    {OPT_HELP, "what is worth knowing is told already",
     "verbose verbosity v log-level logging-level debug"},
    {OPT_DATA,
     "each argument of --data is a file on the disk; what is read needs no split, shuffle "
     "or cache",
     "split shuffle streaming cache-dir dataset-config-name overwrite-cache"},
    {OPT_DATA, "only code that is built in runs",
     "trust-remote-code attn-implementation flash-attention use-flash-attn flash-attn "
     "torch-compile "
     "compile"},
    {OPT_DATA, "nothing is fetched from or sent to a hub",
     "hf-token token push-to-hub hub-model-id"},
    {OPT_MODEL, "models are read from the disk as they are", "revision quantize quantization"},
    {OPT_RESUME, "training is what zero train does",
     "do-train do-predict train fsdp fsdp-config ddp tensorboard-dir"},
    {OPT_EVAL_EVERY, "--eval-every says how often held-out text is evaluated",
     "do-eval eval-strategy evaluation-strategy val-loss-every"},
    {OPT_SAVE_EVERY, "--save-every and --save-seconds say how often a checkpoint is saved",
     "save-strategy"},
    {OPT_NEW, "the fields of --new say the shape, gpt2:layers=4,heads=4,width=128,context=64",
     "n-layer n-layers num-layers n-head num-attention-heads n-embd hidden-size ffn-hidden-size "
     "dropout depth"},
};

// Whether the row's `names` contain `name`: "per_device_train_batch_size" matches
// "per-device-train-batch-size".
static bool has_name(const char *names, const char *name, size_t length)
{
    for (const char *at = names; *at; at += strspn(at, " ")) {
        size_t width = strcspn(at, " "), same = 0;
        while (same < width && same < length &&
               (at[same] == name[same] || (at[same] == '-' && name[same] == '_')))
            same++;
        if (same == width && same == length)
            return true;
        at += width;
    }
    return false;
}

bool cli_foreign_option(const cli_command *command, const char *name, size_t length,
                        char out[static CLI_FOREIGN_TEXT])
{
    size_t dashes = strspn(name, "-");
    if (dashes > length)
        return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const cli_option *option = cli_option_row(rows[i].id);
        if (!cli_option_belongs(option, command) ||
            !has_name(rows[i].names, name + dashes, length - dashes))
            continue;
        snprintf(out, CLI_FOREIGN_TEXT, "here it is %s",
                 rows[i].written ? rows[i].written : option->name);
        return true;
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        const cli_option *option = cli_option_row(absent[i].id);
        if (!cli_option_belongs(option, command) ||
            !has_name(absent[i].names, name + dashes, length - dashes))
            continue;
        snprintf(out, CLI_FOREIGN_TEXT, "%s", absent[i].says);
        return true;
    }
    return false;
}
