// Tied weights: flat parameters that units of several chunks share (a table that embedding and head
// use). One of them owns the flat parameter; each other chunk's unit has a tied copy of it
// (model/pipeline_stage_cut.h): parameters and accumulated gradients, but no optimizer states.
// Owner and tied copies have one partition, so data rank r exchanges its shard with data rank r
// alone, twice a step:
//
//   boundary   tied copy's sum ─> owner, which adds it to its own, in the order of the tied weights
//   publish    owner's parameters ─> tied copy
//
// Where both are on one rank nothing is sent.
//
// Under pipedream stages are at different steps, so a tied copy takes its owner's parameters later:
// a pass of its own (tied weights) takes what one update of the owner has made. After its own
// update of step t, a stage has what the owner had before it computed the forward that this stage
// computes next: so both compute that micro-batch (with one in a step, every one) with the same
// table, and what is taken has come before. With several tied weights, the one whose stages are
// farthest apart decides when all are taken.
#ifndef ZR_PLAN_PIPELINE_TIED_WEIGHTS_H
#define ZR_PLAN_PIPELINE_TIED_WEIGHTS_H

#include "plan/emit.h"

// Lists the tied weights of the model. plan/ calls it before flat parameters are placed, because
// tied flat parameters stay in memory and do not go to NVMe.
zero_status zr_plan_tied_weights_list(zr_plan *plan, zero_error *error);
// Says whether a flat parameter is a tied copy, or has one.
bool zr_flat_param_is_tied(const zr_plan *plan, const zr_flat_param *flat_param);
// Finds the own flat parameters of the tied weights, and fills in their links, which begin at
// plan->links[first]. Returns the number of all links with them. What is on one rank, or is empty,
// has none.
int zr_plan_tied_weights_link(zr_plan *plan, int first);

// Says whether tied copies take parameters in a pass of their own (zr_flat_param.late): under
// pipedream.
bool zr_plan_tied_weights_are_late(const zr_plan *plan);
// Returns how many of the owners' updates of a window tied copies have after the update of `step`.
int64_t zr_plan_tied_weights_taken(const zr_plan *plan, int64_t step);

// Emit what the passes do, between the exchanges of their own stage.
void zr_emit_tied_weights_sum(zr_emitter *e);
void zr_emit_tied_weights_publish(zr_emitter *e);
void zr_emit_tied_weights(zr_emitter *e); // the pass in which late tied copies take parameters

#endif
