// What a unit's functions are given: a context, the parameters and gradients that they ask it for,
// and the boundaries that they read and write.
#ifndef ZR_ENGINE_UNIT_CONTEXT_H
#define ZR_ENGINE_UNIT_CONTEXT_H

#include "engine/engine_inner.h"

// Fills engine->context for this unit.
void zr_engine_context(zero_engine *engine, int unit, zero_error *error);
// What unit writes; unit -1: empty.
zero_tensors zr_engine_boundary(const zero_engine *engine, int unit);
// What unit writes when forward runs again: a checkpoint's place has the next one to come, so into
// the gradient that backward then sets.
zero_tensors zr_engine_boundary_again(const zero_engine *engine, int unit);
zero_tensors zr_engine_boundary_gradient(const zero_engine *engine, int unit);
// The boundary that unit writes, where a smaller batch has these shapes.
void zr_engine_place(const zero_engine *engine, int unit, const zero_tensors *shapes,
                     zero_tensors *out);
// What the context asks for parameters, and for gradients.
struct zr_accessor zr_engine_accessor(void);
struct zr_sink zr_engine_sink(void);

#endif
