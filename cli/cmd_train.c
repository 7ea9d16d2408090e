// zero train: either one rank of a training, or the parent that starts its ranks and supervises them.
#include "commands.h"
#include "console.h"
#include "failure.h"
#include "overrides.h"
#include "ranks.h"
#include "signals.h"

#include <stdlib.h>

// What no other code can say in terms of options; 0: nothing is wrong.
static int check(const cli_arguments *a)
{
    if (a->given[OPT_NEW] == a->given[OPT_MODEL])
        return cli_fail_usage(a->command, "%s: --new SPEC starts from random weights, --model DIR from a model",
                              a->given[OPT_NEW] ? "both --new and --model are given" : "neither --new nor --model is given");
    if (!a->data_count)
        return cli_fail_usage(a->command, "no text: --data FILE names what to train on");
    if (!a->given[OPT_OUT] && !a->given[OPT_DRY_RUN])
        return cli_fail_usage(a->command, "no place for the model: --out DIR names one (--dry-run needs none)");
    if (a->given[OPT_ALLOW_CHANGE] && !a->given[OPT_RESUME])
        return cli_fail_usage(a->command, "--allow-change says what may differ from a checkpoint: --resume is missing");
    if (a->given[OPT_QUIET] && a->given[OPT_EXPLAIN])
        return cli_fail_usage(a->command, "--quiet and --explain are both given: one prints less, the other more");
    if (a->given[OPT_STEPS] && a->given[OPT_EPOCHS])
        return cli_fail_usage(a->command, "--steps and --epochs are both given; one of them says how long to train");
    return 0;
}

// When Slurm ends the allocation, in seconds since 1970; 0: nobody has said.
static double end_of_allocation(void)
{
    const char *text = getenv("SLURM_JOB_END_TIME");
    return text ? strtod(text, NULL) : 0;
}

static zero_train_options options_of(const cli_arguments *a, const cli_overrides *overrides, const cli_signals *signals, cli_console *console)
{
    return (zero_train_options){
        .struct_size = sizeof(zero_train_options),
        .new_spec = a->text[OPT_NEW], .model_dir = a->text[OPT_MODEL],
        .data = a->data, .data_count = a->data_count, .val = a->text[OPT_VAL], .field = a->text[OPT_FIELD], .chat = a->text[OPT_CHAT],
        .tokenizer = a->text[OPT_TOKENIZER], .out_dir = a->text[OPT_OUT], .config_path = a->text[OPT_CONFIG],
        .overrides = overrides->at, .override_count = overrides->count,
        .seq = a->integer[OPT_SEQ], .steps = a->integer[OPT_STEPS], .epochs = a->real[OPT_EPOCHS], .lr = a->real[OPT_LR],
        .seed = a->given[OPT_SEED] ? a->integer[OPT_SEED] : -1,
        .eval_every = !a->given[OPT_EVAL_EVERY] ? 0 : a->integer[OPT_EVAL_EVERY] ? a->integer[OPT_EVAL_EVERY] : -1,
        .sample_every = a->integer[OPT_SAMPLE_EVERY], .threads = (int)a->integer[OPT_THREADS], .backend = a->text[OPT_BACKEND],
        .save_every = a->integer[OPT_SAVE_EVERY], .save_seconds = a->real[OPT_SAVE_SECONDS], .keep = a->integer[OPT_KEEP], .resume = a->given[OPT_RESUME],
        .job = zero_run_job(), .restarted = zero_restart_count() > 0,
        .stop = signals->stop, .end_by = end_of_allocation(),
        .profile = a->text[OPT_PROFILE], .dry_run = a->given[OPT_DRY_RUN], .strict = a->given[OPT_STRICT], .overwrite = a->given[OPT_OVERWRITE],
        .allow_change = a->text[OPT_ALLOW_CHANGE], .ignore_unused = a->given[OPT_IGNORE_UNUSED], .no_final_checkpoint = a->given[OPT_NO_FINAL_CHECKPOINT],
        .logger = {.write = cli_console_log, .user = console}, .progress = cli_console_progress, .progress_user = console,
    };
}

static int train_rank(const cli_arguments *a, zero_comm *comm, const cli_signals *signals)
{
    cli_console console;
    cli_console_init(&console, a->given[OPT_QUIET] || zero_comm_rank(comm) > 0, a->given[OPT_EXPLAIN]);
    cli_overrides overrides;
    cli_overrides_fill(a, &overrides);
    zero_train_options options = options_of(a, &overrides, signals, &console);
    zero_error error = {0};
    zero_status status = zero_train(comm, &options, &error);
    cli_console_clear(&console);
    if (status == ZERO_OK)
        return 0;
    if (status != ZERO_ERR_STOPPED || zero_supervised())
        return cli_fail_rank(a->command, comm, &error);
    if (zero_comm_rank(comm) == 0)
        cli_say_resume(a, cli_fail(a->command, &error));
    return zero_status_exit_code(status); // the others know it all
}

int cli_train(const cli_arguments *a)
{
    int code = check(a);
    if (code)
        return code;
    if (cli_is_parent(a, &code))
        return cli_say_resume(a, cli_supervise(a));
    cli_signals signals = cli_signals_install(zero_supervised() ? CLI_SIGNALS_SUPERVISED : CLI_SIGNALS_ALONE);
    zero_comm *comm = code ? NULL : cli_open_comm(a, &code);
    if (!comm)
        return code;
    code = train_rank(a, comm, &signals);
    cli_close_comm(comm);
    return code;
}
