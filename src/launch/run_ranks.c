// zero_run: runs a program on N ranks of this machine. It creates the memory that they share, and
// passes it on by its descriptor.
#define _GNU_SOURCE
#include "launch/run_ranks.h"

#include "base/alloc.h"
#include "base/errors.h"
#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RESTART_VARIABLE "ZERO_RESTART"
#define JOB_VARIABLE "ZERO_JOB"

enum { JOB, RANK, VARIABLES = RANK + 6, VARIABLE_BYTES = 80 };

static const char *const variables[VARIABLES] = {
    JOB_VARIABLE,      "RANK",          "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
    ZR_MEMFD_VARIABLE, RESTART_VARIABLE};

// The parent's environment, in which this rank's variables replace any of the same names.
typedef struct rank_environment {
    char **list;
    char own[VARIABLES][VARIABLE_BYTES];
} rank_environment;

static bool is_variable_of_rank(const char *entry)
{
    for (int i = 0; i < VARIABLES; i++) {
        size_t length = strlen(variables[i]);
        if (strncmp(entry, variables[i], length) == 0 && entry[length] == '=')
            return true;
    }
    return false;
}

// crowded: the ranks have no cores of their own, so their OpenMP teams must not spin, unless the
// user has set otherwise.
static zero_status make_environment(rank_environment *out, bool crowded, zero_error *error)
{
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    out->list = zr_alloc((count + VARIABLES + 2) * sizeof *out->list, error);
    if (!out->list)
        return ZERO_ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (!is_variable_of_rank(environ[i]))
            out->list[kept++] = environ[i];
    for (int i = 0; i < VARIABLES; i++)
        out->list[kept++] = out->own[i];
    if (crowded && !getenv("OMP_WAIT_POLICY"))
        out->list[kept++] = "OMP_WAIT_POLICY=passive";
    return ZERO_OK;
}

static void set_rank_variables(rank_environment *environment, const char *job, int rank, int ranks,
                               int memfd, int restart)
{
    const int values[VARIABLES] = {0, rank, ranks, rank, ranks, memfd, restart};
    for (int i = RANK; i < VARIABLES; i++)
        snprintf(environment->own[i], VARIABLE_BYTES, "%s=%d", variables[i], values[i]);
    snprintf(environment->own[JOB], VARIABLE_BYTES, "%s=%s", variables[JOB], job);
}

static bool is_executable_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

// Finds a program as a shell would: a name with a slash is a path, any other is looked up in PATH.
static zero_status find_program(const char *name, char out[static 4096], zero_error *error)
{
    if (strchr(name, '/')) {
        if (is_executable_file(name) && snprintf(out, 4096, "%s", name) < 4096)
            return ZERO_OK;
        return zr_fail(error, ZERO_ERR_USAGE, "cannot start %s: %s", name,
                       zr_path_exists(name) ? "it is no program" : "there is no such file");
    }
    const char *at = getenv("PATH");
    for (at = at ? at : "/usr/bin:/bin"; *at; at += strspn(at, ":")) {
        int length = (int)strcspn(at, ":");
        if (snprintf(out, 4096, "%.*s/%s", length, at, name) < 4096 && is_executable_file(out))
            return ZERO_OK;
        at += length;
    }
    return zr_fail(error, ZERO_ERR_USAGE, "cannot start %s: no such program in PATH", name);
}

typedef struct placement { // arrays of (ranks)
    zr_child *children;
    cpu_set_t *masks;
    bool *bound;
} placement;

typedef struct attempt { // one attempt to run the program
    const zero_run_options *options;
    const char *path;
    int ranks, number; // number: attempts before this one
    int multiple;      // the ranks of an attempt are a multiple of it
    zr_run_end end;    // of its ranks
    char job[48];      // common to all attempts, and unique to this run
} attempt;

static zero_status start_ranks(const attempt *a, zr_local_host *host, placement *place,
                               zero_error *error)
{
    rank_environment environment = {0};
    zr_run_bind(a->ranks, place->masks, place->bound);
    zero_status status = make_environment(&environment, !place->bound[0], error);
    for (int r = 0; r < a->ranks && status == ZERO_OK; r++) {
        set_rank_variables(&environment, a->job, r, a->ranks, host->memfd, a->number);
        zr_spawn spawn = {.path = a->path,
                          .argv = a->options->argv,
                          .environment = environment.list,
                          .memfd = host->memfd,
                          .mask = place->bound[r] ? &place->masks[r] : NULL};
        status = zr_run_spawn(&spawn, &place->children[r], error);
    }
    zr_free(environment.list);
    return status;
}

static void kill_started(zr_child *children, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        if (!children[r].pid)
            continue;
        kill(children[r].pid, SIGKILL);
        while (waitpid(children[r].pid, NULL, 0) < 0 && errno == EINTR)
            ;
        if (children[r].pidfd >= 0)
            close(children[r].pidfd);
    }
}

