#include "model/pipeline_stage_cut.h"

#include "base/alloc.h"
#include "model/unit.h"

#include <string.h>

typedef struct zr_pipeline_stage {
    zero_model model; // first, because zr_pipeline_stage_free gets its address
    const zero_model *origin;
    zr_unit_range *chunks; // (chunk_count) of the origin's units
    int chunk_count;
    bool exact;
    zero_unit *units;                                      // (model.unit_count)
    zero_flat_param_desc *flat_params;                     // of the units that have tied copies
    zero_flat_param_ref *borrowed;                         // of all units, one after another
    zr_tied_copy *tied_copies;                             // (tied_copy_count)
    int flat_param_count, borrowed_count, tied_copy_count; // so far
} zr_pipeline_stage;

// Returns the chunk of this stage that has a unit of the origin; -1 if no chunk has it.
static int chunk_of_unit(const zr_pipeline_stage *stage, int unit)
{
    for (int c = 0; c < stage->chunk_count; c++)
        if (stage->chunks[c].first <= unit && unit < stage->chunks[c].end)
            return c;
    return -1;
}

// Returns the local number of a unit of the origin. The stage must have it.
static int local_unit(const zr_pipeline_stage *stage, int unit)
{
    int local = 0, c = 0;
    for (; unit >= stage->chunks[c].end; c++)
        local += stage->chunks[c].end - stage->chunks[c].first;
    return local + unit - stage->chunks[c].first;
}

// Counts the flat parameters that a unit of the origin borrows and that become tied copies: all up
// to the last one whose owner is elsewhere.
static int count_tied_copies(const zr_pipeline_stage *stage, int unit)
{
    const zero_unit *from = &stage->origin->units[unit];
    int count = 0;
    for (int b = 0; b < from->borrowed_count; b++)
        if (stage->exact ||
            chunk_of_unit(stage, from->borrowed[b].unit) != chunk_of_unit(stage, unit))
            count = b + 1;
    return count;
}

static zero_status add_tied_copy(zr_pipeline_stage *stage, zero_flat_param_ref at,
                                 zero_flat_param_ref owner, zero_error *error)
{
    const zero_flat_param_desc *flat_param = zr_flat_param_desc(stage->origin, owner);
    if (flat_param->kind == ZERO_BUFFER)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "unit \"%s\" borrows a buffer (\"%s\") of unit \"%s\": pipeline stages "
                       "cannot share it, because its next value is known to its owner alone; both "
                       "units have to be in one chunk",
                       stage->units[at.unit].name, flat_param->tensors[0].name,
                       stage->origin->units[owner.unit].name);
    stage->flat_params[stage->flat_param_count++] = *flat_param;
    stage->tied_copies[stage->tied_copy_count++] = (zr_tied_copy){at, owner};
    return ZERO_OK;
}

// Gives a unit the flat parameters that it owns, and then its tied copies.
static zero_status copy_flat_params(zr_pipeline_stage *stage, int local, const zero_unit *from,
                                    int tied_copies, zero_error *error)
{
    zero_unit *unit = &stage->units[local];
    zero_flat_param_desc *flat_params = &stage->flat_params[stage->flat_param_count];
    for (int p = 0; p < from->flat_param_count; p++)
        stage->flat_params[stage->flat_param_count++] = from->flat_params[p];
    for (int r = 0; r < tied_copies; r++)
        ZERO_TRY(add_tied_copy(stage, (zero_flat_param_ref){local, from->flat_param_count + r},
                               from->borrowed[r], error));
    unit->flat_param_count += tied_copies;
    unit->flat_params = flat_params;
    return ZERO_OK;
}

static zero_status take_unit(zr_pipeline_stage *stage, int number, zero_error *error)
{
    const zero_unit *from = &stage->origin->units[number];
    int local = stage->model.unit_count++, tied_copies = count_tied_copies(stage, number);
    zero_unit *unit = &stage->units[local];
    *unit = *from;
    if (tied_copies > 0)
        ZERO_TRY(copy_flat_params(stage, local, from, tied_copies, error));
    unit->borrowed_count -= tied_copies;
    unit->borrowed = unit->borrowed_count ? &stage->borrowed[stage->borrowed_count] : NULL;
    for (int b = tied_copies; b < from->borrowed_count; b++)
        stage->borrowed[stage->borrowed_count++] = (zero_flat_param_ref){
            local_unit(stage, from->borrowed[b].unit), from->borrowed[b].flat_param};
    return ZERO_OK;
}

