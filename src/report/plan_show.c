#include "report/plan_show.h"

#include "base/text.h"
#include "config/config_facts.h"
#include "report/plan_timeline.h"

#include <stdio.h>

enum { TITLE = 1024, MODEL = 512 };

const char *zr_plan_unit_name(const zr_plan *plan, int unit)
{
    return plan->model->units[unit].name;
}

bool zr_plan_shows_pass(const zr_plan *plan, int kind)
{
    bool of_all = kind < ZR_PASS_COUNT && kind != ZR_PASS_TOTAL && kind != ZR_PASS_TIED_WEIGHTS;
    if (plan->pipeline && (kind == ZR_PASS_MICRO_BATCH || kind == ZR_PASS_EVALUATION))
        return false;
    return of_all || plan->program.passes[kind].count > 0;
}

void zr_pass_summary(const zr_pass *pass, zr_buffer *out)
{
    int counts[ZR_CODE_COUNT] = {0};
    const char *separator = "";
    for (int i = 0; i < pass->count; i++)
        counts[pass->at[i].code]++;
    for (int code = 0; code < ZR_CODE_COUNT; code++) {
        if (!counts[code])
            continue;
        zr_buffer_printf(out, "%s%d %s", separator, counts[code], zr_code_names[code]);
        separator = ", ";
    }
    if (!pass->count)
        zr_buffer_printf(out, "nothing");
}

static void write_title(const zr_plan *plan, const char *model, char out[static TITLE])
{
    char plain[MODEL], grid[160] = "";
    const zr_pipeline_part *part = plan->pipeline;
    const zr_job_grid ranks = {.stages = part ? part->pipeline.stages : 1,
                               .data = plan->ranks,
                               .tensor = plan->tensor_ranks};
    zr_plain_text(model, plain, sizeof plain);
    if (part)
        snprintf(grid, sizeof grid, " (%s; this is pipeline stage %d)",
                 zr_grid_in_words(ranks).text, part->stage);
    else if (plan->tensor_ranks > 1)
        snprintf(grid, sizeof grid, " (%s)", zr_grid_in_words(ranks).text);
    snprintf(out, TITLE, "%s: stage %d, %d rank%s%s, micro-batches of %lld x %lld tokens, %s",
             plain, plan->settings.stage, plan->world, plan->world == 1 ? "" : "s", grid,
             (long long)plan->shape.batch, (long long)plan->shape.seq,
             plan->settings.precision.name);
}

static zero_status draw_program(const zr_plan *plan, bool letters, const char *title,
                                zr_buffer *out, zero_error *error)
{
    zr_timeline t = {.title = title};
    zero_status status =
        letters ? zr_plan_letters(plan, &t, error) : zr_plan_timeline(plan, &t, error);
    if (status == ZERO_OK)
        (letters ? zr_timeline_draw_letters : zr_timeline_draw)(&t, out);
    zr_timeline_free(&t);
    return status;
}

zero_status zr_plan_show(const zr_plan *plan, zero_plan_view view, const char *model,
                         zr_buffer *out, zero_error *error)
{
    char title[TITLE];
    write_title(plan, model, title);
    if (view == ZERO_PLAN_DRAWING || view == ZERO_PLAN_LETTERS)
        return draw_program(plan, view == ZERO_PLAN_LETTERS, title, out, error);
    zr_plan_list_program(plan, title, out);
    return ZERO_OK;
}
