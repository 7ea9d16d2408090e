// Models whose head borrows nothing, cut into pipeline stages, and the plans of all stages.
#ifndef TEST_PLAN_PIPELINE_FIXTURE_H
#define TEST_PLAN_PIPELINE_FIXTURE_H

#include "fixture.h"
#include "program_checks.h"

enum { PIPELINE_MOST_STAGES = 64, PIPELINE_MOST_CHUNKS = 128 };

typedef struct pipeline_style { // of a model
    bool streamed; // the embedding and the blocks' weights are streamed flat parameters
    bool splits;   // a block's backward can be made in two parts, the second of which reads weights
    bool keeps;    // no, it computes from what the first one holds
    bool apart;    // the last unit has forward and backward, not both in one call
    bool divided;  // it is the part of a tensor rank, which has all of every tensor
} pipeline_style;

// A model like the fixture's. Each unit's boundary has 64 bytes more than the one that enters it,
// and what a unit saves and holds grows with it, so that no two places are alike.
typedef struct pipeline_model {
    fixture f, whole;
    zero_unit_ops first, block, last;
} pipeline_model;

typedef struct pipeline_plans { // of all pipeline stages, for one data rank and one tensor rank
    int count;                  // pipeline stages
    zr_pipeline_part parts[PIPELINE_MOST_STAGES];
    zero_model *models[PIPELINE_MOST_STAGES];
    zr_plan *plans[PIPELINE_MOST_STAGES];
    int first_unit[PIPELINE_MOST_CHUNKS + 1];
    double share[PIPELINE_MOST_CHUNKS];
} pipeline_plans;

typedef void (*pipeline_check)(const pipeline_plans *stages);

void pipeline_build(pipeline_model *model, int blocks, pipeline_style style);
int64_t pipeline_boundary_bytes(int unit); // of the whole model: what the unit writes
int64_t pipeline_saved_bytes(int unit);    // what it saves, aligned
int64_t pipeline_held_bytes(int unit);     // what it holds if its backward is split, aligned
zr_pipeline pipeline_of(zr_pipeline_kind kind, int stages, int chunks, int micro_batches);

// Plans all pipeline stages of a model, whose units are divided evenly among the chunks. `machine`
// has everything but the pipeline; stages share memory where data ranks do. Free with
// pipeline_plans_free; *out stays where it is.
void pipeline_plans_make(const zero_model *model, const zr_pipeline *pipeline,
                         const zr_settings *settings, const zr_machine *machine,
                         pipeline_plans *out);
void pipeline_plans_free(pipeline_plans *plans);
// Plans a model of 9 blocks without splits in fp32, stage 2, 2 data ranks that map.
void pipeline_plans_simple(const zr_pipeline *pipeline, pipeline_plans *out);

// Calls `check` for the plans of every schedule with 2 to 4 pipeline stages and 1 to 8
// micro-batches, over stages, tiers, types, activation checkpoints, styles and numbers of data
// ranks, mapped and not.
void pipeline_for_all(pipeline_check check);
// The same for the plan of each pipeline stage.
void pipeline_for_each(program_check check);

#endif