static zero_status start_and_watch_ranks(attempt *a, zr_local_host *host, int *exit_code,
                                         zero_error *error)
{
    size_t ranks = (size_t)a->ranks;
    placement place = {.children = zr_alloc(ranks * sizeof *place.children, error),
                       .masks = zr_alloc(ranks * sizeof *place.masks, error),
                       .bound = zr_alloc(ranks * sizeof *place.bound, error)};
    zero_status status = ZERO_ERR_MEMORY;
    if (place.children && place.masks && place.bound) {
        status = start_ranks(a, host, &place, error);
        if (status != ZERO_OK)
            kill_started(place.children, a->ranks);
        else
            status = zr_run_watch(host, place.children, a->options, exit_code, &a->end, error);
    }
    zr_free(place.children);
    zr_free(place.masks);
    zr_free(place.bound);
    return status;
}

static zero_status run_once(attempt *a, int *exit_code, zero_error *error)
{
    zr_local_host host;
    *exit_code = 0;
    ZERO_TRY(zr_local_host_create(a->ranks, &host, error));
    zero_status status = start_and_watch_ranks(a, &host, exit_code, error);
    zr_local_host_destroy(&host);
    return status;
}

// Returns how many of the ranks that remain can go on: whole groups of them, but no fewer than the
// caller's least number.
static int ranks_of_next(const attempt *a)
{
    int remaining = a->ranks - ZR_MAX(a->end.dead, 1);
    int least = ZR_ROUND_UP(a->options->min_ranks, a->multiple);
    return ZR_MAX(remaining - remaining % a->multiple, least);
}

// Whether another attempt may do better: a rank died, or failed because of a disk or of another
// rank. Wrong arguments, data or configuration stay wrong. But a configuration that fewer ranks
// cannot run may still run on even fewer.
static bool prepare_next_attempt(attempt *a, int exit_code, int restarts)
{
    const zero_run_options *options = a->options;
    a->multiple = ZR_MAX(a->multiple, a->end.multiple);
    bool refused = exit_code == zero_status_exit_code(ZERO_ERR_CONFIG) && a->number > 0 &&
                   options->min_ranks > 0 && a->ranks - a->multiple >= options->min_ranks;
    bool failed = exit_code > 128 || exit_code == zero_status_exit_code(ZERO_ERR_IO);
    if ((options->stop && *options->stop) || !(refused || (failed && restarts < options->restarts)))
        return false;
    if (refused)
        a->ranks -= a->multiple;
    else if (options->min_ranks > 0)
        a->ranks = ranks_of_next(a);
    a->number++;
    return true;
}

static zero_status run_again_and_again(attempt *a, int *exit_code, zero_error *error)
{
    const zero_run_options *options = a->options;
    for (int restarts = 0;;) {
        zero_status status = run_once(a, exit_code, error);
        zero_error why = error ? *error : (zero_error){0};
        if (status == ZERO_OK || !prepare_next_attempt(a, *exit_code, restarts))
            return status;
        restarts += *exit_code != zero_status_exit_code(ZERO_ERR_CONFIG);
        zr_log(&options->logger, ZERO_LOG_WARNING, "%s; restart %d of %d, with %d rank%s",
               why.message, restarts, options->restarts, a->ranks, a->ranks == 1 ? "" : "s");
        if (error)
            *error = (zero_error){0};
    }
}

zero_status zero_run(const zero_run_options *options, int *exit_code, zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, exit_code);
    char path[4096];
    *exit_code = 0;
    zero_run_options taken;
    ZERO_TRY(zr_struct_take("zero_run: options", options, ZR_STRUCT_UPTO(zero_run_options, logger),
                            &taken, sizeof taken, error));
    options = &taken;
    if (!options->argv || !options->argv[0])
        return zr_fail(error, ZERO_ERR_USAGE, "zero_run: options.argv names no program");
    if (options->min_ranks < 0 || options->min_ranks > options->ranks || options->restarts < 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_run: %d ranks, at least %d of them after at most %d restarts: both "
                       "must be 0 or more, the second at most the first",
                       options->ranks, options->min_ranks, options->restarts);
    if (options->tensor < 0)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_run: options.tensor is %d: 0 or more",
                       options->tensor);
    if (options->pipeline < 0)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_run: options.pipeline is %d: 0 or more",
                       options->pipeline);
    ZERO_TRY(find_program(options->argv[0], path, error));
    int64_t model = (int64_t)ZR_MAX(options->tensor, 1) * ZR_MAX(options->pipeline, 1);
    struct timespec now;
    attempt a = {.options = options,
                 .path = path,
                 .ranks = options->ranks,
                 .multiple = (int)ZR_MIN(model, INT32_MAX)};
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(a.job, sizeof a.job, "%llx.%lx.%lx", (unsigned long long)now.tv_sec,
             (unsigned long)now.tv_nsec, (unsigned long)getpid());
    return run_again_and_again(&a, exit_code, error);
}

int zero_restart_count(void)
{
    const char *text = getenv(RESTART_VARIABLE);
    return text && zero_supervised() ? atoi(text) : 0;
}

const char *zero_run_job(void) { return zero_supervised() ? getenv(JOB_VARIABLE) : NULL; }

zero_status zero_launched_ranks(int *ranks, zero_error *error)
{
    ZR_NEED(error, ranks);
    zr_launch launch;
    ZERO_TRY(zr_launch_read_process(&launch, error));
    *ranks = launch.family ? launch.size : 0;
    return ZERO_OK;
}

int zero_supervised(void)
{
    zr_launch launch;
    return zr_launch_read_process(&launch, NULL) == ZERO_OK && launch.memfd >= 0;
}
