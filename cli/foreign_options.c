// The names that other trainers give to options that exist here (Hugging Face's Trainer,
// accelerate, DeepSpeed, Megatron, torchrun, llama.cpp): a user who writes such a name is told the
// right one. To add a name, add a word to its row.
#include "option_table.h"

#include <string.h>

static const struct {
    cli_option_id id;    // a row applies to the commands that have this option
    const char *written; // how the option is written here; NULL: its own name
    const char *names;   // without "--", separated by spaces; '_' in an argument matches '-'
} rows[] = {
    {OPT_DTYPE, "--dtype bf16", "bf16 bfloat16"},
    {OPT_DTYPE, "--dtype fp16", "fp16 half"},
    {OPT_DTYPE, "--dtype fp32", "fp32"},
    {OPT_DTYPE, NULL, "mixed-precision precision torch-dtype"},
    {OPT_BATCH, NULL, "batch-size per-device-eval-batch-size"},
    {OPT_MICRO_BATCH, NULL,
     "batch-size micro-batch-size per-device-train-batch-size per-gpu-train-batch-size "
     "train-micro-batch-size-per-gpu"},
    {OPT_ACCUMULATION, NULL,
     "gradient-accumulation-steps gradient-accumulation grad-accum accumulation-steps"},
    {OPT_LR, NULL, "learning-rate peak-lr max-lr"},
    {OPT_OUT, NULL, "output-dir output out-dir save-dir save-path save"},
    {OPT_TO, NULL, "output-dir output out-dir out save-dir outfile"},
    {OPT_FROM, NULL, "input input-dir checkpoint checkpoint-dir"},
    {OPT_EPOCHS, NULL, "num-train-epochs num-epochs n-epochs max-epochs"},
    {OPT_STEPS, NULL, "max-steps num-steps train-iters max-iters iterations num-train-steps"},
    {OPT_CONFIG, NULL, "deepspeed deepspeed-config ds-config ds-config-file config-file"},
    {OPT_STAGE, NULL, "zero-stage"},
    {OPT_MODEL, NULL,
     "model-name-or-path model-name model-path base-model pretrained-model-name-or-path load"},
    {OPT_DATA, NULL,
     "dataset dataset-name dataset-path dataset-dir train-file train-data train-data-path "
     "data-path data-dir input-file"},
    {OPT_VAL, NULL, "validation-file valid-data valid-data-path eval-file eval-dataset val-data"},
    {OPT_SEQ, NULL,
     "max-seq-length max-seq-len max-length seq-length sequence-len sequence-length seq-len "
     "block-size context-length cutoff-len model-max-length"},
    {OPT_EVAL_EVERY, NULL, "eval-steps eval-interval"},
    {OPT_SAVE_EVERY, NULL, "save-steps save-interval checkpoint-interval"},
    {OPT_KEEP, NULL, "save-total-limit"},
    {OPT_RESUME, NULL, "resume-from-checkpoint auto-resume"},
    {OPT_OVERWRITE, NULL, "overwrite-output-dir"},
    {OPT_SEED, NULL, "random-seed manual-seed data-seed"},
    {OPT_RANKS, NULL, "num-gpus num-processes nproc-per-node nproc world-size n-gpus np"},
    {OPT_TENSOR, NULL,
     "tensor-model-parallel-size tensor-parallel-size tensor-parallel autotp-size tp-size tp"},
    {OPT_PIPELINE, NULL,
     "pipeline-model-parallel-size pipeline-parallel-size pipeline-parallel pipeline-stages "
     "pipe-parallel-size pp-size pp"},
    {OPT_THREADS, NULL, "num-threads num-workers dataloader-num-workers preprocessing-num-workers"},
    {OPT_TOKENS, NULL, "max-new-tokens max-tokens num-tokens n-predict"},
    {OPT_TEMPERATURE, NULL, "temp"},
    {OPT_CHAT, NULL, "template chat-template prompt-template"},
    {OPT_FIELD, NULL, "text-column dataset-text-field text-field"},
    {OPT_TOKENIZER, NULL, "tokenizer-name tokenizer-name-or-path tokenizer-path tokenizer-type"},
    {OPT_VOCAB, NULL, "vocab-size"},
    {OPT_CONFIG, "optimizer.params.weight_decay in the file of --config", "weight-decay wd"},
    {OPT_CONFIG, "optimizer.params.betas in the file of --config", "adam-beta1 adam-beta2 betas"},
    {OPT_CONFIG, "optimizer.params.eps in the file of --config", "adam-epsilon adam-eps"},
    {OPT_CONFIG, "optimizer.type in the file of --config", "optim optimizer"},
    {OPT_CONFIG, "scheduler.params.warmup_num_steps in the file of --config",
     "warmup-steps num-warmup-steps warmup-iters warmup-ratio"},
    {OPT_CONFIG, "scheduler.type in the file of --config",
     "lr-scheduler-type lr-scheduler lr-decay-style"},
    {OPT_CONFIG, "gradient_clipping in the file of --config",
     "max-grad-norm grad-clip clip-grad gradient-clipping"},
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

const char *cli_foreign_option(const cli_command *command, const char *name, size_t length)
{
    size_t dashes = strspn(name, "-");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const cli_option *option = cli_option_row(rows[i].id);
        if (cli_option_belongs(option, command) && dashes <= length &&
            has_name(rows[i].names, name + dashes, length - dashes))
            return rows[i].written ? rows[i].written : option->name;
    }
    return NULL;
}
