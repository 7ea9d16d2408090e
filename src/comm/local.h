// Ranks of one machine: what starts and supervises them (`zero run`, `zero train --ranks`) needs of
// their shared memory.
//
// The parent creates the host, starts each rank with posix_spawn and hands on the descriptor
// (adddup2 of it onto itself) and the variables RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and
// ZR_MEMFD_VARIABLE (its number). It maps the control area only: it waits for its children, notes
// their deaths, and reads what is to be told. Ranks die with it.
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
    bool joined, left; // has opened its communicator; has destroyed it
    int64_t step;      // last one it told
    int64_t need;      // bytes of its plan; 0: it has told none
} zr_local_status;

// The first failure of the job, on whichever rank it was noticed; later ones follow from it and are
// not kept.
typedef struct zr_local_failure {
    int rank;           // that failed
    zero_status status; // ZERO_ERR_PEER: it died or gave up; ZERO_ERR_TIMEOUT: it made no progress
    int signal, code;   // of its end, where that is what failed; else 0
    int64_t step;       // that it was at
    char message[ZERO_MESSAGE_BYTES];
} zr_local_failure;

zero_status zr_local_host_create(int ranks, zr_local_host *out, zero_error *error);
void zr_local_host_destroy(zr_local_host *host); // zeroed hosts are fine

// A child has ended with `wait_status` (of waitpid): the waits of all others end, unless it ended
// well.
void zr_local_host_note_death(zr_local_host *host, int rank, int wait_status);
zr_local_status zr_local_host_status(const zr_local_host *host, int rank);
bool zr_local_host_failure(const zr_local_host *host, zr_local_failure *out); // false: none so far

#endif
