// Gradients of a micro-batch (contract 4): they are bound where units add their contributions in
// fp32, and rounded once where gradients have 16 bits. gather_reduce.c sums them into the owner's
// accumulator. Norms have the same bits at any number of ranks and at any stage (contract 3):
// squares are summed in double within each part of a chunk that belongs to one tensor, and those
// sums are added exactly.
#include "engine/interpret.h"

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

static void zero_elements(zero_engine *engine, float *at, int64_t count)
{
    if (count > 0)
        zr_engine_run_aside(engine, zr_op_fill(&(zr_bytes){count * (int64_t)sizeof *at}, at));
}

// Zeroes the gaps and the padding, because they take part in the exchange.
zero_status zr_execute_open(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    float *gradient = (float *)(void *)zr_buffer_at(engine, i->place);
    int64_t at = 0;
    for (int t = 0; t < flat_param->tensor_count; t++) {
        const zr_plan_tensor *tensor = &flat_param->tensors[t];
        zero_elements(engine, gradient + at, tensor->first - at);
        at = tensor->first + tensor->count;
    }
    zero_elements(engine, gradient + at, flat_param->padded - at);
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
        zr_engine_run_aside(
            engine, zr_op_fill(&(zr_bytes){space->bytes}, engine->spaces[ZR_SPACE_CARRIES].at));
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

typedef struct squares_walk {
    zr_queue *queue;
    zr_square_parts shape;
    const void *values;
    zr_exact *sums;
    bool by_tensor;
    zr_square_part *parts; // (ZR_MOST_SQUARE_PARTS)
} squares_walk;

static void add_squares_of_parts(squares_walk *w)
{
    if (w->shape.parts)
        zr_run(w->queue, zr_op_square_sums_exact(&w->shape, w->parts, w->values, w->sums));
    w->shape.parts = w->shape.elements = 0;
}

static void note_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    squares_walk *w = user;
    if (w->shape.parts == ZR_MOST_SQUARE_PARTS)
        add_squares_of_parts(w);
    w->parts[w->shape.parts++] = (zr_square_part){first, count, w->by_tensor ? tensor->number : 0};
    w->shape.elements += count;
}

void zr_norm_add_squares(zero_engine *engine, zr_queue *queue, int flat_param, zr_span span,
                         zero_dtype dtype, const void *values, zr_exact *sums, bool by_tensor)
{
    squares_walk walk = {.queue = queue,
                         .shape = {.dtype = dtype,
                                   .first = span.first,
                                   .count = span.count,
                                   .sums = by_tensor ? engine->plan->tensor_count : 1},
                         .values = values,
                         .sums = sums,
                         .by_tensor = by_tensor,
                         .parts = engine->operands.square_parts};
    zr_for_parts(&engine->plan->flat_params[flat_param], span, note_part, &walk);
    add_squares_of_parts(&walk);
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
    zr_norm_add_squares(engine, engine->queue, i->flat_param, zr_own_shard(engine, i->flat_param),
                        flat_param->accumulator_dtype, sum, engine->norms.step, false);
    return ZERO_OK;
}
