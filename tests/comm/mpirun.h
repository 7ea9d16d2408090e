// A test of the module for MPI starts itself again as ranks under mpirun.
#ifndef TESTS_COMM_MPIRUN_H
#define TESTS_COMM_MPIRUN_H

#include <stddef.h>

#define SKIPPED 77

extern char *mpirun_program; // the test's own path, set by its main

// Runs `program rank KIND SCENARIO TIMEOUT` on that many ranks. text: what all of them and the
// launcher print. Ends within 40 s.
int mpirun_self(int ranks, const char *kind, const char *scenario, const char *timeout, char *text,
                size_t size);
// Open MPI and Hydra both answer; without a module or mpirun there is nothing to test. NULL: go on.
const char *mpirun_reason_to_skip(void);
void expect_words(const char *text, const char *words);

#endif
