// A run while it is set up: from a resolved configuration and a model to the plan of each of its
// ranks.
//
//   zr_run_setup_part     the part of the model that a tensor rank computes
//   zr_run_setup_divide   which units each stage of a pipeline has
//   zr_run_setup_plan     the model, the machine and the plan of one rank
//
// This is the only place where a plan is assembled. An estimate (estimate.h) does it for ranks that
// need not exist; zr_engine_make does it for the rank of this process, and hands what was found to
// the engine. Not collective.
#ifndef ZR_SETUP_RUN_SETUP_H
#define ZR_SETUP_RUN_SETUP_H

#include "config/config.h"
#include "plan/pipeline/part.h"
#include "plan/plan.h"
#include "setup/model_part.h"

typedef struct zr_run_setup {
    // What the caller fills in. All of it outlives the setup.
    const zr_config *config; // resolved
    const zero_model *model; // the whole one; a program's own may be a tensor rank's part
    const char *name;        // of the model, for messages
    zero_shape shape;        // of a micro-batch: zr_run_shape
    bool inference;
    // What the functions below find.
    zr_model_part part;
    zr_pipeline_part *division; // of the units of the whole model; NULL: there is no pipeline
} zr_run_setup;

// Returns the shape of a micro-batch of `batch` samples (0: the configuration's) of `seq` tokens.
zero_shape zr_run_shape(const zr_config *config, int64_t batch, int64_t seq, int threads);
// Returns what a plan reads of a resolved configuration.
zr_settings zr_settings_of(const zr_config *config, bool inference);

// Makes the part of a tensor rank. Errors are those of zr_model_part_make.
zero_status zr_run_setup_part(zr_run_setup *run, int tensor_rank, zero_error *error);
// Divides the units among the stages of the pipeline, if there is one, so that each rank needs at
// most `memory_limit` bytes (0: unknown). Needs the part. Every rank finds the same division if
// the limit is the same. Errors are those of zr_pipeline_stages_divide.
zero_status zr_run_setup_divide(zr_run_setup *run, int64_t memory_limit, zero_error *error);
// Frees what was found. Plans of ranks use the part, and have copies of the division.
void zr_run_setup_free(zr_run_setup *run);

typedef struct zr_rank_question { // one rank, which need not exist
    int stage;                    // of the pipeline
    const zr_model_part *part;    // its tensor rank's; NULL: that of the setup
    bool mapped;                  // ranks of different pipeline stages share memory
    zr_machine machine;           // as this rank sees it; its pipeline is filled in
} zr_rank_question;

typedef struct zr_rank_plan {
    zr_machine machine;         // the question's, with the pipeline
    zr_pipeline_part *pipeline; // of this rank; the plan points to it. NULL: there is none
    zero_model *model;          // cut from the part for the stage; NULL: the part itself is planned
    zr_plan *plan;
} zr_rank_plan;

// Makes the plan of a rank, for which the run has been divided. The caller frees the contents of
// *out with zr_rank_plan_free, also after an error. Errors are those of zr_machine_check,
// zr_pipeline_stages_cut and zr_plan_create. A plan that does not fit is a result.
zero_status zr_run_setup_plan(const zr_run_setup *run, const zr_rank_question *question,
                              zr_rank_plan *out, zero_error *error);
void zr_rank_plan_free(zr_rank_plan *plan); // A zeroed one is allowed.

#endif
