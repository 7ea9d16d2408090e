// The options that set keys of the configuration, as the library takes them.
#include "option_table.h"

// Commands whose configuration says how ranks are divided.
#define DIVIDED (1 << CLI_TRAIN | 1 << CLI_PLAN | 1 << CLI_TUNE)

static const struct {
    cli_option_id id;
    const char *key;
    unsigned commands; // those whose flag sets the key; 0: all that have it
} rows[CLI_MOST_OVERRIDES] = {
    {OPT_ALLOW_UNKNOWN, "libzero.allow_unknown"},
    {OPT_DTYPE, "libzero.dtype"},
    {OPT_STAGE, "zero_optimization.stage"},
    {OPT_MICRO_BATCH, "train_micro_batch_size_per_gpu"},
    {OPT_ACCUMULATION, "gradient_accumulation_steps"},
    {OPT_DEVICE_MEMORY, "libzero.device_memory"},
    {OPT_HOST_MEMORY, "libzero.host_memory"},
    {OPT_TENSOR, "tensor_parallel.autotp_size", DIVIDED},
    {OPT_SEQUENCE_PARALLEL, "libzero.sequence_parallel", DIVIDED},
    {OPT_PIPELINE, "pipeline.stages", DIVIDED},
    {OPT_SCHEDULE, "libzero.pipeline.schedule", DIVIDED},
    {OPT_SPLIT, "libzero.pipeline.split", DIVIDED},
    {OPT_LORA, "libzero.lora"},
    {OPT_BASE, "libzero.base", 1 << CLI_TRAIN | 1 << CLI_PLAN},
    {OPT_PREFERENCE, "libzero.preference", 1 << CLI_TRAIN | 1 << CLI_PLAN},
    {OPT_TASK, "libzero.task", 1 << CLI_TRAIN},
    {OPT_REFERENCE, "libzero.reference", 1 << CLI_TRAIN},
    {OPT_OPTIMIZER, "optimizer.type", 1 << CLI_TRAIN | 1 << CLI_PLAN},
    {OPT_OPTIMIZER_STATES, "libzero.optimizer_states", 1 << CLI_TRAIN | 1 << CLI_PLAN},
    {OPT_EMA, "libzero.ema_decay", 1 << CLI_TRAIN | 1 << CLI_PLAN},
    {OPT_ATTENTION, "libzero.attention"},
    {OPT_SEED, "libzero.seed", 1 << CLI_TRAIN},
    {OPT_LR, "optimizer.params.lr", 1 << CLI_TRAIN},
    {OPT_SCHEDULE_LR, "libzero.schedule.type"},
    {OPT_WARMUP, "libzero.schedule.warmup"},
    {OPT_DECAY, "libzero.schedule.decay"},
};

static const char *option_as_text(const cli_arguments *a, cli_option_id id, char number[static 32])
{
    switch (cli_option_row(id)->kind) {
    case CLI_FLAG: return "true";
    case CLI_INTEGER:
    case CLI_BYTES: snprintf(number, 32, "%lld", (long long)a->integer[id]); return number;
    case CLI_REAL: snprintf(number, 32, "%.17g", a->real[id]); return number;
    default: return a->text[id];
    }
}

void cli_overrides_fill(const cli_arguments *a, cli_overrides *out)
{
    out->count = 0;
    for (int i = 0; i < CLI_MOST_OVERRIDES; i++) {
        cli_option_id id = rows[i].id;
        unsigned command = 1u << (a->command - cli_commands);
        if (!a->given[id] || (rows[i].commands && !(rows[i].commands & command)))
            continue;
        out->at[out->count] =
            (zero_override){.key = rows[i].key,
                            .value = option_as_text(a, id, out->number[out->count]),
                            .flag = cli_option_row(id)->name};
        out->count++;
    }
}

zero_parallel cli_parallel(const cli_arguments *a)
{
    return (zero_parallel){.tensor = (int)a->integer[OPT_TENSOR],
                           .sequence_parallel = a->given[OPT_SEQUENCE_PARALLEL],
                           .pipeline = (int)a->integer[OPT_PIPELINE],
                           .schedule = a->text[OPT_SCHEDULE],
                           .split = a->text[OPT_SPLIT]};
}
