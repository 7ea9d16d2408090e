// The program's own choices where nobody made one: they make a first run succeed.
#ifndef ZR_SETUP_DEFAULTS_H
#define ZR_SETUP_DEFAULTS_H

#include "base/errors.h"
#include <zero/tensor.h>

// Peak learning rate of new weights: 1e-3 for small models, 6e-4 at 124M, 2e-4 at 1.5B, between
// them log-linear.
double zr_default_lr(int64_t parameters);
// Of weights that were trained before: a tenth of that.
double zr_default_lr_further(int64_t parameters);

// Samples of a step, all ranks: 768 tokens for a small model, more for a larger one.
int64_t zr_default_batch(int64_t parameters, int64_t seq);

// Updates: five passes over `tokens`, at least 100 and at most 5,000.
int64_t zr_default_steps(int64_t tokens, int64_t tokens_per_step);

int64_t zr_default_warmup(int64_t steps);

// What precision "auto" means on this machine: bf16 where the processor multiplies it, else fp32.
zero_dtype zr_default_dtype(void);

#endif
