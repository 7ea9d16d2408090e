// What follows from a division of units among pipeline stages, in words.
#include "plan/pipeline/stage_split.h"
#include "setup/pipeline_stages.h"

double zr_pipeline_stages_cost_share(const zr_pipeline_part *part, int stage)
{
    double share = 0;
    for (int c = 0; c < part->pipeline.chunks; c++)
        share += part->share[zr_pipeline_chunk(&part->pipeline, stage, c)];
    return share;
}

double zr_pipeline_stages_imbalance(const zr_pipeline_part *part)
{
    double largest = 0;
    for (int s = 0; s < part->pipeline.stages; s++)
        largest = ZR_MAX(largest, zr_pipeline_stages_cost_share(part, s));
    return largest * part->pipeline.stages;
}

void zr_pipeline_stages_units(const zr_pipeline_part *part, const zero_model *model, int stage,
                              zr_buffer *out)
{
    const zr_pipeline *p = &part->pipeline;
    zr_unit_cost *units = zr_alloc((size_t)model->unit_count * sizeof *units, NULL);
    for (int u = 0; u < model->unit_count && units; u++)
        units[u] = (zr_unit_cost){.name = model->units[u].name, .kind = model->units[u].ops->kind};
    if (units)
        zr_pipeline_stage_list_units(units, part->first_unit, p->stages, p->chunks, stage, out);
    else
        out->failed = true;
    zr_free(units);
}

void zr_pipeline_stages_heading(const zr_pipeline_part *part, double bubble, zr_buffer *out)
{
    const zr_pipeline *p = &part->pipeline;
    zr_buffer_printf(out, "%s", zr_pipeline_kind_name(p->kind));
    if (p->chunks > 1)
        zr_buffer_printf(out, ":%d", p->chunks);
    bool window = zr_pipeline_is_asynchronous(p->kind);
    zr_buffer_printf(out, ", %d pipeline stages, %d micro-batch%s %s", p->stages, p->micro_batches,
                     p->micro_batches == 1 ? "" : "es", window ? "a step" : "in flight");
    if (p->steps > 1)
        zr_buffer_printf(out, ", drained every %d steps", p->steps);
    else if (window)
        zr_buffer_printf(out, ", drained after every step");
    zr_buffer_printf(out, ": bubble %.0f%%%s, largest pipeline stage %.2f x the mean", 100 * bubble,
                     p->steps > 1 ? " of these" : "", zr_pipeline_stages_imbalance(part));
}

void zr_pipeline_stages_versions(const zr_pipeline_part *part, int stage, zr_buffer *out)
{
    int versions = zr_pipeline_versions(&part->pipeline, stage);
    if (zr_pipeline_is_asynchronous(part->pipeline.kind))
        zr_buffer_printf(out, ", %d version%s of its parameters", versions,
                         versions == 1 ? "" : "s");
}

// Says whether the unit's backward runs in one call where the schedule has two.
static bool runs_backward_as_one(const zero_unit *unit, bool again)
{
    return again || !unit->ops->backward_input;
}

void zr_pipeline_stages_in_one_part(const zr_pipeline_part *part, const zero_model *model,
                                    bool again, zr_buffer *out)
{
    int count = 0;
    const char *separator = "", *kind = zr_pipeline_kind_name(part->pipeline.kind);
    if (!zr_pipeline_has_weights(part->pipeline.kind))
        return;
    for (int u = 0; u < model->unit_count; u++)
        count += runs_backward_as_one(&model->units[u], again);
    if (count == 0)
        return;
    if (count == model->unit_count) {
        zr_buffer_printf(out,
                         "backward of all units is in one part%s, which leaves %s no more than "
                         "1f1b",
                         again ? ", because activations are computed again" : "", kind);
        return;
    }
    zr_buffer_printf(out, "backward in one part: ");
    for (int u = 0; u < model->unit_count; u++) {
        if (!runs_backward_as_one(&model->units[u], again))
            continue;
        zr_buffer_printf(out, "%s%s", separator, model->units[u].name);
        separator = ", ";
    }
    zr_buffer_printf(out, "; %s fills its bubble with the weights' part of the others", kind);
}
