// What a unit's functions are given: a context, the parameters and gradients for which they ask it,
// and the boundaries that they read and write.
#ifndef ZR_ENGINE_UNIT_CONTEXT_H
#define ZR_ENGINE_UNIT_CONTEXT_H

#include "engine/engine_api.h"

// Fills engine->context for this unit.
void zr_engine_context(zero_engine *engine, int unit, zero_error *error);
// Returns the boundary that a unit reads; empty for the model's first unit.
zero_tensors zr_engine_input(const zero_engine *engine, int unit);
// Returns the boundary that a unit writes.
zero_tensors zr_engine_boundary(const zero_engine *engine, int unit);
// Returns where a unit writes its boundary when its forward runs again. The place of an
// activation checkpoint may already hold the next one to come, so such a unit writes into the
// buffer of the gradient that its backward sets afterwards.
zero_tensors zr_engine_boundary_again(const zero_engine *engine, int unit);
// Returns the gradient of the boundary that a unit reads.
zero_tensors zr_engine_input_gradient(const zero_engine *engine, int unit);
// Returns the gradient of the boundary that a unit writes.
zero_tensors zr_engine_boundary_gradient(const zero_engine *engine, int unit);
// Find the place of the boundary that a unit writes, or reads, where a smaller batch has these
// shapes.
void zr_engine_place(const zero_engine *engine, int unit, const zero_tensors *shapes,
                     zero_tensors *out);
void zr_engine_place_input(const zero_engine *engine, int unit, const zero_tensors *shapes,
                           zero_tensors *out);
// Return the functions that give a context its parameters, and its gradients.
struct zr_accessor zr_engine_accessor(void);
struct zr_sink zr_engine_sink(void);

#endif
