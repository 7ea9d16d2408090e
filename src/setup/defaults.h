// Values that the user did not give: the program's own defaults, with which a first run succeeds,
// and what a resumed training inherits.
#ifndef ZR_SETUP_DEFAULTS_H
#define ZR_SETUP_DEFAULTS_H

#include "base/errors.h"
#include "checkpoint/run_record.h"
#include "config/config.h"
#include <zero/tensor.h>

// Returns the peak learning rate of new weights: 1e-3 for small models, 6e-4 at 124M parameters,
// 2e-4 at 1.5B, and log-linear in between.
double zr_default_lr(int64_t parameters);
// The same for weights that were trained before: a tenth of that.
double zr_default_lr_further(int64_t parameters);

// Returns the samples of a step over all ranks: 768 tokens for a small model, more for a larger
// one.
int64_t zr_default_batch(int64_t parameters, int64_t seq);

// Returns the number of updates: five passes over `tokens`, at least 100 and at most 5,000.
int64_t zr_default_steps(int64_t tokens, int64_t tokens_per_step);

int64_t zr_default_warmup(int64_t steps);

// Returns the tokens of a window: `requested`, or, if that is 0, the model's context, but at most
// 4,096, which is then logged. logger may be NULL.
int64_t zr_default_window(int64_t requested, int64_t context, const zero_logger *logger);

// Returns what precision "auto" means on this machine: bf16 if the processor has instructions for
// it, else fp32.
zero_dtype zr_default_dtype(void);

// inherited.c: what a resumed training takes over from the run before, unless its configuration has
// other values: the samples of a step, which tensors decay and by how much, the objective, the
// rates.
typedef struct zr_inherited {
    const zr_run_before *before;
    int ranks;      // data ranks, among which a step is divided
    bool restarted; // by zero run, after a failure: the number of micro-batches may change
} zr_inherited;

// Fills in what the configuration leaves open, before it is resolved. micro_batch: the program's
// own choice. Returns ZERO_ERR_CONFIG if these ranks cannot make the steps of the run before.
zero_status zr_inherited_apply(const zr_inherited *keep, zr_config *config, int64_t micro_batch,
                               const zero_logger *logger, zero_error *error);
// Logs which of these values have changed, if that changes the training. Called after resolve.
void zr_inherited_tell(const zr_run_before *before, const zr_config *config,
                       const zero_logger *logger);

#endif
