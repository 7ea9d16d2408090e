// The parts of the flat vectors (weights and states) in each rank's file. Each part is checked
// against its record and against the parts of the other ranks.
#include "formats/deepspeed.h"

#include <assert.h>
#include <string.h>

typedef const zr_pickle_value *value;

static zero_status locate_part(const zr_deepspeed *ds, int rank, value tensor, const char *what,
                               zr_ds_part *out, zero_error *error)
{
    out->file = rank;
    if (!zr_pickle_is(tensor, ZR_PICKLE_TENSOR) || strcmp(tensor->tensor.storage->dtype, "F32"))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\": %s is no tensor of fp32",
                       zr_ds_path(ds, rank), what);
    out->elements = tensor->tensor.elements;
    return zr_torch_position(&ds->optim[rank], &tensor->tensor, what, &out->begin, error);
}

static zero_status locate_weights_part(const zr_deepspeed *ds, int rank, int group, zr_ds_part *out,
                                       zero_error *error)
{
    value flat = zr_pickle_at(zr_ds_flat(ds, rank), (size_t)group);
    return locate_part(ds, rank, flat, "a flat vector of weights", out, error);
}

// Reads a part of a state. A state is as large as its weights, except that the last rank's weights
// were saved without padding.
static zero_status locate_state_part(const zr_deepspeed *ds, int rank, int group, const char *state,
                                     zr_ds_part *out, zero_error *error)
{
    value flat = zr_pickle_at(zr_ds_flat(ds, rank), (size_t)group);
    ZERO_TRY(locate_part(ds, rank, zr_pickle_get(zr_ds_group_state(ds, rank, group), state), state,
                         out, error));
    int64_t padding = out->elements - flat->tensor.elements;
    out->elements = flat->tensor.elements;
    if (padding == 0 || (ds->stage != 3 && padding > 0 && padding < 2 * (int64_t)ds->ranks))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "\"%s\": %s of group %d has %lld elements, the weights %lld",
                   zr_ds_path(ds, rank), state, group, (long long)(out->elements + padding),
                   (long long)out->elements);
}

static zero_status add_vector(zr_deepspeed *ds, const char *name, bool weights, zero_error *error)
{
    assert(ds->vector_count < ZR_DS_VECTORS); // the weights, then each of zr_ds_states at most once
    zr_ds_vector *vector = &ds->vectors[ds->vector_count++];
    vector->name = name;
    vector->parts =
        zr_alloc(((size_t)ds->groups * (size_t)ds->ranks + 1) * sizeof *vector->parts, error);
    if (!vector->parts)
        return ZERO_ERR_MEMORY;
    for (int g = 0; g < ds->groups; g++)
        for (int r = 0; r < ds->ranks; r++) {
            zr_ds_part *part = &vector->parts[(size_t)g * (size_t)ds->ranks + (size_t)r];
            ZERO_TRY(weights ? locate_weights_part(ds, r, g, part, error)
                             : locate_state_part(ds, r, g, name, part, error));
            if (ds->stage == 3 && part->elements != (part - r)->elements)
                return zr_fail(error, ZERO_ERR_DATA,
                               "\"%s\": its part of group %d has %lld elements, rank 0's %lld",
                               zr_ds_path(ds, r), g, (long long)part->elements,
                               (long long)(part - r)->elements);
        }
    return ZERO_OK;
}

zero_status zr_ds_read_parts(zr_deepspeed *ds, zero_error *error)
{
    for (int r = 0; r < ds->ranks; r++) {
        value flat = zr_ds_flat(ds, r);
        if (!zr_pickle_at(flat, 0))
            return zr_fail(error, ZERO_ERR_DATA, "\"%s\" holds no fp32 weights%s",
                           zr_ds_path(ds, r), ds->stage == 3 ? " (were they on NVMe?)" : "");
        if (r && flat->items.count != (size_t)ds->groups)
            return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has %zu groups of weights, rank 0 has %d",
                           zr_ds_path(ds, r), flat->items.count, ds->groups);
        if (flat->items.count > 1 << 20)
            return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has %zu groups of weights",
                           zr_ds_path(ds, r), flat->items.count);
        ds->groups = (int)flat->items.count;
    }
    ZERO_TRY(add_vector(ds, "weights", true, error));
    for (int s = 0; s < ZR_COUNT(zr_ds_states); s++)
        if (zr_pickle_is(zr_pickle_get(zr_ds_group_state(ds, 0, 0), zr_ds_states[s]),
                         ZR_PICKLE_TENSOR))
            ZERO_TRY(add_vector(ds, zr_ds_states[s], false, error));
    return ZERO_OK;
}
