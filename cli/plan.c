// zero plan: bytes of every rank, without a run.
#include "failure.h"

int cli_plan(const cli_arguments *a)
{
    int models = a->given[OPT_NEW] + a->given[OPT_MODEL] + a->given[OPT_PARAMS];
    if (models != 1)
        return cli_fail_usage(a->command, "%s of --new, --model and --params; usage: zero plan %s", models ? "more than one" : "none", a->command->usage);
    static const struct {
        cli_option_id id;
        const char *key, *flag;
    } keys[] = {{OPT_DTYPE, "libzero.dtype", "--dtype"},
                {OPT_STAGE, "zero_optimization.stage", "--stage"},
                {OPT_MICRO_BATCH, "train_micro_batch_size_per_gpu", "--micro-batch"},
                {OPT_ACCUMULATION, "gradient_accumulation_steps", "--accumulation"}};
    zero_override overrides[sizeof keys / sizeof *keys];
    int count = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (a->given[keys[i].id])
            overrides[count++] = (zero_override){.key = keys[i].key, .value = a->text[keys[i].id], .flag = keys[i].flag};
    zero_plan_options options = {.struct_size = sizeof options, .new_spec = a->text[OPT_NEW], .model = a->text[OPT_MODEL],
                                 .parameters = a->real[OPT_PARAMS], .config_path = a->text[OPT_CONFIG], .overrides = overrides,
                                 .override_count = count, .seq = a->integer[OPT_SEQ], .ranks = (int)a->integer[OPT_RANKS],
                                 .memory = a->integer[OPT_MEMORY], .json = a->given[OPT_JSON], .logger = {.write = cli_log_stderr}};
    zero_error error = {0};
    return zero_plan(&options, cli_print, NULL, &error) == ZERO_OK ? 0 : cli_fail(a->command, &error);
}
