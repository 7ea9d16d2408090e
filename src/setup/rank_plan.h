// The plan of one rank that need not exist: what it holds of the model, and what it does in a step.
// zero plan, estimates and placements make plans here, so that none of them differs from a run.
#ifndef ZR_SETUP_RANK_PLAN_H
#define ZR_SETUP_RANK_PLAN_H

#include "config/config.h"
#include "plan/plan.h"

typedef struct zr_rank_question {
    const zero_model *model;          // the tensor rank's part of it
    const zr_config *config;          // resolved
    zr_settings settings;             // the configuration's, or others to compare with them
    zero_shape shape;                 // of a micro-batch
    zr_machine machine;               // as this rank sees it, without its pipeline
    const zr_pipeline_part *division; // of the units of the whole model; NULL: there is no pipeline
    int stage;                        // of the pipeline
    bool mapped;                      // ranks of different pipeline stages share memory
} zr_rank_question;

typedef struct zr_rank_plan {
    zr_plan *plan;
    zero_model *model;     // of the pipeline stage, which the plan is of; NULL: it is of the part
    zr_pipeline_part part; // likewise, to which the plan points
} zr_rank_plan;

// `out` stays where it is as long as the plan; the caller frees what is in it with
// zr_rank_plan_free, also after an error. Not collective.
// Errors are those of zr_machine_check, zr_pipeline_stages_cut and zr_plan_create.
zero_status zr_rank_plan_make(const zr_rank_question *question, zr_rank_plan *out,
                              zero_error *error);
void zr_rank_plan_free(zr_rank_plan *plan);

#endif
