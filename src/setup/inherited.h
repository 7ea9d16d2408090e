// What a resumed training keeps of the run before, unless its configuration says otherwise: the
// samples of a step, which tensors decay and by how much, the objective and the rates.
#ifndef ZR_SETUP_INHERITED_H
#define ZR_SETUP_INHERITED_H

#include "config/config.h"
#include "checkpoint/run_record.h"

typedef struct zr_inherited {
    const zr_run_before *before;
    int ranks;      // data ranks, as those of `before`: a step is divided among them
    bool restarted; // by zero run, after a failure; then the number of micro-batches may change
} zr_inherited;

// Puts in what the configuration does not say. It is called before the configuration is resolved.
// micro_batch is the one that the program would choose. Returns ZERO_ERR_CONFIG if these ranks
// cannot make the steps of the run before.
zero_status zr_inherited_apply(const zr_inherited *keep, zr_config *config, int64_t micro_batch,
                               const zero_logger *logger, zero_error *error);
// Reports what is not kept, if that changes the training. It is called after resolve.
void zr_inherited_tell(const zr_run_before *before, const zr_config *config,
                       const zero_logger *logger);

#endif
