// Whether a run is what it says it is.
#ifndef ZERO_VERIFY_H
#define ZERO_VERIFY_H

#include <zero/comm.h>
#include <zero/diff.h> // which was declared here once

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_verify_options {
    size_t struct_size;
    // --out of a training that was started from new weights or from a model directory
    const char *run;
    int64_t from, to;        // steps of two of its checkpoints; 0: the two newest
    const char *const *data; // (data_count) where its text lies now; NULL: where it lay
    int data_count;
    // per rank; 0: as many as made the run; another number may round otherwise, which is then said
    int threads;
    zero_logger logger;
} zero_verify_options;

typedef struct zero_verify_result {
    int confirmed;
    int64_t from, to; // steps
} zero_verify_result;

// Replays the steps between two checkpoints of a run, on as many ranks and (unless told otherwise)
// threads as made it, and compares every loss and every bit of the state with what the run has
// kept; and each model with its receipt. Writes what was found through `write`, nothing into the
// run. A configuration or a text that is not the run's is refused, an instruction path that this
// machine lacks (ZERO_ERR_UNSUPPORTED), and so are steps before a resume on other ranks or with
// another micro-batch, as far as the checkpoints behind them tell. Collective, rank 0 writes.
ZERO_API zero_status zero_verify(zero_comm *comm, const zero_verify_options *options,
                                 void (*write)(void *user, const char *text), void *user,
                                 zero_verify_result *out, zero_error *error);
// How many ranks that takes. Not collective.
ZERO_API zero_status zero_verify_ranks(const char *run, int *ranks, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
