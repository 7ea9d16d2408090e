#include "model/lm_slices.h"

#include "model/lm_build.h"

#include <stdio.h>

int zr_slices_here(const zr_lm_slices *slices) { return slices->count / slices->ranks; }

int zr_slices_first(const zr_lm_slices *slices) { return slices->rank * zr_slices_here(slices); }

int zr_slices_sharers(const zr_lm_slices *slices, const zr_lm_shape *shape)
{
    return (int)ZR_MAX(slices->count / shape->kv_heads, 1);
}

int zr_slices_sharing_ranks(const zr_lm_slices *slices, const zr_lm_shape *shape)
{
    return (int)ZR_MAX(slices->ranks / shape->kv_heads, 1);
}

zr_slice_tokens zr_tokens_of_slice(const zr_lm_slices *slices, int64_t vocabulary, int slice)
{
    int64_t even = (vocabulary + slices->count - 1) / slices->count;
    int64_t step = slices->count > 1 ? ZR_ROUND_UP(even, (int64_t)ZR_VOCABULARY_MULTIPLE) : even;
    int64_t first = ZR_MIN(slice * step, vocabulary);
    return (zr_slice_tokens){first, ZR_MIN(step, vocabulary - first)};
}

int64_t zr_slice_row_step(const zr_lm_slices *slices, int64_t rows)
{
    return (rows + slices->count - 1) / slices->count;
}

static bool divides(int64_t a, int64_t b) { return a > 0 && b % a == 0; }

static bool fits_keys(const zr_lm_shape *shape, int64_t slices)
{
    return divides(slices, shape->kv_heads) || divides(shape->kv_heads, slices);
}

static bool fits(const zr_lm_shape *shape, int64_t slices)
{
    return divides(slices, shape->heads) && divides(slices, shape->inner) &&
           fits_keys(shape, slices);
}

// Writes what would fit: "5 or 25 slices", "2, 4 or 8 slices", "none".
static void list_fitting(const zr_lm_shape *shape, char *out, size_t size)
{
    int64_t fitting[64], count = 0;
    for (int64_t n = 2; n <= shape->heads && count < ZR_COUNT(fitting); n++)
        if (fits(shape, n))
            fitting[count++] = n;
    size_t used = (size_t)snprintf(out, size, count ? "" : "it cannot be cut");
    for (int64_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%lld%s",
                                 i == 0           ? ""
                                 : i == count - 1 ? " or "
                                                  : ", ",
                                 (long long)fitting[i], i == count - 1 ? " slices" : "");
}

static zero_status refuse(const zr_lm_config *config, const zr_lm_slices *slices, const char *what,
                          zero_error *error)
{
    const zr_lm_shape shape = zr_lm_shape_of(config);
    char fitting[512];
    list_fitting(&shape, fitting, sizeof fitting);
    return zr_fail(error, ZERO_ERR_CONFIG, "cutting %s into %d slices: %s; possible: %s",
                   zr_lm_name(config), slices->count, what, fitting);
}

zero_status zr_slices_check(const zr_lm_config *config, const zr_lm_slices *slices,
                            zero_error *error)
{
    const zr_lm_shape shape = zr_lm_shape_of(config);
    const zr_tiles tiles = zr_lm_tiles(config);
    int64_t count = slices->count;
    char what[256];
    if (count == 1)
        return ZERO_OK;
    if (tiles.embedding > 1 || tiles.attention > 1 || tiles.mlp > 1)
        return refuse(config, slices, "it is cut into tiles already (libzero.tiling)", error);
    snprintf(what, sizeof what, "it has %lld heads", (long long)shape.heads);
    if (!divides(count, shape.heads))
        return refuse(config, slices, what, error);
    snprintf(what, sizeof what, "the inner width of its MLP is %lld", (long long)shape.inner);
    if (!divides(count, shape.inner))
        return refuse(config, slices, what, error);
    snprintf(what, sizeof what, "its %lld heads of keys and values neither divide nor are divided",
             (long long)shape.kv_heads);
    if (!fits_keys(&shape, count))
        return refuse(config, slices, what, error);
    if (zr_slices_here(slices) > ZR_MOST_LOCAL_SLICES)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "cutting %s into %d slices on %d tensor ranks: a rank computes at most %d "
                       "slices, so %d tensor ranks or more",
                       zr_lm_name(config), slices->count, slices->ranks, ZR_MOST_LOCAL_SLICES,
                       slices->count / ZR_MOST_LOCAL_SLICES);
    return ZERO_OK;
}
