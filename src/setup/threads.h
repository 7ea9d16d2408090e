// How many OpenMP threads a rank takes, and why: what this machine allows it, divided among the
// ranks that share it.
#ifndef ZR_SETUP_THREADS_H
#define ZR_SETUP_THREADS_H

#include "comm/communicator.h"

typedef struct zr_threads {
    int count;
    char reason[192]; // "1 of 2 cores: affinity mask, shared by 2 ranks"
    // threads of all ranks that share this rank's cores, and how many cores those are
    int wanted, cores;
} zr_threads;

// Collective. asked > 0 wins.
zero_status zr_threads_choose(zero_comm *comm, int asked, zr_threads *out, zero_error *error);

#endif
