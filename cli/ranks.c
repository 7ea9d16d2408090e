#define _GNU_SOURCE
#include "running.h"

#include "commands.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_is_parent(const cli_arguments *a, int *code)
{
    zero_error error = {0};
    int launched = 0;
    *code = 0;
    if (zero_launched_ranks(&launched, &error) != ZERO_OK)
        *code = cli_fail(a->command, &error);
    else if (a->given[OPT_RANKS] && a->integer[OPT_RANKS] > ZERO_MAX_RANKS)
        *code = cli_fail_usage(a->command, "--ranks %lld: at most %d",
                               (long long)a->integer[OPT_RANKS], ZERO_MAX_RANKS);
    else if (strcmp(a->text[OPT_COMM], "self") == 0 && a->integer[OPT_RANKS] > 1)
        *code = cli_fail_usage(a->command, "--comm self is one rank, --ranks says %lld",
                               (long long)a->integer[OPT_RANKS]);
    else if (!launched && strcmp(a->text[OPT_COMM], "mpi") == 0 && a->integer[OPT_RANKS] > 1)
        *code = cli_fail_usage(a->command,
                               "--comm mpi: the ranks of MPI are started by mpirun or srun (mpirun "
                               "-n %lld zero %s ...)",
                               (long long)a->integer[OPT_RANKS], a->command->name);
    return *code == 0 && !launched && (a->integer[OPT_RANKS] > 1 || a->integer[OPT_RESTARTS] > 0);
}

// Returns the arguments of this call, with the program's own path first, because the shell may have
// found it in PATH. NULL: no memory.
static const char **arguments_with_program(const cli_arguments *a, char program[PATH_MAX])
{
    size_t count = 0;
    snprintf(program, PATH_MAX, "/proc/self/exe");
    ssize_t length = readlink("/proc/self/exe", program, PATH_MAX - 1);
    program[length > 0 ? length : (ssize_t)strlen(program)] = 0;
    while (a->argv[count])
        count++;
    const char **argv = calloc(count + 1, sizeof *argv);
    if (!argv)
        return NULL;
    memcpy(argv, a->argv, count * sizeof *argv);
    argv[0] = program;
    return argv;
}

int cli_supervise(const cli_arguments *a)
{
    char program[PATH_MAX];
    const char **argv = arguments_with_program(a, program);
    zero_error error = {.status = ZERO_ERR_MEMORY,
                        .message = "no memory for the arguments of the ranks"};
    if (!argv)
        return cli_fail(a->command, &error);
    const zero_run_options options = {
        .struct_size = sizeof options,
        .ranks = (int)(a->given[OPT_RANKS] ? a->integer[OPT_RANKS] : 1),
        .argv = argv,
        .grace_seconds = -1,
        .restarts = (int)a->integer[OPT_RESTARTS],
        .min_ranks = (int)a->integer[OPT_MIN_RANKS],
        .logger = {.write = cli_log_stderr},
        .tensor = (int)a->integer[OPT_TENSOR],
        .pipeline = (int)a->integer[OPT_PIPELINE],
        .stop = cli_signals_install(CLI_SIGNALS_ALONE).stop,
    };
    int code = 0;
    // A rank whose reader has gone ends as a program without ranks does: quietly.
    bool quiet = zero_run(&options, &code, &error) == ZERO_OK || code == CLI_DIFFERS ||
                 code == 128 + SIGPIPE;
    if (!quiet) {
        int of_status = cli_fail(a->command, &error);
        code = code ? code : of_status;
    }
    free(argv);
    return code;
}

static void print_word(const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        fprintf(stderr, " %s", word);
        return;
    }
    fputs(" '", stderr);
    for (; *word; word++)
        *word == '\'' ? fputs("'\\''", stderr) : fputc(*word, stderr);
    fputc('\'', stderr);
}

int cli_say_resume(const cli_arguments *a, int code)
{
    if (code != zero_status_exit_code(ZERO_ERR_STOPPED) || a->given[OPT_DRY_RUN])
        return code;
    fprintf(stderr, "go on with: zero %s", a->command->name);
    for (int i = 2; a->argv[i]; i++)
        if (strcmp(a->argv[i], "--overwrite") && strcmp(a->argv[i], "--resume"))
            print_word(a->argv[i]);
    fputs(" --resume\n", stderr);
    return code;
}

zero_comm *cli_open_comm(const cli_arguments *a, int *code)
{
    zero_error error = {0};
    zero_comm *comm = NULL;
    zero_comm_options options = {.struct_size = sizeof options,
                                 .timeout_seconds = a->real[OPT_TIMEOUT],
                                 .kind = a->text[OPT_COMM]};
    if (zero_comm_open(&options, &comm, &error) != ZERO_OK) {
        *code = cli_fail(a->command, &error);
        return NULL;
    }
    cli_faults_tell(comm);
    if (!a->given[OPT_RANKS] || a->integer[OPT_RANKS] == zero_comm_size(comm) ||
        zero_restart_count() > 0)
        return comm;
    *code = zero_status_exit_code(ZERO_ERR_USAGE);
    if (zero_comm_rank(comm) == 0)
        cli_fail_usage(a->command,
                       "--ranks %lld, but the launcher started %d; --ranks is not needed here",
                       (long long)a->integer[OPT_RANKS], zero_comm_size(comm));
    // Some launchers end rank 0 as soon as another rank has failed; the barrier lets it print
    // first.
    zero_comm_barrier(comm, &error);
    cli_close_comm(comm);
    return NULL;
}

void cli_close_comm(zero_comm *comm)
{
    cli_faults_tell(NULL);
    zero_comm_destroy(comm);
}

int cli_run_rank(const cli_arguments *a, cli_rank_fn rank)
{
    int code = 0;
    zero_comm *comm = cli_open_comm(a, &code);
    if (!comm)
        return code;
    code = rank(a, comm);
    cli_close_comm(comm);
    return code;
}

int cli_run_ranks(const cli_arguments *a, cli_rank_fn rank)
{
    int code;
    if (cli_is_parent(a, &code))
        return cli_supervise(a);
    return code ? code : cli_run_rank(a, rank);
}
