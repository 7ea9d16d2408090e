// Norms: sums of squares in exact accumulators, so that the order in which ranks add does not
// matter.
#ifndef ZR_ENGINE_GRADIENT_NORM_H
#define ZR_ENGINE_GRADIENT_NORM_H

#include "base/numbers.h"
#include "engine/engine_api.h"

// Adds the squares of a span of a flat parameter to `sums`, one sum a tensor (sums[tensor number])
// or all in sums[0]. values: from the span's first element on, of `dtype`.
void zr_norm_add_squares(zero_engine *engine, int flat_param, zr_span span, zero_dtype dtype,
                         const void *values, zr_exact *sums, bool by_tensor);
// Collective: adds up the sums (count) of all ranks, or, where a schedule is asynchronous, of those
// of this pipeline stage, because other stages are at other steps.
zero_status zr_norm_all_reduce(zero_engine *engine, zr_exact *sums, int count, zero_error *error);

#endif
