// zero run: starts a program of the user on N ranks of this machine.
#include "commands.h"
#include "running.h"

int cli_run(const cli_arguments *a)
{
    if (!a->given[OPT_RANKS])
        return cli_fail_usage(a->command,
                              "how many ranks? --ranks N (or -n N) says it; usage: zero run %s",
                              a->command->usage);
    if (!a->program || !a->program[0])
        return cli_fail_usage(a->command, "no program to start; usage: zero run %s",
                              a->command->usage);
    if (a->integer[OPT_RANKS] > ZERO_MAX_RANKS)
        return cli_fail_usage(a->command, "--ranks %lld: at most %d",
                              (long long)a->integer[OPT_RANKS], ZERO_MAX_RANKS);
    cli_signals signals = cli_signals_install(CLI_SIGNALS_RUNNER);
    zero_run_options options = {.struct_size = sizeof options,
                                .ranks = (int)a->integer[OPT_RANKS],
                                .argv = (const char *const *)a->program,
                                .stop = signals.stop,
                                .notes = signals.notes,
                                .grace_seconds = a->real[OPT_GRACE],
                                .restarts = (int)a->integer[OPT_RESTARTS],
                                .min_ranks = (int)a->integer[OPT_MIN_RANKS],
                                .logger = {.write = cli_log_stderr}};
    zero_error error = {0};
    int code = 0;
    if (zero_run(&options, &code, &error) == ZERO_OK)
        return code;
    int of_status = cli_fail(a->command, &error);
    return code ? code : of_status;
}
