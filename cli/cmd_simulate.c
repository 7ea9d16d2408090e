// zero simulate: predicts runs on machines that are not here.
#include "commands.h"
#include "running.h"
#include "option_table.h"

#include <string.h>

// Whether the list of known machines is requested.
static bool asks_for_list(const cli_arguments *a)
{
    return a->given[OPT_MACHINE] && !strcmp(a->text[OPT_MACHINE], "list");
}

// Checks that no option describes the run in addition to the file of --run. Returns 0, or the exit
// code after a message.
static int check_run_file(const cli_arguments *a)
{
    static const bool allowed[CLI_OPTIONS] = {[OPT_RUN_FILE] = true,
                                              [OPT_MACHINE] = true,
                                              [OPT_FRAMEWORK] = true,
                                              [OPT_ORDER] = true,
                                              [OPT_MTBF] = true,
                                              [OPT_TOKENS] = true,
                                              [OPT_CHECKPOINT_RATE] = true,
                                              [OPT_CHECKPOINT_ASYNC] = true,
                                              [OPT_STEPS] = true,
                                              [OPT_RESTART_TIME] = true,
                                              [OPT_EXPLAIN] = true,
                                              [OPT_JSON] = true};
    for (int id = 0; id < CLI_OPTIONS; id++)
        if (a->given[id] && !allowed[id])
            return cli_fail_usage(a->command, "%s does not go with --run: the file says it",
                                  cli_option_row((cli_option_id)id)->name);
    return 0;
}

// Checks what goes together. Returns 0, or the exit code after a message.
static int check_combinations(const cli_arguments *a)
{
    static const cli_option_id of_failures[] = {OPT_CHECKPOINT_RATE, OPT_CHECKPOINT_ASYNC,
                                                OPT_RESTART_TIME};
    if (a->given[OPT_TOKENS] && a->given[OPT_STEPS])
        return cli_fail_usage(a->command,
                              "--tokens and --steps are both given: each says how long the "
                              "training is");
    if (a->given[OPT_EXPLAIN])
        return cli_fail_usage(a->command, "--explain goes with --machine list alone: an answer "
                                          "tells its constants in any case");
    bool ranks = a->given[OPT_RANKS] || a->given[OPT_RUN_FILE];
    if (!a->given[OPT_MACHINE] || !ranks)
        return cli_fail_usage(a->command, "%s is missing; usage: zero simulate %s",
                              a->given[OPT_MACHINE] ? "--ranks" : "--machine", a->command->usage);
    for (int i = 0; i < (int)(sizeof of_failures / sizeof *of_failures); i++)
        if (a->given[of_failures[i]] && !a->given[OPT_MTBF])
            return cli_fail_usage(a->command, "%s is about failures, and --mtbf is missing",
                                  cli_option_row(of_failures[i])->name);
    return 0;
}

// Checks what only this command knows about its options. Returns 0, or the exit code after a
// message.
static int check_simulate_usage(const cli_arguments *a)
{
    int models = a->given[OPT_NEW] + a->given[OPT_MODEL] + a->given[OPT_RUN_FILE];
    if (!models && asks_for_list(a))
        return 0;
    if (models != 1)
        return cli_fail_usage(a->command, "%s of --new, --model and --run; usage: zero simulate %s",
                              models ? "more than one" : "none", a->command->usage);
    int code = a->given[OPT_RUN_FILE] ? check_run_file(a) : 0;
    return code ? code : check_combinations(a);
}

int cli_simulate(const cli_arguments *a)
{
    int code = check_simulate_usage(a);
    if (code)
        return code;
    cli_overrides overrides;
    cli_overrides_fill(a, &overrides);
    const zero_simulate_options options = {
        .new_spec = a->text[OPT_NEW],
        .model = a->text[OPT_MODEL],
        .run = a->text[OPT_RUN_FILE],
        .machine = a->text[OPT_MACHINE],
        .config_path = a->text[OPT_CONFIG],
        .overrides = overrides.at,
        .override_count = overrides.count,
        .ranks = (int)a->integer[OPT_RANKS],
        .parallel = cli_parallel(a),
        .context = (int)a->integer[OPT_CONTEXT],
        .global_batch = a->integer[OPT_GLOBAL_BATCH],
        .seq = a->integer[OPT_SEQ],
        .recompute = a->text[OPT_RECOMPUTE],
        .products = a->text[OPT_PRODUCTS],
        .framework = a->text[OPT_FRAMEWORK],
        .order = a->text[OPT_ORDER],
        .mtbf_hours = a->real[OPT_MTBF],
        .checkpoint_rate = a->real[OPT_CHECKPOINT_RATE] * 1e9,
        .restart = a->real[OPT_RESTART_TIME],
        .asynchronous = a->given[OPT_CHECKPOINT_ASYNC],
        .json = a->given[OPT_JSON],
        .tokens = a->given[OPT_TOKENS] ? a->integer[OPT_TOKENS] : 0,
        .steps = a->given[OPT_STEPS] ? a->integer[OPT_STEPS] : 0,
        .explain = a->given[OPT_EXPLAIN],
        .logger = {.write = cli_log_stderr, .user = (void *)a},
    };
    zero_error error = {0};
    if (zero_simulate(&options, cli_print, NULL, &error) != ZERO_OK)
        return cli_fail(a->command, &error);
    return 0;
}
