#include "checkpoint/model_view.h"

#include "base/alloc.h"
#include "engine/rank_grid.h"
#include "layers/layers.h"
#include "model/pipeline_stage_cut.h"
#include "model/unit.h"

#include <string.h>

typedef struct taking {
    const zr_model_view *view;
    const zr_flat_param *flat_param;
    const zr_portion *portion; // NULL if this is an outline
    zr_range_use use;
    void *user;
    zero_status status;
    zero_error *error;
} taking;

static const zero_model *model_of_view(const zr_model_view *view)
{
    return zr_engine_plan(view->engine)->model;
}

// Returns how many elements of the tensor, from `first` on, make the next range. A whole model and
// its pipeline stages save only stretches, so that their checkpoints have no rectangles.
static int64_t make_next_range(const zr_model_view *view, const zr_plan_tensor *tensor,
                               int64_t first, int64_t count, zr_rectangle *out)
{
    int64_t taken = zr_tile_rectangle(tensor->desc, first, count, out);
    if (zr_pipeline_stage_origin(model_of_view(view))->whole || view->purpose != ZR_VIEW_SAVES)
        return taken;
    *out = zr_rectangle_of_stretch(out->first, out->width);
    return out->width;
}

// Muon's matrices have no second state: its place has their direction between the update's walks.
static bool view_has_state(const zr_model_view *view, bool orthogonal)
{
    return !orthogonal || view->vector != ZR_VECTOR_STATE1;
}

static void use_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    taking *t = user;
    if (!view_has_state(t->view, tensor->orthogonal))
        return;
    for (int64_t done = 0, taken; done < count && t->status == ZERO_OK; done += taken) {
        zr_weight_range range = {.tensor = t->view->by_number[tensor->number]};
        if (t->portion) {
            range.dtype = t->portion->dtype;
            range.data = zr_portion_at(t->portion, first + done);
        }
        taken =
            make_next_range(t->view, tensor, first - tensor->first + done, count - done, &range.at);
        t->status = t->use(t->user, &range, t->error);
    }
}

static zr_span own_shard_of(const zr_model_view *view, const zr_flat_param *flat_param)
{
    return (zr_span){zr_engine_grid(view->engine)->data->rank * flat_param->shard,
                     flat_param->shard};
}

// Calls `use` for the ranges in the span. For loading and comparing, ranges end at the borders of
// the portions of states on NVMe, even if states are elsewhere, so that an outline has the same
// ranges.
static void use_span(taking *t, zr_span span)
{
    const zr_plan *plan = zr_engine_plan(t->view->engine);
    int64_t base = plan->updates_whole && t->flat_param->state_first >= 0
                       ? 0
                       : own_shard_of(t->view, t->flat_param).first;
    if (t->view->purpose == ZR_VIEW_SAVES)
        zr_for_parts(t->flat_param, span, use_part, t);
    for (int s = 0; s < t->flat_param->shard_slice_count && t->view->purpose != ZR_VIEW_SAVES;
         s++) {
        const zr_shard_slice *shard_slice =
            &plan->shard_slices[t->flat_param->shard_slice_first + s];
        int64_t first = ZR_MAX(span.first, base + shard_slice->first),
                end =
                    ZR_MIN(span.first + span.count, base + shard_slice->first + shard_slice->count);
        zr_for_parts(t->flat_param, (zr_span){first, end - first}, use_part, t);
    }
}

static zero_status use_portion(void *user, const zr_portion *portion, zero_error *error)
{
    taking *t = user;
    t->portion = portion;
    t->error = error;
    use_span(t, portion->span);
    return t->status;
}

// Returns whether the view has a tensor of a class. A head of labels is a flat parameter of its
// own.
static bool view_has_tensor(const zr_model_view *view, zero_class kind,
                            const zero_tensor_desc *tensor)
{
    bool trained = !zr_class_is_frozen(kind);
    switch (view->which) {
    case ZR_VIEW_TRAINED: return trained;
    case ZR_VIEW_BASE: return !trained || !strcmp(tensor->name, ZR_SCORE_WEIGHT);
    default: return true;
    }
}