static zero_status reserve_pipeline_stage(zr_pipeline_stage *stage, const zr_unit_range *chunks,
                                          zero_error *error)
{
    size_t units = 0, flat_params = 0, borrowed = 0, count = (size_t)stage->chunk_count;
    for (int c = 0; c < stage->chunk_count; c++)
        for (int u = chunks[c].first; u < chunks[c].end; u++, units++) {
            flat_params += (size_t)stage->origin->units[u].flat_param_count;
            borrowed += (size_t)stage->origin->units[u].borrowed_count;
        }
    stage->chunks = zr_alloc(count * sizeof *stage->chunks, error);
    stage->units = zr_alloc(units * sizeof *stage->units, error);
    stage->flat_params =
        zr_alloc(ZR_MAX(flat_params + borrowed, 1) * sizeof *stage->flat_params, error);
    stage->borrowed = zr_alloc(ZR_MAX(borrowed, 1) * sizeof *stage->borrowed, error);
    stage->tied_copies = zr_alloc(ZR_MAX(borrowed, 1) * sizeof *stage->tied_copies, error);
    bool all = stage->chunks && stage->units && stage->flat_params && stage->borrowed &&
               stage->tied_copies;
    if (!all)
        return ZERO_ERR_MEMORY;
    memcpy(stage->chunks, chunks, count * sizeof *chunks);
    return ZERO_OK;
}

static zero_status take_units(zr_pipeline_stage *stage, zero_error *error)
{
    for (int c = 0; c < stage->chunk_count; c++)
        for (int u = stage->chunks[c].first; u < stage->chunks[c].end; u++)
            ZERO_TRY(take_unit(stage, u, error));
    return ZERO_OK;
}

static bool are_chunks(const zero_model *model, const zr_unit_range *chunks, int count)
{
    bool good = count > 0;
    for (int c = 0; c < count && good; c++)
        good = chunks[c].first >= (c ? chunks[c - 1].end : 0) && chunks[c].end > chunks[c].first &&
               chunks[c].end <= model->unit_count;
    return good;
}

zero_status zr_pipeline_stage_cut(const zero_model *model, const zr_unit_range *chunks, int count,
                                  bool exact, zero_model **out, zero_error *error)
{
    assert(!model->stage && are_chunks(model, chunks, count));
    zr_pipeline_stage *stage = zr_alloc(sizeof *stage, error);
    if (!stage)
        return ZERO_ERR_MEMORY;
    *stage = (zr_pipeline_stage){.origin = model, .chunk_count = count, .exact = exact};
    zero_status status = reserve_pipeline_stage(stage, chunks, error);
    if (status == ZERO_OK)
        status = take_units(stage, error);
    if (status != ZERO_OK) {
        zr_pipeline_stage_free(&stage->model);
        return status;
    }
    stage->model.name = model->name;
    stage->model.units = stage->units;
    stage->model.whole = model->whole ? model->whole : model;
    stage->model.stage = stage;
    *out = &stage->model;
    return ZERO_OK;
}

void zr_pipeline_stage_free(zero_model *model)
{
    zr_pipeline_stage *stage = (zr_pipeline_stage *)model;
    if (!stage)
        return;
    zr_free(stage->chunks);
    zr_free(stage->units);
    zr_free(stage->flat_params);
    zr_free(stage->borrowed);
    zr_free(stage->tied_copies);
    zr_free(stage);
}

const zero_model *zr_pipeline_stage_origin(const zero_model *model)
{
    return model->stage ? model->stage->origin : model;
}

int zr_pipeline_stage_unit(const zero_model *model, int unit)
{
    const zr_pipeline_stage *stage = model->stage;
    int c = 0;
    assert(unit >= 0 && unit < model->unit_count);
    if (!stage)
        return unit;
    for (; unit >= stage->chunks[c].end - stage->chunks[c].first; c++)
        unit -= stage->chunks[c].end - stage->chunks[c].first;
    return stage->chunks[c].first + unit;
}

const zr_tied_copy *zr_pipeline_stage_tied_copies(const zero_model *model, int *count)
{
    *count = model->stage ? model->stage->tied_copy_count : 0;
    return model->stage ? model->stage->tied_copies : NULL;
}

const zr_tied_copy *zr_pipeline_stage_tied_copy_at(const zero_model *model, zero_flat_param_ref ref)
{
    int count;
    const zr_tied_copy *tied_copies = zr_pipeline_stage_tied_copies(model, &count);
    for (int r = 0; r < count; r++)
        if (tied_copies[r].at.unit == ref.unit && tied_copies[r].at.flat_param == ref.flat_param)
            return &tied_copies[r];
    return NULL;
}

static int chunk_with(const int *first_unit, int unit)
{
    int c = 0;
    while (unit >= first_unit[c + 1])
        c++;
    return c;
}

int zr_pipeline_stage_tied_weights(const zero_model *model, const int *first_unit, int chunks,
                                   bool exact, zr_tied_weight *out)
{
    int count = 0;
    for (int u = 0; u < first_unit[chunks]; u++) {
        const zero_unit *unit = &model->units[u];
        int here = chunk_with(first_unit, u), tied_copies = 0;
        for (int b = 0; b < unit->borrowed_count; b++)
            if (exact || chunk_with(first_unit, unit->borrowed[b].unit) != here)
                tied_copies = b + 1;
        for (int b = 0; b < tied_copies; b++, count++)
            if (out)
                out[count] = (zr_tied_weight){
                    .borrower = u,
                    .owner = unit->borrowed[b],
                    .chunks = {here, chunk_with(first_unit, unit->borrowed[b].unit)}};
    }
    return count;
}
