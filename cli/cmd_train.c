// zero train: runs one rank of a training, or starts and supervises its ranks as their parent.
#include "commands.h"
#include "console.h"
#include "running.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Checks what only this command knows about its options. Returns 0, or the exit code after a
// message.
static int check_train_usage(const cli_arguments *a)
{
    if (a->given[OPT_NEW] == a->given[OPT_MODEL])
        return cli_fail_usage(a->command,
                              "%s: --new SPEC starts from random weights, --model DIR from a model",
                              a->given[OPT_NEW] ? "both --new and --model are given"
                                                : "neither --new nor --model is given");
    if (!a->data_count)
        return cli_fail_usage(a->command, "no text: --data FILE names what to train on");
    if (a->given[OPT_ALLOW_CHANGE] && !a->given[OPT_RESUME])
        return cli_fail_usage(
            a->command,
            "--allow-change says what may differ from a checkpoint: --resume is missing");
    if (a->given[OPT_RESUME] && a->given[OPT_OVERWRITE])
        return cli_fail_usage(a->command, "--resume and --overwrite are both given: a run goes on, "
                                          "or it is replaced");
    if (a->given[OPT_QUIET] && a->given[OPT_EXPLAIN])
        return cli_fail_usage(
            a->command, "--quiet and --explain are both given: one prints less, the other more");
    if (a->given[OPT_STEPS] && a->given[OPT_EPOCHS])
        return cli_fail_usage(
            a->command, "--steps and --epochs are both given; one of them says how long to train");
    return 0;
}

// Returns when Slurm will end the allocation, in seconds since 1970, and says so; 0: unknown. A
// time in the past was left behind by another job: this one would end after its first step.
static double end_of_allocation(cli_console *console)
{
    const char *text = getenv("SLURM_JOB_END_TIME");
    char line[160], clock[32] = "?", *rest;
    if (!text || !*text)
        return 0;
    double end = strtod(text, &rest);
    bool number = !*rest && end > 0 && end < 1e11, ahead = number && end > (double)time(NULL);
    time_t at = number ? (time_t)end : 0;
    struct tm parts;
    if (localtime_r(&at, &parts))
        strftime(clock, sizeof clock, "%Y-%m-%d %H:%M", &parts);
    snprintf(line, sizeof line,
             ahead    ? "Slurm    ends this allocation at %s (SLURM_JOB_END_TIME): the run saves "
                        "before"
             : number ? "SLURM_JOB_END_TIME is in the past (%s), so it is of another job: ignored"
                      : "SLURM_JOB_END_TIME is \"%.40s\", where seconds since 1970 would be right: "
                        "ignored",
             number ? clock : text);
    cli_console_log(console, ahead ? ZERO_LOG_INFO : ZERO_LOG_WARNING, line);
    return ahead ? end : 0;
}

static void take_subject(const cli_arguments *a, zero_train_options *o)
{
    o->new_spec = a->text[OPT_NEW];
    o->model_dir = a->text[OPT_MODEL];
    o->ignore_unused = a->given[OPT_IGNORE_UNUSED];
    o->tokenizer = a->text[OPT_TOKENIZER];
    o->data = a->data;
    o->data_count = a->data_count;
    o->val = a->text[OPT_VAL];
    o->field = cli_field(a);
    o->chat = a->text[OPT_CHAT];
    o->chat_date = a->text[OPT_CHAT_DATE];
}

static void take_settings(const cli_arguments *a, const cli_overrides *overrides,
                          zero_train_options *o)
{
    o->config_path = a->text[OPT_CONFIG];
    o->overrides = overrides->at;
    o->override_count = overrides->count;
    o->strict = a->given[OPT_STRICT];
    o->seq = a->integer[OPT_SEQ];
    o->steps = a->integer[OPT_STEPS];
    o->epochs = a->real[OPT_EPOCHS];
    o->seed = -1; // an override gives it
    o->threads = (int)a->integer[OPT_THREADS];
    o->backend = a->given[OPT_BACKEND] ? a->text[OPT_BACKEND] : "auto";
}

// Returns zero_train_options.eval_every: 0 leaves it to the library, -1 wants no evaluations.
static int64_t eval_every(const cli_arguments *a)
{
    int64_t every = a->integer[OPT_EVAL_EVERY];
    if (!a->given[OPT_EVAL_EVERY])
        return 0;
    return every ? every : -1;
}

static void take_outputs(const cli_arguments *a, zero_train_options *o)
{
    bool needs_none = a->given[OPT_DRY_RUN] && !a->given[OPT_OUT];
    o->out_dir = needs_none ? NULL : cli_out(a);
    o->overwrite = a->given[OPT_OVERWRITE];
    o->dry_run = a->given[OPT_DRY_RUN];
    o->eval_every = eval_every(a);
    o->sample_every = a->integer[OPT_SAMPLE_EVERY];
    o->save_every = a->integer[OPT_SAVE_EVERY];
    o->save_seconds = a->real[OPT_SAVE_SECONDS];
    o->keep = a->integer[OPT_KEEP];
    o->no_final_checkpoint = a->given[OPT_NO_FINAL_CHECKPOINT];
    o->profile = a->text[OPT_PROFILE];
    o->no_learn = a->given[OPT_NO_LEARN];
}

// Sets how the run begins and ends if it is not the first one in its place.
static void take_course(const cli_arguments *a, const cli_signals *signals, cli_console *console,
                        zero_train_options *o)
{
    o->resume = a->given[OPT_RESUME];
    o->allow_change = a->text[OPT_ALLOW_CHANGE];
    o->job = zero_run_job();
    o->restarted = zero_restart_count() > 0;
    o->stop = signals->stop;
    o->end_by = end_of_allocation(console);
}

static int train_rank(const cli_arguments *a, zero_comm *comm, const cli_signals *signals)
{
    cli_console console;
    cli_console_init(&console, a->given[OPT_QUIET] || zero_comm_rank(comm) > 0,
                     a->given[OPT_EXPLAIN]);
    cli_overrides overrides;
    cli_overrides_fill(a, &overrides);
    zero_train_options options = {
        .struct_size = sizeof options,
        .logger = {.write = cli_console_log, .user = &console},
        .progress = cli_console_progress,
        .progress_user = &console,
    };
    take_subject(a, &options);
    take_settings(a, &overrides, &options);
    take_outputs(a, &options);
    take_course(a, signals, &console, &options);
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
    int code = check_train_usage(a);
    if (code)
        return code;
    if (cli_is_parent(a, &code)) {
        cli_signals_announce();
        return cli_say_resume(a, cli_supervise(a));
    }
    cli_signals signals =
        cli_signals_install(zero_supervised() ? CLI_SIGNALS_SUPERVISED : CLI_SIGNALS_ALONE);
    zero_comm *comm = code ? NULL : cli_open_comm(a, &code);
    if (!comm)
        return code;
    if (zero_comm_rank(comm) == 0 && !zero_supervised())
        cli_signals_announce();
    code = train_rank(a, comm, &signals);
    cli_close_comm(comm);
    return code;
}
