// Units that compute nothing, for tests that use a model only as data.
#ifndef TESTS_MODEL_NO_ARITHMETIC_H
#define TESTS_MODEL_NO_ARITHMETIC_H

#include "model/lm_build.h"

static inline zero_status no_sizes(const zero_unit *unit, const zero_shape *shape,
                                   const zero_tensors *in, zero_unit_sizes *out)
{
    return ZERO_OK;
}

static inline zero_status no_forward(zero_context *context, const zero_tensors *in,
                                     const zero_tensors *out)
{
    return ZERO_OK;
}

static inline zero_status no_backward(zero_context *context, const zero_tensors *in,
                                      const zero_tensors *d_out, const zero_tensors *d_in)
{
    return ZERO_OK;
}

static const zero_unit_ops no_ops = {
    .kind = "nothing",
    .sizes = no_sizes,
    .forward = no_forward,
    .backward = no_backward,
};
static const zr_lm_ops ops = {.embedding = &no_ops, .block = &no_ops, .head = &no_ops};

#endif
