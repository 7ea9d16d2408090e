// zero compare: one model, trained in every way that ranks can share the work.
#include "commands.h"
#include "running.h"

// Prints what is going on to standard error, because the answer goes to standard output; without
// --quiet also how far it is.
static void log_progress(void *user, zero_log_level level, const char *message)
{
    const cli_arguments *a = user;
    if (level == ZERO_LOG_INFO && !a->given[OPT_QUIET])
        fprintf(stderr, "%s\n", message);
    else
        cli_log_stderr(user, level, message);
}

int cli_compare(const cli_arguments *a)
{
    if (a->given[OPT_NEW] == a->given[OPT_MODEL])
        return cli_fail_usage(a->command,
                              "%s: --new SPEC starts from random weights, --model DIR "
                              "from a model",
                              a->given[OPT_NEW] ? "both --new and --model are given"
                                                : "neither --new nor --model is given");
    cli_signals signals = cli_signals_install(CLI_SIGNALS_ALONE);
    cli_overrides overrides;
    cli_overrides_fill(a, &overrides);
    const zero_compare_options options = {
        .new_spec = a->text[OPT_NEW],
        .model = a->text[OPT_MODEL],
        .data = a->data,
        .data_count = a->data_count,
        .config_path = a->text[OPT_CONFIG],
        .overrides = overrides.at,
        .override_count = overrides.count,
        .seq = a->integer[OPT_SEQ],
        .ranks = (int)a->integer[OPT_RANKS],
        .threads = (int)a->integer[OPT_THREADS],
        .memory = a->integer[OPT_MEMORY],
        .nvme = a->text[OPT_PATH],
        .steps = a->integer[OPT_STEPS] > INT32_MAX ? INT32_MAX : (int)a->integer[OPT_STEPS],
        .json = a->given[OPT_JSON],
        .path = a->text[OPT_OUT],
        .logger = {.write = log_progress, .user = (void *)a},
        .stop = signals.stop,
    };
    zero_error error = {0};
    if (zero_compare(&options, cli_print, NULL, &error) != ZERO_OK)
        return cli_fail(a->command, &error);
    if (options.path)
        fprintf(stderr, "%s: the comparison\n", options.path);
    return 0;
}