static bool flat_param_has_vector(const zr_model_view *view, int flat_param)
{
    const zr_flat_param *of = &zr_engine_plan(view->engine)->flat_params[flat_param];
    if (!view_has_tensor(view, of->kind, of->tensors[0].desc))
        return false;
    return view->vector == ZR_VECTOR_MASTER || view->filled ||
           zr_engine_has_state(view->engine, flat_param, view->vector);
}

// Returns whether this rank has only an outdated copy of the flat parameter: a tied copy has no
// master weights, and the parameters that units read are one update older than the owner's weights.
static bool is_outdated_copy(const zr_plan *plan, int flat_param)
{
    const zr_flat_param *of = &plan->flat_params[flat_param];
    return zr_plan_parameters_lag(plan) && !of->counted && of->state_first < 0;
}

// Returns whether the view takes the flat parameter. If several ranks hold the same flat parameter,
// one of them saves it.
static bool view_takes_flat_param(const zr_model_view *view, int flat_param)
{
    const zr_plan *plan = zr_engine_plan(view->engine);
    switch (view->purpose) {
    case ZR_VIEW_SAVES:
        return flat_param_has_vector(view, flat_param) && plan->flat_params[flat_param].counted;
    case ZR_VIEW_COMPARES:
        return flat_param_has_vector(view, flat_param) && !is_outdated_copy(plan, flat_param);
    default: return flat_param_has_vector(view, flat_param);
    }
}

// Calls `use` for each range of a part of the view, which is a flat parameter.
static zero_status each_range(void *user, int part, bool changed, zr_range_use use, void *use_user,
                              zero_error *error)
{
    const zr_model_view *view = user;
    taking taking = {.view = view,
                     .flat_param = &zr_engine_plan(view->engine)->flat_params[part],
                     .use = use,
                     .user = use_user};
    if (!view_takes_flat_param(view, part))
        return ZERO_OK;
    zr_vector vector = view->filled && !zr_engine_has_state(view->engine, part, view->vector)
                           ? ZR_VECTOR_MASTER
                           : view->vector;
    zr_portion_use how = changed        ? ZR_PORTIONS_CHANGED
                         : view->beside ? ZR_PORTIONS_SAVED
                                        : ZR_PORTIONS_READ;
    return zr_engine_vector_each(view->engine, part, vector, how, use_portion, &taking, error);
}

static zero_status outline_ranges(void *user, int part, zr_range_use use, void *use_user,
                                  zero_error *error)
{
    const zr_model_view *view = user;
    taking taking = {.view = view,
                     .flat_param = &zr_engine_plan(view->engine)->flat_params[part],
                     .use = use,
                     .user = use_user,
                     .error = error};
    if (view_takes_flat_param(view, part))
        use_span(&taking, own_shard_of(view, taking.flat_param));
    return taking.status;
}

static void add_elements(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    zr_model_view *view = user;
    if (view_has_state(view, tensor->orthogonal))
        view->view.elements += count;
}

// Returns the tensor as files have it: the whole tensor for a tile.
static const zero_tensor_desc *whole_tensor_of(zr_model_view *view, int number,
                                               const zero_tensor_desc *tensor)
{
    zero_tensor_desc *joined = &view->joined[number];
    if (!tensor->tile.whole)
        return tensor;
    *joined = zr_tensor_whole(tensor);
    return joined;
}

static void list_tensor(zr_model_view *view, int number, zero_class kind,
                        const zero_tensor_desc *tensor)
{
    view->by_number[number] = whole_tensor_of(view, number, tensor);
    view->in_codes[view->view.tensor_count] = kind == ZERO_CODES;
    view->listed[view->view.tensor_count++] = view->by_number[number];
}

