#include "overrides.h"

#include "option_table.h"

static const struct {
    cli_option_id id;
    const char *key;
} rows[CLI_MOST_OVERRIDES] = {
    {OPT_ALLOW_UNKNOWN, "libzero.allow_unknown"},
    {OPT_DTYPE, "libzero.dtype"},
    {OPT_STAGE, "zero_optimization.stage"},
    {OPT_MICRO_BATCH, "train_micro_batch_size_per_gpu"},
    {OPT_ACCUMULATION, "gradient_accumulation_steps"},
    {OPT_DEVICE_MEMORY, "libzero.device_memory"},
    {OPT_HOST_MEMORY, "libzero.host_memory"},
};

void cli_overrides_fill(const cli_arguments *a, cli_overrides *out)
{
    out->count = 0;
    for (int i = 0; i < CLI_MOST_OVERRIDES; i++) {
        cli_option_id id = rows[i].id;
        const cli_option *row = cli_option_row(id);
        if (!a->given[id])
            continue;
        char *number = out->number[out->count];
        const char *text = row->kind == CLI_FLAG    ? "true"
                           : row->kind == CLI_BYTES ? number
                                                    : a->text[id];
        snprintf(number, sizeof out->number[0], "%lld", (long long)a->integer[id]);
        out->at[out->count++] =
            (zero_override){.key = rows[i].key, .value = text, .flag = row->name};
    }
}
