#include "setup/rank_plan.h"

#include "setup/machine_facts.h"
#include "setup/pipeline_stages.h"

zero_status zr_rank_plan_make(const zr_rank_question *question, zr_rank_plan *out,
                              zero_error *error)
{
    const zr_rank_question *q = question;
    const zr_config *config = q->config;
    zr_machine machine = q->machine;
    *out = (zr_rank_plan){0};
    ZERO_TRY(zr_machine_check(&machine, &q->settings, error));
    if (q->division) {
        out->part = *q->division;
        zr_pipeline_stages_place(&out->part, config, q->model, q->stage, q->mapped);
        machine.pipeline = &out->part;
    }
    if (q->division || config->pipeline.exact)
        ZERO_TRY(zr_pipeline_stages_cut(q->model, q->division, q->stage, config->pipeline.exact,
                                        &out->model, error));
    return zr_plan_create(out->model ? out->model : q->model, &q->shape, &q->settings, &machine,
                          &out->plan, error);
}

void zr_rank_plan_free(zr_rank_plan *plan)
{
    zr_plan_destroy(plan->plan);
    zr_pipeline_stage_free(plan->model);
    *plan = (zr_rank_plan){0};
}
