// Which units each pipeline stage has: chunks of neighbouring units, in the order of the model.
// Chunk c of stage s is chunk c p + s of the model (plan/pipeline/schedules.h). Pure.
#ifndef ZR_PLAN_PIPELINE_STAGE_SPLIT_H
#define ZR_PLAN_PIPELINE_STAGE_SPLIT_H

#include "base/alloc.h"
#include "config/pipeline_spec.h"
#include "plan/pipeline/stage_divide.h"

typedef struct zr_pipeline_stage_load { // of one pipeline stage
    double time;                        // of its chunks together, as zr_unit_cost.time
    double share;                       // of the time of all stages
    int64_t bytes;                      // of a rank, estimated from the units' costs
} zr_pipeline_stage_load;

typedef struct zr_pipeline_split {
    int stages, chunks; // chunks of each stage
    int *first;         // (stages * chunks + 1) first unit of each chunk, then the number of units
    zr_pipeline_stage_load *stage; // (stages)
    double imbalance;              // the largest stage's time, as a multiple of the mean
} zr_pipeline_split;

// Divides the units as the specification says: by hand, or by its method. No unit is lost or
// doubled, and every chunk has one. `of` has the specification's stages and chunks. The caller
// frees *out with zr_pipeline_split_free.
//   best        the least largest stage within the memory limit (plan/pipeline/stage_divide.h)
//   uniform, parameters, type   as DeepSpeed's PipelineModule. These, and a split by hand, are not
//               measured against the memory limit: the plan of each stage tells if it does not fit.
// ZERO_ERR_CONFIG: more chunks than units; a split that does not ascend from 0 or has another
// number of chunks; a regular expression that is malformed or matches no unit. ZERO_ERR_LIMIT: no
// division fits the memory limit; the message has the stage that needs most, and what would fit.
zero_status zr_pipeline_split_make(const zr_pipeline_spec *spec, const zr_division_of_units *of,
                                   zr_pipeline_split *out, zero_error *error);
void zr_pipeline_split_free(zr_pipeline_split *split);
// Appends the units of a pipeline stage, chunk by chunk, "embedding, h.0 to h.3; h.8 to h.11". Of
// `units` only name and kind are read; first: as in zr_pipeline_split.
void zr_pipeline_stage_list_units(const zr_unit_cost *units, const int *first, int stages,
                                  int chunks, int stage, zr_buffer *out);

#endif
