// zero bench: runs one rank of a benchmark, or starts its ranks as their parent and then lets an
// installed MPI run the same benchmark.
#define _GNU_SOURCE
#include "commands.h"
#include "running.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_SECONDS = 60 }; // of a figure

static int bench_rank(const cli_arguments *a, zero_comm *comm)
{
    zero_bench_options options = {.what = a->operand,
                                  .threads = (int)a->integer[OPT_THREADS],
                                  .seconds = a->real[OPT_SECONDS],
                                  .parameters = a->real[OPT_PARAMS],
                                  .new_spec =
                                      a->given[OPT_MODEL] ? a->text[OPT_MODEL] : a->text[OPT_NEW],
                                  .micro_batch = a->integer[OPT_MICRO_BATCH],
                                  .seq = a->integer[OPT_SEQ],
                                  .accumulation = a->integer[OPT_ACCUMULATION],
                                  .stage = (int)a->integer[OPT_STAGE],
                                  .dtype = a->text[OPT_DTYPE],
                                  .path = a->text[OPT_PATH],
                                  .block = a->integer[OPT_BLOCK],
                                  .bytes = a->integer[OPT_BYTES],
                                  .depth = (int)a->integer[OPT_DEPTH],
                                  .json = a->given[OPT_JSON],
                                  .logger = {.write = cli_log_stderr},
                                  .parallel = cli_parallel(a)};
    zero_error error = {0};
    if (zero_comm_rank(comm) == 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "measuring; a large model or a slow disk takes a minute or more\n");
    return zero_bench(comm, &options, cli_print, NULL, &error) == ZERO_OK
               ? 0
               : cli_fail_rank(a->command, comm, &error);
}

// Finds bench/open_mpi in the build directory that this program is in.
static bool find_peer(char out[static PATH_MAX])
{
    char own[PATH_MAX - 32];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return false;
    own[length] = 0;
    *strrchr(own, '/') = 0;
    snprintf(out, PATH_MAX, "%s/bench/open_mpi", own);
    return access(out, X_OK) == 0;
}

static void measure_open_mpi(const cli_arguments *a)
{
    char path[PATH_MAX], ranks[16];
    const char *const argv[] = {"mpirun", "--oversubscribe",    "-n", ranks,
                                path,     a->text[OPT_SECONDS], NULL};
    pid_t pid;
    int status = -1;
    snprintf(ranks, sizeof ranks, "%lld", (long long)a->integer[OPT_RANKS]);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    fflush(stdout);
    bool started = find_peer(path) &&
                   posix_spawnp(&pid, "mpirun", NULL, NULL, (char *const *)argv, environ) == 0;
    while (started && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!started || status != 0)
        printf("Open MPI: not measured (%s)\n",
               started ? "mpirun failed" : "no mpirun, or no bench/open_mpi next to this program");
}

int cli_bench(const cli_arguments *a)
{
    int code;
    if (!a->operand)
        return cli_fail_usage(a->command, "what? usage: zero bench %s", a->command->usage);
    if (a->real[OPT_SECONDS] > MOST_SECONDS)
        return cli_fail_usage(a->command, "--seconds %s: it must be from 0.001 to %d",
                              a->text[OPT_SECONDS], MOST_SECONDS);
    if (cli_is_parent(a, &code)) {
        code = cli_supervise(a);
        if (code == 0 && strcmp(a->operand, "comm") == 0)
            measure_open_mpi(a);
        return code;
    }
    return code ? code : cli_run_rank(a, bench_rank);
}

// ---- zero doctor: reports what this machine has, and what it lacks

int cli_doctor(const cli_arguments *a)
{
    zero_doctor_options options = {.path = a->text[OPT_PATH],
                                   .write_machine = a->text[OPT_WRITE_MACHINE],
                                   .json = a->given[OPT_JSON]};
    zero_error error = {0};
    return zero_doctor(&options, cli_print, NULL, &error) == ZERO_OK ? 0
                                                                     : cli_fail(a->command, &error);
}
