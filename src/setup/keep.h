// What a training that goes on keeps of the one before, unless its configuration says otherwise:
// the samples of a step, which tensors decay and by how much, the objective and the rates.
#ifndef ZR_SETUP_KEEP_H
#define ZR_SETUP_KEEP_H

#include "config/config.h"
#include "files/run_record.h"

typedef struct zr_keep {
    const zr_run_before *before;
    int ranks;
    bool restarted; // by zero run, after a failure: the number of micro-batches may change then
} zr_keep;

// Before the configuration is resolved: puts in what it does not say. micro_batch: that the program
// would choose. ZERO_ERR_CONFIG where these ranks cannot make the steps of the run before.
zero_status zr_keep_apply(const zr_keep *keep, zr_config *config, int64_t micro_batch,
                          const zero_logger *logger, zero_error *error);
// Afterwards: says what is not kept, where that changes the training.
void zr_keep_tell(const zr_run_before *before, const zr_config *config, const zero_logger *logger);

#endif
