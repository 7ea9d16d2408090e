// zero tune: finds the fastest way to train a model here.
#include "commands.h"
#include "running.h"

// Checks what only this command knows about its options. Returns 0, or the exit code after a
// message.
static int check_tune_usage(const cli_arguments *a)
{
    if (a->given[OPT_NEW] == a->given[OPT_MODEL])
        return cli_fail_usage(a->command,
                              "%s: --new SPEC starts from random weights, --model DIR from a model",
                              a->given[OPT_NEW] ? "both --new and --model are given"
                                                : "neither --new nor --model is given");
    if (!a->data_count)
        return cli_fail_usage(a->command, "no text: --data FILE names what to train on");
    if (a->given[OPT_RANKS] && a->integer[OPT_RANKS] > ZERO_MAX_RANKS)
        return cli_fail_usage(a->command, "--ranks %lld: at most %d",
                              (long long)a->integer[OPT_RANKS], ZERO_MAX_RANKS);
    return 0;
}

// Prints what is going on, too, because it takes minutes.
static void print_progress(void *user, zero_log_level level, const char *message)
{
    if (level == ZERO_LOG_INFO)
        fprintf(stderr, "%s\n", message);
    else
        cli_log_stderr(user, level, message);
}

static zero_tune_options tune_options(const cli_arguments *a, const cli_overrides *overrides)
{
    return (zero_tune_options){
        .new_spec = a->text[OPT_NEW],
        .model_dir = a->text[OPT_MODEL],
        .data = a->data,
        .data_count = a->data_count,
        .field = cli_field(a),
        .chat = a->text[OPT_CHAT],
        .chat_date = a->text[OPT_CHAT_DATE],
        .tokenizer = a->text[OPT_TOKENIZER],
        .ignore_unused = a->given[OPT_IGNORE_UNUSED],
        .config_path = a->text[OPT_CONFIG],
        .overrides = overrides->at,
        .override_count = overrides->count,
        .seq = a->integer[OPT_SEQ],
        .ranks = (int)a->integer[OPT_RANKS],
        .threads = (int)a->integer[OPT_THREADS],
        .backend = a->given[OPT_BACKEND] ? a->text[OPT_BACKEND] : NULL,
        .out_dir = a->text[OPT_OUT],
        .trials = a->integer[OPT_TRIALS],
        .seconds = a->given[OPT_SECONDS] ? a->real[OPT_SECONDS] : 0,
        .metric = a->text[OPT_METRIC],
        .json = a->given[OPT_JSON],
        .stop = cli_signals_install(CLI_SIGNALS_ALONE).stop,
        .logger = {.write = print_progress, .user = (void *)a},
    };
}

int cli_tune(const cli_arguments *a)
{
    int code = check_tune_usage(a);
    if (code)
        return code;
    cli_overrides overrides;
    cli_overrides_fill(a, &overrides);
    const zero_tune_options options = tune_options(a, &overrides);
    zero_error error = {0};
    return zero_tune(&options, cli_print, NULL, &error) == ZERO_OK ? 0
                                                                   : cli_fail(a->command, &error);
}
