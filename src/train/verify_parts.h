// A verification, between its two files: what of a run is replayed (verify_open.c), and the replay
// (verify_run.c).
#ifndef ZR_TRAIN_VERIFY_PARTS_H
#define ZR_TRAIN_VERIFY_PARTS_H

#include "files/run_record.h"
#include "monitor/metrics_read.h"
#include <zero/comm.h>
#include <zero/verify.h>

typedef struct zr_verify {
    zero_comm *comm;
    const zero_verify_options *options;
    void (*write)(void *user, const char *text);
    void *user;
    zero_verify_result *result;
    // of the run
    zr_run_config config; // config.json
    char *from, *to;      // checkpoints
    char backend[40];     // of the replay
    int64_t resumed;      // the last step after `from` that it went on from, because config.json is
                          // of what came then; 0: none is known
    // its lines between the two checkpoints; rank 0
    zr_metrics_reader metrics; // at the first that is not compared yet
    zero_error unread;         // why they could not be read on
    int64_t wrong_step;        // first whose line is not the replay's, 0: none
} zr_verify;

// Not collective. Finds the checkpoints between which the run is replayed and the backend that
// replays it; rank 0 refuses steps that were not made as config.json says, and opens its lines.
zero_status zr_verify_open(zr_verify *v, zero_error *error);

#endif
