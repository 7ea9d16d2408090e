// Every operation of a communicator, on values whose sum depends on the order of additions, against sums computed here
// by the recursion of contract 3. The digest is the same on all ranks, and must be on all communicators of one size.
#ifndef TESTS_COMM_EXERCISE_H
#define TESTS_COMM_EXERCISE_H

#include "comm/comm.h"

// ZERO_ERR_DATA names the operation whose result is not the oracle's.
zero_status exercise(zero_comm *comm, uint64_t *digest, zero_error *error);

// The tree of contract 3 over values[0..ranks), by plain recursion.
float oracle_sum(const float *values, int ranks);

typedef zero_status (*rank_function)(zero_comm *comm, void *user, zero_error *error);

typedef struct rank_result {
    zero_status status;
    zero_error error;
} rank_result;

// Runs `function` on `ranks` threads, each with its communicator of zero_comm_threads.
void run_threads(int ranks, double timeout, rank_function function, void *user, rank_result *results);

#endif
