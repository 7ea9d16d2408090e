#include "compute/state_blocks.h"

#include "compute/ref/ref.h"

// Encodes `count` elements of a block; returns the block's scale. A number that is none counts as
// the least one, and does not make the scale.
static float encode(const float *map, const float *values, int64_t count, uint8_t *codes)
{
    float scale = 0, least = map == zr_signed_map ? -1 : 0;
    for (int64_t i = 0; i < count; i++)
        scale = fabsf(values[i]) > scale ? fabsf(values[i]) : scale;
    float by = zr_block_inverse(scale);
    for (int64_t i = 0; i < count; i++)
        codes[i] = zr_dynamic_code(map, values[i] * by > least ? values[i] * by : least);
    return scale;
}

static float updated(const zr_block_constants *with, float g, float p, float *m, float *v)
{
    g = g * with->scale + p * with->weight_decay;
    *m = *m * with->keep0 + g * with->take0;
    *v = *v * with->keep1 + g * g * with->take1;
    return p * with->keep_p - with->step * *m / (sqrtf(*v) * with->root + with->epsilon);
}

static void update_block(const zr_update *update, const zr_block_constants *with,
                         const zr_range_states *at, int64_t block)
{
    int64_t first = block * ZR_STATE_BLOCK,
            count = ZR_MIN(update->n - first, (int64_t)ZR_STATE_BLOCK);
    uint8_t *codes0 = (uint8_t *)at->state0 + first, *codes1 = (uint8_t *)at->state1 + first;
    float m[ZR_STATE_BLOCK], v[ZR_STATE_BLOCK], *p = at->master + first;
    for (int64_t i = 0; i < count; i++) {
        m[i] = zr_signed_map[codes0[i]] * at->scales0[block];
        v[i] = zr_unsigned_map[codes1[i]] * at->scales1[block];
        float g = (float)ref_get(update->gradient, at->gradient, first + i);
        p[i] = updated(with, g, p[i], &m[i], &v[i]);
        if (at->parameters)
            ref_put(update->parameters, at->parameters, first + i, p[i]);
    }
    at->scales0[block] = encode(zr_signed_map, m, count, codes0);
    at->scales1[block] = encode(zr_unsigned_map, v, count, codes1);
}

void zr_ref_update_blocks(const zr_update *update, const zr_update_values *values,
                          const zr_range_states *at)
{
    const zr_block_constants with = zr_block_constants_of(update, values);
    for (int64_t block = 0; block < zr_update_scales(update); block++)
        update_block(update, &with, at, block);
}
