// Gradients of a micro-batch (contract 4): they are bound where units add their contributions in
// fp32, and rounded once where gradients have 16 bits. gather_reduce.c sums them into the owner's
// accumulator. Norms have the same bits at any number of ranks and at any stage (contract 3):
// squares are summed in double within each part of a chunk that belongs to one tensor, and those
// sums are added exactly.
#include "engine/interpret.h"

#include <string.h>

// BIND and UNBIND.
zero_status zr_execute_bind(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    char *at = i->code == ZR_BIND ? zr_buffer_at(engine, i->place) : NULL;
    if (i->place.buffer == ZR_BUFFER_GRADIENTS || i->place.buffer == ZR_BUFFER_OPEN_SUMS)
        engine->bound.collecting[i->flat_param].at = (float *)(void *)at;
    else
        engine->bound.at[i->flat_param] = at;
    return ZERO_OK;
}

// Zeroes the gaps and the padding, because they take part in the exchange.
zero_status zr_execute_open(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    float *gradient = (float *)(void *)zr_buffer_at(engine, i->place);
    int64_t at = 0;
    for (int t = 0; t < flat_param->tensor_count; t++) {
        const zr_plan_tensor *tensor = &flat_param->tensors[t];
        memset(gradient + at, 0, (size_t)(tensor->first - at) * sizeof *gradient);
        at = tensor->first + tensor->count;
    }
    memset(gradient + at, 0, (size_t)(flat_param->padded - at) * sizeof *gradient);
    engine->bound.collecting[i->flat_param] = (zr_collecting){gradient, i->unit};
    return ZERO_OK;
}

void zr_carries_begin_step(zero_engine *engine)
{
    const zr_space_plan *space = &engine->plan->spaces[ZR_SPACE_CARRIES];
    double scale = engine->progress.scale.scale;
    bool resets =
        engine->config->carry_reset && engine->progress.step % engine->config->carry_reset == 0;
    if (space->bytes > 0 && (resets || engine->carry_scale != scale))
        memset(engine->spaces[ZR_SPACE_CARRIES].at, 0, (size_t)space->bytes);
    engine->carry_scale = scale;
}

void zr_engine_forget_carries(zero_engine *engine) { engine->carry_scale = 0; }

static float *carry_of(const zero_engine *engine, const zr_flat_param *flat_param)
{
    return flat_param->carry_first < 0
               ? NULL
               : (float *)(void *)(engine->spaces[ZR_SPACE_CARRIES].at + flat_param->carry_first);
}

// A shard is a whole number of blocks, so all of them are encoded at once.
zero_status zr_execute_round(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    if (flat_param->gradient_bits) {
        const zr_blocks blocks = {.bits = flat_param->gradient_bits,
                                  .dtype = ZERO_F32,
                                  .n = flat_param->padded,
                                  .err_beta = (float)engine->config->carry_beta};
        zr_run(engine->queue,
               zr_op_blocks_encode(&blocks, zr_buffer_at(engine, i->from),
                                   carry_of(engine, flat_param), zr_buffer_at(engine, i->place)));
        return ZERO_OK;
    }
    zr_run(engine->queue,
           zr_op_convert(&(zr_conversion){.from = ZERO_F32,
                                          .to = flat_param->gradient_dtype,
                                          .n = flat_param->padded},
                         zr_buffer_at(engine, i->from), zr_buffer_at(engine, i->place)));
    return ZERO_OK;
}

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
    walk walk = {engine, dtype, values, span, sums, by_tensor};
    zr_for_parts(&engine->plan->flat_params[flat_param], span, add_squares_of_part, &walk);
}

zero_status zr_sum_words(zero_comm *comm, void *numbers, int64_t count, int64_t words,
                         zero_error *error)
{
    int64_t at_once = ZR_COMM_SMALL_BYTES / (words * (int64_t)sizeof(int64_t));
    for (int64_t i = 0; i < count; i += at_once)
        ZERO_TRY(zr_comm_all_reduce_small(comm, (int64_t *)numbers + i * words,
                                          ZR_MIN(at_once, count - i) * words, ZERO_I64, ZR_SUM,
                                          error));
    return ZERO_OK;
}

zero_status zr_words_all_reduce(zero_engine *engine, void *numbers, int64_t count, int64_t words,
                                zero_error *error)
{
    const zr_grid *grid = &engine->grid;
    if (!zr_plan_is_asynchronous(engine->plan))
        return zr_sum_words(grid->world, numbers, count, words, error);
    ZERO_TRY(zr_sum_words(grid->data, numbers, count, words, error));
    return grid->tensor ? zr_sum_words(grid->tensor, numbers, count, words, error) : ZERO_OK;
}

zero_status zr_norm_all_reduce(zero_engine *engine, zr_exact *sums, int count, zero_error *error)
{
    return zr_words_all_reduce(engine, sums, count, ZR_EXACT_WORDS, error);
}

zero_status zr_execute_squares(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    if (!flat_param->counted)
        return ZERO_OK;
    const void *sum = zr_grads_reduced_shard(engine, i->flat_param, 0);
    zr_norm_add_squares(engine, i->flat_param, zr_own_shard(engine, i->flat_param),
                        flat_param->accumulator_dtype, sum, &engine->sums.norm, false);
    return ZERO_OK;
}
