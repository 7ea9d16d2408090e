// Numbers of tensors over the whole model, by which norms of tensors are added up and files list
// them. A part of a model (zero_model.whole) has the whole's tensors or tiles of them, and the
// whole's numbers, so that all ranks of a job mean the same tensor by a number. A pipeline stage
// has those of its units and of its tied copies.
#include "model/pipeline_stage_cut.h"
#include "model/unit.h"
#include "plan/plan_parts.h"

#include <string.h>

// Numbers tensors as they come. Tiles of one tensor share a number, and follow each other flat
// parameter by flat parameter.
static void number_in_order(zr_plan *plan)
{
    const zr_plan_tensor *last = NULL; // of the flat parameter before
    for (int p = 0; p < plan->flat_param_count; p++) {
        zr_flat_param *flat_param = &plan->flat_params[p];
        for (int t = 0; t < flat_param->tensor_count; t++) {
            zr_plan_tensor *tensor = &flat_param->tensors[t];
            bool continues = zr_tensor_continues(last ? last->desc : NULL, tensor->desc);
            tensor->number = continues ? last->number : plan->tensor_count++;
            tensor->orthogonal =
                plan->settings.orthogonal && zr_is_muon_matrix(plan->model, flat_param->ref.unit,
                                                               flat_param->kind, tensor->desc);
        }
        last = &flat_param->tensors[flat_param->tensor_count - 1];
    }
}

typedef struct numbering {
    zr_plan *plan;
    const zero_model *whole;
    int *first; // (whole->unit_count) number of each unit's first tensor
    bool *held; // (tensor_count) the model has the tensor or a tile of it
} numbering;

// Returns the whole's unit of that name, which is most often number `likely`; -1: there is none.
static int find_unit_by_name(const zero_model *whole, const char *name, int likely)
{
    if (likely < whole->unit_count && strcmp(whole->units[likely].name, name) == 0)
        return likely;
    for (int u = 0; u < whole->unit_count; u++)
        if (strcmp(whole->units[u].name, name) == 0)
            return u;
    return -1;
}

// Both may be tiles.
static bool has_shape_of(const zero_tensor_desc *part, const zero_tensor_desc *whole)
{
    const zero_tensor_desc a = zr_tensor_whole(part), b = zr_tensor_whole(whole);
    bool same = a.dims == b.dims;
    for (int d = 0; same && d < a.dims; d++)
        same = a.shape[d] == b.shape[d];
    return same;
}

// Finds the tensor of the whole unit that `desc` is a part of, and its number among the unit's; its
// desc is NULL if there is none.
static zr_tensor_walk find_in_unit(const zero_model *whole, int unit, const zero_tensor_desc *desc)
{
    zr_tensor_walk walk = zr_tensors_of_unit(whole, unit);
    while (walk.desc && strcmp(zr_tensor_name(walk.desc), zr_tensor_name(desc)) != 0)
        zr_tensors_next(&walk);
    return walk;
}

// Returns the number, in the model that was cut, of the unit that owns a flat parameter.
static int owner_unit_of(const zero_model *model, zero_flat_param_ref ref)
{
    const zr_tied_copy *tied_copy = zr_pipeline_stage_tied_copy_at(model, ref);
    return tied_copy ? tied_copy->owner.unit : zr_pipeline_stage_unit(model, ref.unit);
}

static zero_status number_tensor(numbering *n, const zr_flat_param *flat_param,
                                 zr_plan_tensor *tensor, zero_error *error)
{
    const zero_model *model = n->plan->model;
    int owner = owner_unit_of(model, flat_param->ref);
    const zero_unit *unit = &zr_pipeline_stage_origin(model)->units[owner];
    int u = find_unit_by_name(n->whole, unit->name, owner);
    zr_tensor_walk at = {0};
    if (u >= 0)
        at = find_in_unit(n->whole, u, tensor->desc);
    if (!at.desc)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "planning %s: tensor \"%s\" of unit \"%s\" is no part of the whole model %s",
                       n->plan->model->name, tensor->desc->name, unit->name, n->whole->name);
    if (at.kind != flat_param->kind || !has_shape_of(tensor->desc, at.desc))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "planning %s: tensor \"%s\" has another shape or class than \"%s\" of the "
                       "whole model %s",
                       n->plan->model->name, tensor->desc->name, zr_tensor_name(at.desc),
                       n->whole->name);
    tensor->number = n->first[u] + at.number;
    tensor->orthogonal = n->plan->settings.orthogonal &&
                         zr_is_muon_matrix(n->whole, u, flat_param->kind, tensor->desc);
    n->held[tensor->number] = true;
    return ZERO_OK;
}

// Marks as held what other pipeline stages have to hold.
static void mark_tensors_of_other_stages(numbering *n)
{
    const zero_model *model = n->plan->model, *origin = zr_pipeline_stage_origin(model);
    for (int g = 0, next = 0; g < origin->unit_count && model->stage; g++) {
        if (next < model->unit_count && zr_pipeline_stage_unit(model, next) == g) {
            next++;
            continue;
        }
        int u = find_unit_by_name(n->whole, origin->units[g].name, g);
        zr_tensor_walk at = {0};
        if (u >= 0)
            at = zr_tensors_of_unit(n->whole, u);
        for (; at.desc; zr_tensors_next(&at))
            n->held[n->first[u] + at.number] = true;
    }
}

static zero_status number_all_tensors(numbering *n, zero_error *error)
{
    zr_plan *plan = n->plan;
    for (int p = 0; p < plan->flat_param_count; p++)
        for (int t = 0; t < plan->flat_params[p].tensor_count; t++)
            ZERO_TRY(
                number_tensor(n, &plan->flat_params[p], &plan->flat_params[p].tensors[t], error));
    mark_tensors_of_other_stages(n);
    for (int i = 0; i < plan->tensor_count; i++)
        if (!n->held[i])
            return zr_fail(error, ZERO_ERR_USAGE,
                           "planning %s: it has neither tensor \"%s\" of the whole model %s nor a "
                           "tile of it (a tile may be empty)",
                           plan->model->name, zr_tensor_name(zr_model_tensor(n->whole, i)),
                           n->whole->name);
    return ZERO_OK;
}

static zero_status number_by_whole_model(zr_plan *plan, zero_error *error)
{
    const zero_model *whole = plan->model->whole;
    numbering n = {.plan = plan, .whole = whole};
    n.first = zr_alloc(sizeof *n.first * (size_t)whole->unit_count, error);
    for (int u = 0; u < whole->unit_count && n.first; u++) {
        n.first[u] = plan->tensor_count;
        plan->tensor_count += zr_tensors_count(zr_tensors_of_unit(whole, u));
    }
    n.held = zr_alloc(sizeof *n.held * (size_t)ZR_MAX(plan->tensor_count, 1), error);
    zero_status status = n.first && n.held ? number_all_tensors(&n, error) : ZERO_ERR_MEMORY;
    zr_free(n.first);
    zr_free(n.held);
    return status;
}

zero_status zr_plan_tensor_numbers(zr_plan *plan, zero_error *error)
{
    if (plan->model->whole)
        return number_by_whole_model(plan, error);
    number_in_order(plan);
    return ZERO_OK;
}
