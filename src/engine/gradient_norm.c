// Norms with the same bits at any number of ranks and at any stage (contract 3): squares are summed
// in double within each part of a chunk that belongs to one tensor, and those sums are added
// exactly.
#include "engine/engine_internal.h"
#include "engine/update.h"

static_assert(ZR_SQUARES_CHUNK == ZR_CHUNK, "a shard's chunks are those of the sums");

typedef struct walk {
    zero_engine *engine;
    zero_dtype dtype;
    const char *values;
    zr_span span;
    zr_exact *sums;
    bool by_tensor;
} walk;

static void add_squares_of_part(void *user, const zr_plan_tensor *tensor, int64_t first,
                                int64_t count)
{
    const walk *w = user;
    zr_exact *sum = &w->sums[w->by_tensor ? tensor->number : 0];
    double *squares = w->engine->operands.squares;
    for (int64_t end = first + count, stop; first < end; first = stop) {
        stop = ZR_MIN(end, (first / ZR_CHUNK + ZR_SQUARE_PARTS) * ZR_CHUNK);
        const zr_squares part = {.dtype = w->dtype, .first = first, .count = stop - first};
        int64_t before = (first - w->span.first) * (int64_t)zero_dtype_bytes(w->dtype);
        zr_run(w->engine->queue, zr_op_square_sums(&part, w->values + before, squares));
        for (int64_t k = 0; k < zr_squares_parts(&part); k++)
            zr_exact_add(sum, squares[k]);
    }
}

void zr_norm_add_squares(zero_engine *engine, int flat_param, zr_span span, zero_dtype dtype,
                         const void *values, zr_exact *sums, bool by_tensor)
{
    walk walk = {.engine = engine,
                 .dtype = dtype,
                 .values = values,
                 .span = span,
                 .sums = sums,
                 .by_tensor = by_tensor};
    zr_for_parts(&engine->plan->flat_params[flat_param], walk.span, add_squares_of_part, &walk);
}

static zero_status sum_exact_among(zero_comm *comm, zr_exact *sums, int count, zero_error *error)
{
    int at_once = ZR_COMM_SMALL_BYTES / (int)sizeof *sums;
    for (int i = 0; i < count; i += at_once) {
        int64_t words = ZR_MIN(at_once, count - i) * (int64_t)ZR_EXACT_WORDS;
        ZERO_TRY(zr_comm_all_reduce_small(comm, &sums[i], words, ZERO_I64, ZR_SUM, error));
    }
    return ZERO_OK;
}

zero_status zr_norm_all_reduce(zero_engine *engine, zr_exact *sums, int count, zero_error *error)
{
    const zr_grid *grid = &engine->grid;
    if (!zr_plan_is_asynchronous(engine->plan))
        return sum_exact_among(grid->world, sums, count, error);
    ZERO_TRY(sum_exact_among(grid->data, sums, count, error));
    return grid->tensor ? sum_exact_among(grid->tensor, sums, count, error) : ZERO_OK;
}
