// How setup/ creates an engine from the parts that it has prepared.
#ifndef ZR_ENGINE_CREATE_H
#define ZR_ENGINE_CREATE_H

#include "engine/engine_api.h"
#include "engine/rank_grid.h"

typedef struct zr_engine_parts {
    zr_plan *plan;
    // The model that was cut for this rank (zr_lm_cut) and planned; NULL if it is not cut.
    zero_model *part;
    zero_model *stage;          // cut from it (zr_pipeline_stage_cut); NULL without a pipeline
    zr_pipeline_part *pipeline; // the plan refers to it; NULL without a pipeline
    zr_config *config;          // resolved
    zr_queue *queue;
    zr_grid grid; // zr_comm_attach has been called for its world
    uint64_t seed;
    zero_logger logger;
    uint32_t changes; // zr_engine_allowed_changes
    zr_nvme_options nvme;
} zr_engine_parts;

// Collective. Compares the plans of all ranks, reserves what the plan lists, and draws the initial
// weights. The engine owns plan, part, config, queue and the grid's groups from here on and
// detaches from the job's communicator at its end; both hold also when this function fails.
zero_status zr_engine_create(const zr_engine_parts *parts, zero_engine **out, zero_error *error);

typedef struct zr_engine_making { // seconds that creating an engine took
    double sharing;               // reserving the memory that other ranks may reach
    double drawing;               // drawing the initial weights and publishing them
} zr_engine_making;
zr_engine_making zr_engine_making_of(const zero_engine *engine);

// parts_check.c
// Checks that exactly one tensor rank of one pipeline stage counts each element of
// zero_model.whole, and that the ranks that share a flat parameter hold the same tiles in it.
// Collective over the tensor ranks of each data rank, and then over the job, all of whose ranks
// return the same; one message a few thousand tensors. Does nothing where the model is not split.
// ZERO_ERR_USAGE: the parts do not make up the whole; the message says what each rank has of the
// first such tensor.
zero_status zr_parts_check(const zr_grid *grid, const zr_plan *plan, zero_error *error);

#endif
