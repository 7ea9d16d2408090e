#include "checkpoint/factors_view.h"

#include "base/alloc.h"

static zero_status use_ranges(const zr_factors_view *v, int part, bool outlines, zr_range_use use,
                              void *user, zero_error *error)
{
    for (int t = 0; t < v->view.tensor_count && part == 0; t++) {
        int64_t count;
        float *data = zr_engine_factors(v->engine, v->numbers[t], v->of_rows, &count);
        const zr_weight_range range = {.tensor = v->listed[t],
                                       .at = zr_rectangle_of_stretch(0, count),
                                       .data = outlines ? NULL : data,
                                       .dtype = ZERO_F32};
        if (!v->saves || zr_engine_saves_factors(v->engine, v->numbers[t]))
            ZERO_TRY(use(user, &range, error));
    }
    return ZERO_OK;
}

static zero_status each_range(void *user, int part, bool changed, zr_range_use use, void *use_user,
                              zero_error *error)
{
    return use_ranges(user, part, false, use, use_user, error);
}

static zero_status outline_ranges(void *user, int part, zr_range_use use, void *use_user,
                                  zero_error *error)
{
    return use_ranges(user, part, true, use, use_user, error);
}

static void list_factors(zr_factors_view *v)
{
    const zr_plan *plan = zr_engine_plan(v->engine);
    for (int number = 0; number < plan->tensor_count; number++) {
        int t = v->view.tensor_count;
        int64_t count;
        zr_engine_factors(v->engine, number, v->of_rows, &count);
        if (!count)
            continue;
        v->descs[t] =
            (zero_tensor_desc){.name = plan->factors[number].name, .dims = 1, .shape = {count}};
        v->listed[t] = &v->descs[t];
        v->numbers[t] = number;
        v->view.tensor_count++;
        if (!v->saves || zr_engine_saves_factors(v->engine, number))
            v->view.elements += count;
    }
}

zero_status zr_factors_view_create(zero_engine *engine, bool of_rows, zr_view_purpose purpose,
                                   zr_factors_view *out, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(engine);
    size_t count = (size_t)plan->tensor_count;
    // A rank compares only what is up to date for sure.
    *out =
        (zr_factors_view){.engine = engine, .of_rows = of_rows, .saves = purpose != ZR_VIEW_LOADS};
    out->descs = zr_alloc(count * sizeof *out->descs, error);
    out->listed = zr_alloc(count * sizeof *out->listed, error);
    out->numbers = zr_alloc(count * sizeof *out->numbers, error);
    if (!out->descs || !out->listed || !out->numbers) {
        zr_factors_view_free(out);
        return ZERO_ERR_MEMORY;
    }
    out->view = (zr_weight_view){.tensors = out->listed,
                                 .parts = plan->flat_param_count,
                                 .each = each_range,
                                 .outline = outline_ranges,
                                 .user = out};
    list_factors(out);
    return ZERO_OK;
}

void zr_factors_view_free(zr_factors_view *view)
{
    zr_free(view->descs);
    zr_free(view->listed);
    zr_free(view->numbers);
    *view = (zr_factors_view){0};
}
