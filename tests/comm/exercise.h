// Runs every operation of a communicator on values whose sum depends on the order of additions, and
// compares the results with sums computed here by the recursion of contract 3. The digest is the
// same on all ranks, and must be the same on all communicators of one size.
#ifndef TESTS_COMM_EXERCISE_H
#define TESTS_COMM_EXERCISE_H

#include "../compute/stored_values.h"
#include "base/dtype.h"
#include "comm/communicator.h"
#include "comm/window.h"

// Returns ZERO_ERR_DATA, naming the operation, if a result is not the oracle's.
zero_status exercise(zero_comm *comm, uint64_t *digest, zero_error *error);
// The part of it that sends blocks of codes; exercise_blocks.c.
zero_status exercise_blocks(zero_comm *comm, uint64_t *digest, zero_error *error);

typedef zero_status (*rank_function)(zero_comm *comm, void *user, zero_error *error);

typedef struct rank_result {
    zero_status status;
    zero_error error;
} rank_result;

// Runs `function` on `ranks` threads, each with its communicator from zero_comm_threads.
void run_threads(int ranks, double timeout, rank_function function, void *user,
                 rank_result *results);

// Fail the test if a rank did not end well, or not as it should have.
void expect_all_ok(const rank_result *results, int ranks);
void expect_message(const rank_result *result, zero_status status, const char *words);

#endif
