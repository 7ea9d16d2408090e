// Gradients of a micro-batch (contract 4): they are bound where units add their contributions in
// fp32, and rounded once where gradients have 16 bits. gather_reduce.c sums them into the owner's
// accumulator.
#include "compute/compute.h"
#include "engine/buffers.h"
#include "engine/interpret.h"
#include "engine/update.h"
#include "plan/accumulators.h"

#include <string.h>

// Zeroes the gaps and the padding, because they take part in the exchange.
static void zero_gaps(const zr_flat_param *flat_param, float *gradient)
{
    int64_t at = 0;
    for (int t = 0; t < flat_param->tensor_count; t++) {
        const zr_plan_tensor *tensor = &flat_param->tensors[t];
        memset(gradient + at, 0, (size_t)(tensor->first - at) * sizeof *gradient);
        at = tensor->first + tensor->count;
    }
    memset(gradient + at, 0, (size_t)(flat_param->padded - at) * sizeof *gradient);
}

static bool is_gradient_buffer(zr_buffer_id buffer)
{
    return buffer == ZR_BUFFER_GRADIENTS || buffer == ZR_BUFFER_OPEN_SUMS;
}

zero_status zr_execute_bind(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    char *at = zr_buffer_at(engine, i->place);
    if (is_gradient_buffer(i->place.buffer))
        engine->collecting[i->flat_param].at = (float *)(void *)at;
    else
        engine->at[i->flat_param] = at;
    return ZERO_OK;
}

zero_status zr_execute_unbind(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    if (is_gradient_buffer(i->place.buffer))
        engine->collecting[i->flat_param].at = NULL;
    else
        engine->at[i->flat_param] = NULL;
    return ZERO_OK;
}

zero_status zr_execute_open(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    float *at = (float *)(void *)zr_buffer_at(engine, i->place);
    zero_gaps(&engine->plan->flat_params[i->flat_param], at);
    engine->collecting[i->flat_param] = (zr_collecting){at, i->unit};
    return ZERO_OK;
}

zero_status zr_execute_round(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    zr_queue *queue = engine->queue;
    zr_run(queue, zr_op_convert(&(zr_conversion){.from = ZERO_F32,
                                                 .to = flat_param->gradient_dtype,
                                                 .n = flat_param->padded},
                                zr_buffer_at(engine, i->from), zr_buffer_at(engine, i->place)));
    return ZERO_OK;
}

zero_status zr_execute_squares(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    if (!flat_param->counted)
        return ZERO_OK;
    const void *sum = zr_own_shard_gradient(engine, i->flat_param);
    zr_norm_add_squares(engine, i->flat_param, zr_own_shard(engine, i->flat_param),
                        flat_param->accumulator_dtype, sum, &engine->sums.norm, false);
    return ZERO_OK;
}
