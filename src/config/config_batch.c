// Solves train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks,
// by DeepSpeed's rules.
#include "config/settings.h"

#include <inttypes.h>

#define T "train_batch_size"
#define M "train_micro_batch_size_per_gpu"
#define A "gradient_accumulation_steps"

static zero_status multiply(int64_t a, int64_t b, int64_t c, const char *name, int64_t *out,
                            zero_error *error)
{
    if (__builtin_mul_overflow(a, b, out) || __builtin_mul_overflow(*out, c, out))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: a batch of %" PRId64 "*%" PRId64 "*%" PRId64 " samples is too large",
                       name, a, b, c);
    return ZERO_OK;
}

static zero_status check_sum(const zr_batch *b, int64_t ranks, const char *name, zero_error *error)
{
    int64_t product;
    if (b->micro < 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: " T " %" PRId64 " over %" PRId64 " ranks and %" PRId64
                       " micro-batches leaves " M " 0; at least %" PRId64 " samples are needed",
                       name, b->train, ranks, b->accumulation,
                       ranks * ZR_MIN(b->accumulation, INT64_MAX / ranks));
    if (b->accumulation < 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: " T " %" PRId64 " with " M " %" PRId64 " on %" PRId64 " ranks leaves " A
                       " 0",
                       name, b->train, b->micro, ranks);
    ZERO_TRY(multiply(b->micro, b->accumulation, ranks, name, &product, error));
    if (b->train != product)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: " T " is not " M " x " A " x ranks: %" PRId64 " != %" PRId64 "*%" PRId64
                       "*%" PRId64,
                       name, b->train, b->micro, b->accumulation, ranks);
    return ZERO_OK;
}

zero_status zr_batch_solve(zr_batch *b, int64_t ranks, const char *name, zero_error *error)
{
    if (!b->train && !b->micro)
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: the batch is not determined: give " T " or " M,
                       name);
    if (b->train && b->micro && !b->accumulation)
        b->accumulation = b->train / b->micro / ranks;
    else if (b->train && b->accumulation && !b->micro)
        b->micro = b->train / ranks / b->accumulation;
    else if (b->train && !b->micro) {
        b->accumulation = 1;
        b->micro = b->train / ranks;
    } else if (!b->train) {
        b->accumulation = ZR_MAX(b->accumulation, 1);
        ZERO_TRY(multiply(b->micro, b->accumulation, ranks, name, &b->train, error));
    }
    return check_sum(b, ranks, name, error);
}
