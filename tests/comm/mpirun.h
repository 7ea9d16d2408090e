// Lets a test of the MPI module start itself again as ranks under mpirun.
#ifndef TESTS_COMM_MPIRUN_H
#define TESTS_COMM_MPIRUN_H

#include "comm/communicator.h"

#include <stddef.h>

#define SKIPPED 77

extern char *mpirun_program; // the test's own path, set by its main

typedef struct mpirun_scenario {
    const char *name;
    zero_status (*run)(zero_comm *comm, zero_error *error);
} mpirun_scenario;

// Runs in a rank, whose arguments are those of mpirun_self: opens the communicator, plays the
// scenario among (count), and prints how it ended. Returns the exit code.
int mpirun_rank(const mpirun_scenario *scenarios, int count, char **arguments);
// Runs `program rank KIND SCENARIO TIMEOUT` on `ranks` ranks. text: the output of all of them and
// of the launcher. Ends within 40 s.
int mpirun_self(int ranks, const char *kind, const char *scenario, const char *timeout, char *text,
                size_t size);
// Returns why there is nothing to test (no module or no mpirun), or NULL. Open MPI and Hydra both
// work.
const char *mpirun_reason_to_skip(void);
void expect_words(const char *text, const char *words);

#endif
