// The stages of a pipeline: which units each has, and the model that this rank holds of them.
#ifndef ZR_SETUP_STAGES_H
#define ZR_SETUP_STAGES_H

#include "config/config.h"
#include "plan/pipeline_part.h"
#include "plan/simulate.h"

typedef struct zr_stages_question { // how the units of a model are divided
    const zero_model *whole;        // by whose units' costs
    const zr_config *config;        // resolved
    zero_shape shape;               // of a micro-batch, with the threads of a rank
    int64_t memory_limit;           // bytes a rank, the least of all ranks; 0: unknown
} zr_stages_question;

// Divides the units, and proves the schedule by a simulation of the units' costs. Pure; every rank
// gets the same answer. The caller frees *out with zr_stages_free. Its stage is 0, and it is not
// mapped.
// ZERO_ERR_CONFIG, ZERO_ERR_LIMIT, as zr_stage_split_make and zr_pipeline_check.
zero_status zr_stages_divide(const zr_stages_question *question, zr_pipeline_part **out,
                             zero_error *error);
void zr_stages_free(zr_pipeline_part *part); // NULL is allowed
// Simulates a step of a division. The caller frees *out with zr_simulation_free.
zero_status zr_stages_simulate(const zr_pipeline_part *part, zr_simulation *out, zero_error *error);
// Makes the model of one stage from a whole model, or from a tensor rank's part of it, which
// outlives it. Free it with zr_stage_free. part NULL: there is no pipeline, and shared tables
// become two pieces (libzero.exact_pipeline).
zero_status zr_stages_cut(const zero_model *model, const zr_pipeline_part *part, int stage,
                          bool exact, zero_model **out, zero_error *error);
zr_pipeline zr_pipeline_of(const zr_config *config); // what its lists are made for

#endif
