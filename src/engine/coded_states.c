// Optimizer states in 8 bits as the rooms above read and write them: fp32 numbers, one shard slice
// at a time.
#include "engine/coded_states.h"

#include "base/state_codes.h"

typedef struct coded { // the part of a shard slice that lies in the own shard
    const zr_flat_param *flat_param;
    const float *map;
    uint8_t *codes;
    float *scales, *values;
    zr_span span; // elements of the flat parameter
} coded;

static void widen(const coded *c)
{
    for (int64_t i = 0; i < c->span.count; i += ZR_STATE_BLOCK)
        zr_state_block_widen(c->map, c->codes + i, c->scales[i / ZR_STATE_BLOCK], ZR_STATE_BLOCK,
                             c->values + i);
}

// A block has elements of one tensor, and gaps after it are no part of it.
static void narrow_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    const coded *c = user;
    int64_t at = first - c->span.first;
    for (int64_t end = at + count; at < end; at += ZR_STATE_BLOCK)
        c->scales[at / ZR_STATE_BLOCK] = zr_state_block_narrow(
            c->map, c->values + at, ZR_MIN(ZR_STATE_BLOCK, end - at), c->codes + at);
}

// Reads the codes of elements of the own part from NVMe into a staging buffer, or writes them back.
static zero_status move_codes(zero_engine *engine, int flat_param, zr_vector vector, zr_span span,
                              bool write, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, flat_param, vector);
    zr_transfer *transfer = &engine->offload.staging_buffer[0][vector];
    ZERO_TRY((write ? store->ops->commit : store->ops->fetch)(
        store, zr_vector_range(engine, flat_param, vector, span.first, span.count),
        zr_staging_buffer_at(engine, 0, vector), transfer, error));
    return zr_offload_await(engine, transfer, error);
}

bool zr_is_coded(const zero_engine *engine, zr_vector vector)
{
    return zr_plan_codes_states(engine->plan) &&
           (vector == ZR_VECTOR_STATE0 || vector == ZR_VECTOR_STATE1);
}

// `own`: elements of what this rank updates, a shard slice's part of its shard.
static zero_status take_slice(zero_engine *engine, int flat_param, zr_vector vector, zr_span own,
                              bool changed, const zr_portion_taker *taker, zero_error *error)
{
    bool first = vector == ZR_VECTOR_STATE0,
         travels = zr_store_needs_buffer(zr_vector_store(engine, flat_param, vector));
    coded part = {.flat_param = &engine->plan->flat_params[flat_param],
                  .map = first ? zr_signed_map : zr_unsigned_map,
                  .codes = travels ? (void *)zr_staging_buffer_at(engine, 0, vector)
                                   : zr_vector_at(engine, flat_param, vector, own.first),
                  .scales = zr_vector_at(engine, flat_param,
                                         first ? ZR_VECTOR_SCALES0 : ZR_VECTOR_SCALES1, own.first),
                  .values = (float *)(void *)engine->spaces[ZR_SPACE_STATE_VALUES].at,
                  .span = {zr_update_range(engine, flat_param).first + own.first, own.count}};
    const zr_portion portion = {.span = part.span, .dtype = ZERO_F32, .data = (char *)part.values};
    if (travels)
        ZERO_TRY(move_codes(engine, flat_param, vector, own, false, error));
    widen(&part);
    ZERO_TRY(taker->take(taker->user, &portion, error));
    if (!changed)
        return ZERO_OK;
    zr_for_parts(part.flat_param, part.span, narrow_part, &part);
    return travels ? move_codes(engine, flat_param, vector, own, true, error) : ZERO_OK;
}

zero_status zr_coded_states_each(zero_engine *engine, int flat_param, zr_vector vector,
                                 bool changed, const zr_portion_taker *taker, zero_error *error)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    int64_t base =
        zr_own_shard(engine, flat_param).first - zr_update_range(engine, flat_param).first;
    for (int s = p->shard_slice_first; s < p->shard_slice_first + p->shard_slice_count; s++) {
        const zr_shard_slice *slice = &engine->plan->shard_slices[s];
        int64_t begin = ZR_MAX(base, slice->first),
                end = ZR_MIN(base + p->shard, slice->first + slice->count);
        if (begin < end)
            ZERO_TRY(take_slice(engine, flat_param, vector, (zr_span){begin, end - begin}, changed,
                                taker, error));
        zr_comm_progress(engine->grid.world, engine->progress.step);
    }
    return ZERO_OK;
}
