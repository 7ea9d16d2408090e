// A verification: verify_open.c finds the part of a run that is replayed, verify_run.c replays it.
#ifndef ZR_TRAIN_VERIFY_STATE_H
#define ZR_TRAIN_VERIFY_STATE_H

#include "base/report.h"
#include "checkpoint/run_record.h"
#include "monitor/metrics.h"
#include <zero/comm.h>
#include <zero/commands.h>

typedef struct zr_verify {
    zero_comm *comm;
    const zero_verify_options *options;
    zr_report *report; // on rank 0; NULL on the others
    zero_verify_result *result;
    // Of the run that is verified.
    zr_run_config_file config; // config.json
    char *from, *to;           // paths of the checkpoints
    char backend[40];          // of the replay
    // The last step after `from` from which the run was resumed: config.json describes only what
    // came after it. 0 if there is none.
    int64_t resumed;
    // Lines of the run between the two checkpoints; rank 0.
    zr_metrics_reader metrics; // at the first line not compared yet
    zero_error unread;         // why the lines could not be read to the end
    int64_t compared;          // lines
    int64_t wrong_step;        // first step whose line differs from the replay's; 0: none
} zr_verify;

// Finds the checkpoints between which the run is replayed and the backend that replays it. Rank 0
// refuses steps that were not made as config.json says, and opens the run's lines. Not collective.
zero_status zr_verify_open(zr_verify *v, zero_error *error);

#endif
