// The program's own choices for what nobody chose, so that a first run succeeds.
#ifndef ZR_SETUP_DEFAULTS_H
#define ZR_SETUP_DEFAULTS_H

#include "base/errors.h"
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

// Returns the tokens of a window: as many as are asked for; with 0 the model's context, but no more
// than 4,096, of which `logger` is told (NULL: nobody is).
int64_t zr_default_window(int64_t asked, int64_t context, const zero_logger *logger);

// Returns what precision "auto" means on this machine: bf16 if the processor has instructions for
// it, else fp32.
zero_dtype zr_default_dtype(void);

#endif
