#include "model/lm_slices.h"

#include "model/lm_build.h"

#include <stdio.h>

int zr_slices_here(const zr_lm_slices *slices) { return slices->count / slices->ranks; }

int zr_slices_first(const zr_lm_slices *slices) { return slices->rank * zr_slices_here(slices); }

int zr_slices_kv_replicas(const zr_lm_slices *slices, const zr_lm_shape *shape)
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

static bool fits_model(const zr_lm_shape *shape, int64_t slices)
{
    return divides(slices, shape->heads) && divides(slices, shape->inner) &&
           fits_keys(shape, slices);
}

// Writes that no number of slices fits, and which of the model's numbers have no common divisor.
static void describe_conflict(const zr_lm_shape *shape, bool powers, char *out, size_t size)
{
    bool without_keys = false; // some number divides the heads and the MLP
    for (int64_t n = 2; n <= shape->heads && !without_keys; n++)
        without_keys = divides(n, shape->heads) && divides(n, shape->inner) &&
                       (!powers || ZR_IS_POWER_OF_TWO(n));
    int used =
        snprintf(out, size,
                 "; no number of %s fits this model: none above 1 divides both its %lld "
                 "head%s and the width %lld of its MLP",
                 powers ? "slices that is a power of two" : "tensor ranks", (long long)shape->heads,
                 shape->heads == 1 ? "" : "s", (long long)shape->inner);
    if (without_keys)
        snprintf(out + used, size - (size_t)used,
                 ", and divides its %lld heads of keys and values or is a multiple of them",
                 (long long)shape->kv_heads);
}

// Writes the numbers of slices that fit (": 5 or 25", ": 2, 4 or 8"), or that no number does.
static void list_fitting(const zr_lm_shape *shape, bool powers, char *out, size_t size)
{
    int64_t fitting[64], count = 0;
    for (int64_t n = 2; n <= shape->heads && count < ZR_COUNT(fitting); n++)
        if (fits_model(shape, n) && (!powers || ZR_IS_POWER_OF_TWO(n)))
            fitting[count++] = n;
    size_t used = 0;
    if (!count)
        describe_conflict(shape, powers, out, size);
    for (int64_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%lld",
                                 i == 0           ? ": "
                                 : i == count - 1 ? " or "
                                                  : ", ",
                                 (long long)fitting[i]);
}

typedef struct cut { // the model to cut, and the option that requests it
    const zr_lm_slices *slices;
    zr_lm_shape shape;
    const char *model;
    char option[512];
} cut;

// `has` is the model's property ("25 heads"); `fails` is what the number of slices fails to do.
static zero_status refuse_slice_count(const cut *c, const char *has, int64_t number,
                                      const char *fails, zero_error *error)
{
    char fitting[512], what[128];
    snprintf(what, sizeof what, has, (long long)number);
    list_fitting(&c->shape, c->slices->exact, fitting, sizeof fitting);
    return zr_fail(error, ZERO_ERR_CONFIG, "%s has %s, which %s %s%s", c->model, what, c->option,
                   fails, fitting);
}

static zero_status check_slice_count(const cut *c, zero_error *error)
{
    const zr_lm_shape *shape = &c->shape;
    int64_t count = c->slices->count;
    if (!divides(count, shape->heads))
        return refuse_slice_count(c, "%lld heads", shape->heads, "does not divide", error);
    if (!divides(count, shape->inner))
        return refuse_slice_count(c, "an MLP of width %lld", shape->inner, "does not divide",
                                  error);
    if (!fits_keys(shape, count))
        return refuse_slice_count(c, "%lld heads of keys and values", shape->kv_heads,
                                  "neither divides nor is a multiple of", error);
    return ZERO_OK;
}

// Checks that slices of weights that are cut by their inputs begin and end with a block of codes.
static zero_status check_blocks(const zr_lm_config *config, const cut *c, zero_error *error)
{
    const zr_lm_shape *shape = &c->shape;
    const int64_t inputs[] = {shape->heads * shape->head_dim, shape->inner};
    for (int i = 0; i < ZR_COUNT(inputs) && config->base == ZR_WEIGHT_NF4; i++)
        if (inputs[i] / c->slices->count % ZR_NF4_BLOCK)
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "%s has a linear of %lld inputs, of which %s leaves %lld to a slice: a "
                           "base in nf4 has blocks of %d inputs, which cannot be cut",
                           c->model, (long long)inputs[i], c->option,
                           (long long)(inputs[i] / c->slices->count), ZR_NF4_BLOCK);
    return ZERO_OK;
}

zero_status zr_slices_check(const zr_lm_config *config, const zr_lm_slices *slices,
                            const zr_slices_message *message, zero_error *error)
{
    const zr_tiles tiles = zr_lm_tiles(config);
    cut c = {.slices = slices,
             .shape = zr_lm_shape_of(config),
             .model = message ? message->model : zr_lm_name(config)};
    if (slices->count == 1)
        return ZERO_OK;
    if (message)
        snprintf(c.option, sizeof c.option, "%s", message->option);
    else
        snprintf(c.option, sizeof c.option, "a cut into %d slices", slices->count);
    if (tiles.embedding > 1 || tiles.attention > 1 || tiles.mlp > 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s is made of tiles (libzero.tiling), %s cuts models into slices: keep one "
                       "of them",
                       c.model, c.option);
    ZERO_TRY(check_slice_count(&c, error));
    ZERO_TRY(check_blocks(config, &c, error));
    if (zr_slices_here(slices) > ZR_MOST_LOCAL_SLICES)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: %d slices of %s on %d tensor rank%s: a rank computes at most %d of "
                       "them, so %d tensor ranks or more",
                       c.option, slices->count, c.model, slices->ranks,
                       slices->ranks == 1 ? "" : "s", ZR_MOST_LOCAL_SLICES,
                       slices->count / ZR_MOST_LOCAL_SLICES);
    return ZERO_OK;
}
