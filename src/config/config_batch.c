// Solves train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks,
// by DeepSpeed's rules. The tensor ranks and pipeline stages of a model compute the same samples,
// so the ranks that count are the data ranks.
#include "config/settings.h"

#include <inttypes.h>
#include <stdio.h>

#define T "train_batch_size"
#define M "train_micro_batch_size_per_gpu"
#define A "gradient_accumulation_steps"

static zero_status multiply_checked(int64_t a, int64_t b, int64_t c, const char *name, int64_t *out,
                                    zero_error *error)
{
    if (__builtin_mul_overflow(a, b, out) || __builtin_mul_overflow(*out, c, out))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: a batch of %" PRId64 "*%" PRId64 "*%" PRId64 " samples is too large",
                       name, a, b, c);
    return ZERO_OK;
}

typedef struct solving {
    const char *name; // of the file
    int64_t ranks;    // data ranks
    bool shared;      // other ranks compute the same samples
    zr_ranks_words words;
    zero_error *error;
} solving;

static zero_status check_product(const zr_batch *b, const solving *s)
{
    int64_t product;
    if (b->micro < 1)
        return zr_fail(s->error, ZERO_ERR_CONFIG,
                       "%s: " T " %" PRId64 " over %s and %" PRId64 " micro-batches leaves " M
                       " 0; at least %" PRId64 " samples are needed",
                       s->name, b->train, s->words.text, b->accumulation,
                       s->ranks * ZR_MIN(b->accumulation, INT64_MAX / s->ranks));
    if (b->accumulation < 1)
        return zr_fail(s->error, ZERO_ERR_CONFIG,
                       "%s: " T " %" PRId64 " with " M " %" PRId64 " on %s leaves " A " 0", s->name,
                       b->train, b->micro, s->words.text);
    ZERO_TRY(multiply_checked(b->micro, b->accumulation, s->ranks, s->name, &product, s->error));
    if (b->train == product)
        return ZERO_OK;
    return zr_fail(s->error, ZERO_ERR_CONFIG,
                   "%s: " T " is not " M " x " A " x %s: %" PRId64 " != %" PRId64 "*%" PRId64
                   "*%" PRId64 "%s%s",
                   s->name, s->words.kind, b->train, b->micro, b->accumulation, s->ranks,
                   s->shared ? ", on " : "", s->shared ? s->words.text : "");
}

zero_status zr_batch_solve(zr_batch *b, zr_job_grid grid, const char *name, zero_error *error)
{
    const int64_t ranks = grid.data;
    const solving s = {.name = name,
                       .ranks = ranks,
                       .shared = grid.stages > 1 || grid.tensor > 1,
                       .words = zr_ranks_in_words(grid),
                       .error = error};
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
        ZERO_TRY(multiply_checked(b->micro, b->accumulation, ranks, name, &b->train, error));
    }
    return check_product(b, &s);
}

int64_t zr_config_usual_micro_batch(const zr_config *config, const zr_config_facts *facts)
{
    int64_t ranks = ZR_MAX(config->ranks, 1);
    return facts->micro_batch ? facts->micro_batch : (facts->batch + ranks - 1) / ranks;
}
