// Ranks of one machine: the part of their shared memory that a program needs which starts and
// supervises them (`zero run`, `zero train --ranks`).
//
// The parent creates the host and starts each rank with posix_spawn. It hands on the descriptor
// (posix_spawn_file_actions_adddup2 of it onto itself) and the variables RANK, WORLD_SIZE,
// LOCAL_RANK, LOCAL_WORLD_SIZE and ZR_MEMFD_VARIABLE (its number). The parent maps only the control
// area: it waits for its children, notes their deaths, and reads what ranks report. Ranks
// die with the parent.
#ifndef ZR_COMM_LOCAL_H
#define ZR_COMM_LOCAL_H

#include "comm/environment.h"
#include <zero/comm.h>

typedef struct zr_control zr_control;

typedef struct zr_local_host {
    zr_control *control;
    int memfd; // closed on exec
    int ranks;
} zr_local_host;

typedef struct zr_local_status {
    bool joined, left; // it has opened its communicator; it has destroyed it
    int64_t step;      // the last one that it has reported
    int64_t need;      // bytes of its plan; 0 if not reported
    int multiple;      // the job runs on multiples of this number of ranks; 0 if not reported
} zr_local_status;

// The first failure of the job, on whichever rank it was noticed. Later ones follow from it and are
// not kept.
typedef struct zr_local_failure {
    int rank;           // that failed
    zero_status status; // ZERO_ERR_PEER: it died or gave up; ZERO_ERR_TIMEOUT: it made no progress
    int signal, code;   // how it ended, if its end is the failure; else 0
    int64_t step;       // at which it was
    char message[ZERO_MESSAGE_BYTES];
} zr_local_failure;

zero_status zr_local_host_create(int ranks, zr_local_host *out, zero_error *error);
void zr_local_host_destroy(zr_local_host *host); // zeroed hosts are fine

// Notes that a child has ended with `wait_status` (of waitpid). Unless it ended well, the waits of
// all others end.
void zr_local_host_note_death(zr_local_host *host, int rank, int wait_status);
zr_local_status zr_local_host_status(const zr_local_host *host, int rank);
bool zr_local_host_failure(const zr_local_host *host,
                           zr_local_failure *out); // false if none so far

#endif
