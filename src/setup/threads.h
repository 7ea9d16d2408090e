// How many OpenMP threads a rank uses, and why: the cores that this machine allows, divided among
// the ranks that share them.
#ifndef ZR_SETUP_THREADS_H
#define ZR_SETUP_THREADS_H

#include "comm/communicator.h"

typedef struct zr_threads {
    int count;
    char reason[192]; // "1 of 2 cores: affinity mask, shared by 2 ranks"
    // Threads of all ranks that share this rank's cores, and how many cores those are.
    int wanted, cores;
} zr_threads;

// Chooses the number of threads. Collective. asked > 0 overrides the choice.
zero_status zr_threads_choose(zero_comm *comm, int asked, zr_threads *out, zero_error *error);

#endif
