// zero_verify: whether a run is what it claims to be.
#ifndef ZERO_VERIFY_H
#define ZERO_VERIFY_H

#include <zero/comm.h>
#include <zero/diff.h> // was part of this header once

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_verify_options {
    size_t struct_size;
    // The --out of a training that was started from new weights or from a model directory.
    const char *run;
    int64_t from, to;        // steps of two of its checkpoints; 0: the two newest
    const char *const *data; // (data_count) where its text is now; NULL: where it was
    int data_count;
    // Per rank; 0: as many as made the run. Another number may round differently, which the report
    // then says.
    int threads;
    zero_logger logger;
} zero_verify_options;

typedef struct zero_verify_result {
    int confirmed;
    int64_t from, to; // steps
} zero_verify_result;

// Replays the steps between two checkpoints of a run, on as many ranks and (unless told otherwise)
// threads as made it. Compares every loss and every bit of the state with what the run has kept,
// and each model with its receipt. Writes what it found through `write`, and nothing into the run.
// Refuses a configuration or a text that is not the run's, an instruction path that this machine
// lacks (ZERO_ERR_UNSUPPORTED), and steps before a resume with another number of ranks or another
// micro-batch, as far as the later checkpoints show it. Collective; rank 0 writes.
ZERO_API zero_status zero_verify(zero_comm *comm, const zero_verify_options *options,
                                 void (*write)(void *user, const char *text), void *user,
                                 zero_verify_result *out, zero_error *error);
// Gives the number of ranks that zero_verify needs for this run. Not collective.
ZERO_API zero_status zero_verify_ranks(const char *run, int *ranks, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
