// zero plan: bytes of every rank, without a run.
#include "failure.h"
#include "overrides.h"

int cli_plan(const cli_arguments *a)
{
    int models = a->given[OPT_NEW] + a->given[OPT_MODEL] + a->given[OPT_PARAMS];
    if (models != 1)
        return cli_fail_usage(a->command, "%s of --new, --model and --params; usage: zero plan %s", models ? "more than one" : "none", a->command->usage);
    if (a->given[OPT_PARAMS] && (a->given[OPT_DEVICE_MEMORY] || a->given[OPT_HOST_MEMORY]))
        return cli_fail_usage(a->command, "--params plans by formulas that know of one memory: --memory BYTES says how large it is");
    cli_overrides overrides;
    cli_overrides_fill(a, &overrides);
    zero_plan_options options = {.struct_size = sizeof options, .new_spec = a->text[OPT_NEW], .model = a->text[OPT_MODEL],
                                 .parameters = a->real[OPT_PARAMS], .config_path = a->text[OPT_CONFIG], .overrides = overrides.at,
                                 .override_count = overrides.count, .seq = a->integer[OPT_SEQ], .ranks = (int)a->integer[OPT_RANKS],
                                 .memory = a->integer[OPT_MEMORY], .json = a->given[OPT_JSON], .logger = {.write = cli_log_stderr, .user = (void *)a}};
    zero_error error = {0};
    return zero_plan(&options, cli_print, NULL, &error) == ZERO_OK ? 0 : cli_fail(a->command, &error);
}