static void list_flat_param(zr_model_view *view, const zr_flat_param *flat_param)
{
    for (int t = 0; t < flat_param->tensor_count; t++) {
        const zr_plan_tensor *tensor = &flat_param->tensors[t];
        // Once for all tiles of a tensor.
        if (!view->by_number[tensor->number] && view_has_state(view, tensor->orthogonal))
            list_tensor(view, tensor->number, flat_param->kind, tensor->desc);
    }
}

static void list_own_tensors(zr_model_view *view)
{
    const zr_plan *plan = zr_engine_plan(view->engine);
    for (int p = 0; p < plan->flat_param_count; p++)
        if (flat_param_has_vector(view, p))
            list_flat_param(view, &plan->flat_params[p]);
}

static bool is_muons(const zr_model_view *view, const zr_tensor_walk *at)
{
    return zr_engine_plan(view->engine)->settings.orthogonal &&
           zr_is_muon_matrix(at->model, at->unit, at->kind, at->desc);
}

// Lists all tensors of the whole model, also those that are on other ranks only. Their numbers are
// consecutive.
static void list_tensors_of_whole(zr_model_view *view, const zero_model *whole)
{
    for (zr_tensor_walk w = zr_tensors_of(whole); w.desc; zr_tensors_next(&w))
        if (view_has_tensor(view, w.kind, w.desc) &&
            (view->vector == ZR_VECTOR_MASTER || view->filled || w.kind == ZERO_TRAINABLE) &&
            view_has_state(view, is_muons(view, &w)))
            list_tensor(view, w.number, w.kind, w.desc);
}

static void count_elements(zr_model_view *view)
{
    const zr_plan *plan = zr_engine_plan(view->engine);
    for (int p = 0; p < plan->flat_param_count; p++)
        if (view_takes_flat_param(view, p))
            zr_for_parts(&plan->flat_params[p], own_shard_of(view, &plan->flat_params[p]),
                         add_elements, view);
}

zr_view_tensors zr_view_of_checkpoint(const zero_engine *engine)
{
    const zr_lm_config *config = zr_lm_config_of(zr_engine_plan(engine)->model);
    return config && config->lora.rank ? ZR_VIEW_TRAINED : ZR_VIEW_ALL;
}

// Makes the lists of a view whose other fields are set.
static zero_status make_lists(zr_model_view *out, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(out->engine);
    size_t count = (size_t)plan->tensor_count;
    out->listed = zr_alloc(count * sizeof *out->listed, error);
    out->by_number = zr_alloc(count * sizeof *out->by_number, error);
    out->in_codes = zr_alloc(count * sizeof *out->in_codes, error);
    out->joined = zr_alloc(count * sizeof *out->joined, error);
    if (!out->listed || !out->by_number || !out->in_codes || !out->joined) {
        zr_model_view_free(out);
        return ZERO_ERR_MEMORY;
    }
    out->view = (zr_weight_view){.tensors = out->listed,
                                 .in_codes = out->in_codes,
                                 .parts = plan->flat_param_count,
                                 .each = each_range,
                                 .outline = outline_ranges,
                                 .user = out};
    if (plan->model->whole)
        list_tensors_of_whole(out, plan->model->whole);
    else
        list_own_tensors(out);
    count_elements(out);
    return ZERO_OK;
}

zero_status zr_model_view_create(zero_engine *engine, zr_vector vector, zr_view_tensors which,
                                 zr_view_purpose purpose, zr_model_view *out, zero_error *error)
{
    *out = (zr_model_view){.engine = engine, .vector = vector, .which = which, .purpose = purpose};
    return make_lists(out, error);
}

zero_status zr_model_view_of_average(zero_engine *engine, zr_view_tensors which, zr_model_view *out,
                                     zero_error *error)
{
    *out = (zr_model_view){.engine = engine,
                           .vector = ZR_VECTOR_AVERAGE,
                           .which = which,
                           .purpose = ZR_VIEW_SAVES,
                           .filled = true};
    return make_lists(out, error);
}

void zr_model_view_free(zr_model_view *view)
{
    zr_free(view->listed);
    zr_free(view->by_number);
    zr_free(view->in_codes);
    zr_free(view->joined);
    *view = (zr_model_view){0};
}
