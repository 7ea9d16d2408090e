// Jobs that are split into groups, for tests on threads, processes and MPI.
#ifndef TESTS_COMM_GRID_H
#define TESTS_COMM_GRID_H

#include "comm/communicator.h"

#define GRID_RANKS 4

// A job of GRID_RANKS ranks as a grid of 2 x 2: tensor groups {0, 1} and {2, 3}, data groups {0, 2}
// and {1, 3}.
typedef struct grid {
    zero_comm *job, *data, *tensor;
} grid;

zero_status grid_open(zero_comm *job, grid *out, zero_error *error);
void grid_close(grid *grid); // after a failure, too

// Splits a job of GRID_RANKS ranks in several ways, checks who is where, and runs `exercise` over
// each group. digests(GRID_RANKS + 1): of groups by size.
zero_status exercise_groups(zero_comm *job, uint64_t *digests, zero_error *error);

// Runs a random sequence of operations, the same on all ranks, over the job, its data and its
// tensor groups, several of them under way at once, and compares all results. data_comm_thread,
// all_comm_threads: who has a thread of its own; those ranks also wait at moments of their own
// choice.
typedef enum comm_thread_case {
    NO_COMM_THREAD,
    DATA_COMM_THREAD,
    ALL_COMM_THREADS,
    COMM_THREAD_CASES
} comm_thread_case;
zero_status interleave_groups(zero_comm *job, comm_thread_case comm_threads, uint64_t seed,
                              zero_error *error);

#endif
