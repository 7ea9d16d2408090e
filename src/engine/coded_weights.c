// Parameters are made from their master; and weights in blocks of codes, between steps. Where ranks
// map one copy it has the values of codes instead, in the type that units read; they may not become
// the same codes again, because that type has rounded them, so blocks that nothing has changed stay
// as they are.
#include "engine/coded_weights.h"

#include <string.h>

void zr_make_parameters(zr_queue *queue, const zr_flat_param *flat_param, int64_t count,
                        const void *master, void *parameters)
{
    const zr_blocks blocks = {.bits = flat_param->weight_bits,
                              .dtype = flat_param->coded ? ZERO_F32 : flat_param->dtype,
                              .n = count};
    if (flat_param->coded)
        zr_run(queue, zr_op_blocks_encode(&blocks, master, NULL, parameters));
    else if (flat_param->weight_bits)
        zr_run(queue, zr_op_blocks_round(&blocks, master, parameters));
    else
        zr_run(queue, zr_op_convert(
                          &(zr_conversion){.from = ZERO_F32, .to = flat_param->dtype, .n = count},
                          master, parameters));
}

typedef struct weights { // of a portion
    zero_engine *engine;
    const zr_flat_param *flat_param;
    char *kept;    // as they are kept
    float *values; // as the taker sees them
    int64_t count; // whole blocks
} weights;

bool zr_is_coded_weight(const zero_engine *engine, int flat_param)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    return p->coded || (p->weight_bits && p->state_first < 0);
}

static void widen(const weights *w, const char *kept, int64_t count, float *values)
{
    const zr_blocks blocks = {.bits = w->flat_param->weight_bits, .dtype = ZERO_F32, .n = count};
    const zr_conversion conversion = {.from = w->flat_param->dtype, .to = ZERO_F32, .n = count};
    zr_run(w->engine->queue, w->flat_param->coded ? zr_op_blocks_decode(&blocks, kept, values)
                                                  : zr_op_convert(&conversion, kept, values));
}

static void narrow_changed_blocks(const weights *w)
{
    float before[ZR_BLOCK];
    for (int64_t i = 0; i < w->count; i += ZR_BLOCK) {
        char *kept = w->kept + zr_flat_param_own_bytes(w->flat_param, i);
        widen(w, kept, ZR_BLOCK, before);
        if (memcmp(before, w->values + i, sizeof before))
            zr_make_parameters(w->engine->queue, w->flat_param, ZR_BLOCK, w->values + i, kept);
    }
}

zero_status zr_coded_weights_each(zero_engine *engine, int flat_param, bool changed,
                                  const zr_portion_taker *taker, zero_error *error)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    const zr_space_plan *space = &engine->plan->spaces[ZR_SPACE_WEIGHT_VALUES];
    int64_t most = space->bytes / (int64_t)sizeof(float),
            own = zr_own_shard(engine, flat_param).first;
    char *kept = zr_own_parameters(engine, flat_param);
    assert(most > 0);
    for (int64_t first = 0; first < p->shard; first += most) {
        const weights w = {.engine = engine,
                           .flat_param = p,
                           .kept = kept + zr_flat_param_own_bytes(p, first),
                           .values = (float *)(void *)engine->spaces[ZR_SPACE_WEIGHT_VALUES].at,
                           .count = ZR_MIN(most, p->shard - first)};
        const zr_portion portion = {
            .span = {own + first, w.count}, .dtype = ZERO_F32, .data = (char *)w.values};
        widen(&w, w.kept, w.count, w.values);
        ZERO_TRY(taker->take(taker->user, &portion, error));
        if (changed)
            narrow_changed_blocks(&w);
        zr_comm_progress(engine->grid.world, engine->progress.step);
    }
    return ZERO_OK;
}
