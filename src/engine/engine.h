// The engine's inside: what step.c executes and the stages' tables fill in. Public functions: include/zero/engine.h.
#ifndef ZR_ENGINE_ENGINE_H
#define ZR_ENGINE_ENGINE_H

#include "comm/comm.h"
#include "compute/compute.h"
#include "config/config.h"
#include "memory/store.h"
#include "plan/plan.h"

// Beside the public functions, for api/ (checkpoint, train):
const zr_plan *zr_engine_plan(const zero_engine *engine);
zero_comm *zr_engine_comm(const zero_engine *engine);
zr_queue *zr_engine_queue(const zero_engine *engine);
const zr_config *zr_engine_config(const zero_engine *engine);
// The fp32 parameters of this rank's shard of a piece: (shard) elements. After writing them: zr_engine_parameters_changed.
float *zr_engine_parameter_shard(zero_engine *engine, int piece);
// ZERO_ERR_USAGE from zero_forward until zero_step: what a step under way needs must not change. Not collective.
zero_status zr_engine_between_steps(const zero_engine *engine, const char *call, zero_error *error);
// Collective: brings replicas and readers to what the shards hold now.
zero_status zr_engine_parameters_changed(zero_engine *engine, zero_error *error);
// The parts of a piece's elements [span) that lie in one tensor each: [first, first+count) of the piece.
typedef struct zr_span { int64_t first, count; } zr_span;
typedef void (*zr_part_visit)(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count);
void zr_for_parts(const zr_piece *piece, zr_span span, zr_part_visit visit, void *user);
// Name of the first tensor with a non-finite parameter or gradient, NULL if all are finite. Collective.
zero_status zr_engine_find_nonfinite(zero_engine *engine, char *name, size_t size, zero_error *error);

// Runs `visit` unit by unit with that unit's parameters acquired, forward order: decoding and other inference.
typedef zero_status (*zr_unit_visit)(void *user, zero_context *context, zero_error *error);
zero_status zr_engine_visit_units(zero_engine *engine, zr_unit_visit visit, void *user, zero_error *error);

#endif
