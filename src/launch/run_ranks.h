// Starting and supervising the ranks of one machine (contract 10): what the files run*.c share.
#ifndef ZR_LAUNCH_RUN_RANKS_H
#define ZR_LAUNCH_RUN_RANKS_H

#include "comm/local.h"

#include <sched.h>
#include <sys/types.h>
#include <zero/run.h>

typedef struct zr_child {
    pid_t pid;       // 0: it has ended and was reaped, or was never started
    int pidfd;       // -1: this kernel does not provide them
    int wait_status; // once it has ended
} zr_child;

// run_bind.c: gives each rank cores of its own, if there are enough. bound[r] false: the rank keeps
// the parent's cores.
void zr_run_bind(int ranks, cpu_set_t *masks, bool *bound);

typedef struct zr_spawn {
    const char *path; // where the program was found
    const char *const *argv;
    char **environment;
    int memfd;             // kept open in the child
    const cpu_set_t *mask; // NULL: the parent's
} zr_spawn;

// run_spawn.c: starts a rank. The child is killed when the calling thread's process ends. Returns
// ZERO_ERR_USAGE if the program cannot be executed.
zero_status zr_run_spawn(const zr_spawn *spawn, zr_child *out, zero_error *error);

typedef struct zr_run_end { // what is known of ranks that have ended
    int dead;               // those that a signal ended, except for the supervisor's own signals
    int multiple;           // the job runs on multiples of it; 0 if no rank has reported it
} zr_run_end;

// run_watch.c: waits until every child has ended and was reaped. *exit_code and the message are
// those of the first failure.
zero_status zr_run_watch(zr_local_host *host, zr_child *children, const zero_run_options *options,
                         int *exit_code, zr_run_end *end, zero_error *error);

#endif
