// Starting and supervising the ranks of one machine (contract 10), between the files of run*.c.
#ifndef ZR_LAUNCH_RUN_RANKS_H
#define ZR_LAUNCH_RUN_RANKS_H

#include "comm/local.h"

#include <sched.h>
#include <sys/types.h>
#include <zero/run.h>

typedef struct zr_child {
    pid_t pid;       // 0: ended and reaped, or never started
    int pidfd;       // -1: this kernel has none
    int wait_status; // once ended
} zr_child;

// run_bind.c: cores of its own for each rank where there are enough; bound[r] false: the rank keeps
// the parent's.
void zr_run_bind(int ranks, cpu_set_t *masks, bool *bound);

typedef struct zr_spawn {
    const char *path; // of the program, found
    const char *const *argv;
    char **environment;
    int memfd;             // kept open in the child
    const cpu_set_t *mask; // NULL: the parent's
} zr_spawn;

// run_spawn.c. The child is killed when the calling thread's process ends. ZERO_ERR_USAGE where the
// program cannot be executed.
zero_status zr_run_spawn(const zr_spawn *spawn, zr_child *out, zero_error *error);

// run_watch.c: until every child has ended and is reaped. *exit_code and the message are those of
// the first failure; *dead: ranks that a signal ended, the supervisor's own not counted.
zero_status zr_run_watch(zr_local_host *host, zr_child *children, const zero_run_options *options,
                         int *exit_code, int *dead, zero_error *error);

#endif
