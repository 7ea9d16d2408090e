// The stages of a pipeline: which units each has, and the model that this rank holds of them.
#ifndef ZR_SETUP_PIPELINE_STAGES_H
#define ZR_SETUP_PIPELINE_STAGES_H

#include "base/alloc.h"
#include "config/config.h"
#include "plan/pipeline/part.h"
#include "plan/pipeline/simulate.h"

typedef struct zr_pipeline_question { // how the units of a model are divided
    const zero_model *whole;          // by whose units' times, and its first tensor rank's bytes
    const zr_config *config;          // resolved
    zero_shape shape;                 // of a micro-batch, with the threads of a rank
    int64_t memory_limit;             // bytes a rank, the least of all ranks; 0: unknown
} zr_pipeline_question;

// Divides the units, and proves the schedule by a simulation of the units' costs. Pure; every rank
// gets the same answer. The caller frees *out with zr_pipeline_stages_free. Its stage is 0, and it
// is not mapped.
// ZERO_ERR_CONFIG, ZERO_ERR_LIMIT, as zr_pipeline_split_make and zr_pipeline_check.
zero_status zr_pipeline_stages_divide(const zr_pipeline_question *question, zr_pipeline_part **out,
                                      zero_error *error);
void zr_pipeline_stages_free(zr_pipeline_part *part); // NULL is allowed
// Copies a part with its lists, as the caller frees it with zr_pipeline_stages_free.
zero_status zr_pipeline_stages_copy(const zr_pipeline_part *part, zr_pipeline_part **out,
                                    zero_error *error);
// Makes a division that of one stage's ranks. model: what is cut. mapped: as in zr_pipeline_part.
void zr_pipeline_stages_place(zr_pipeline_part *part, const zr_config *config,
                              const zero_model *model, int stage, bool mapped);
// Simulates a step of a division. The caller frees *out with zr_simulation_free.
zero_status zr_pipeline_stages_simulate(const zr_pipeline_part *part, zr_simulation *out,
                                        zero_error *error);
// Makes the model of one stage from a whole model, or from a tensor rank's part of it, which
// outlives it. Free it with zr_pipeline_stage_free. part NULL: there is no pipeline, and shared
// tables become two flat parameters (libzero.exact_pipeline).
zero_status zr_pipeline_stages_cut(const zero_model *model, const zr_pipeline_part *part, int stage,
                                   bool exact, zero_model **out, zero_error *error);
zr_pipeline zr_pipeline_of(const zr_config *config); // what its lists are made for

// The following say in words what a division has made of a model (pipeline_stages_text.c). Check
// out->failed.
//
// Returns a stage's part of what forward and backward of a micro-batch cost.
double zr_pipeline_stages_cost_share(const zr_pipeline_part *part, int stage);
// Returns how often the mean share is in the largest one; 1: all are equal.
double zr_pipeline_stages_imbalance(const zr_pipeline_part *part);
// Writes the units of a stage: "embedding, h.0 to h.3"; its chunks are separated by "; ".
void zr_pipeline_stages_units(const zr_pipeline_part *part, const zero_model *model, int stage,
                              zr_buffer *out);
// Writes "1f1b, 2 pipeline stages, 8 micro-batches in flight: bubble 11%, largest pipeline stage
// 1.04 x the mean"; an asynchronous one says after how many steps it drains, and its bubble is of
// these. bubble: as zr_pipeline_stages_simulate has found it.
void zr_pipeline_stages_heading(const zr_pipeline_part *part, double bubble, zr_buffer *out);
// Appends ", 4 versions of its parameters" where the schedule is asynchronous.
void zr_pipeline_stages_versions(const zr_pipeline_part *part, int stage, zr_buffer *out);
// Writes which units run their backward as one where the schedule has it in two parts; nothing if
// there are none. again: activations are computed again, so no unit's can be in two.
void zr_pipeline_stages_in_one_part(const zr_pipeline_part *part, const zero_model *model,
                                    bool again, zr_buffer *out);

#endif
