// How the engine runs a program (contract 8): one instruction after another, each by the function
// for its code. It skips those whose zr_when does not hold.
#ifndef ZR_ENGINE_INTERPRET_H
#define ZR_ENGINE_INTERPRET_H

#include "engine/engine_internal.h"

// Begins a pass. Bit w of `holds` says that zr_when w holds in this pass.
void zr_program_begin(zero_engine *engine, zr_pass_kind kind, uint32_t holds);
// Runs from the current instruction up to instruction `end`, which it does not run.
zero_status zr_program_run_until(zero_engine *engine, int end, zero_error *error);
// Begins a pass and runs all of it.
zero_status zr_program_run_pass(zero_engine *engine, zr_pass_kind kind, uint32_t holds,
                                zero_error *error);

// The functions for the codes (plan/instruction.h says what each does). None of them decides what
// runs next, because the next instruction says that.
typedef zero_status zr_execute(zero_engine *engine, const zr_instruction *i, zero_error *error);

// gather_reduce.c. VERSION: RELEASE and PUBLISH; LINK: RECEIVE, TAKE, SEND and GIVE.
zr_execute zr_execute_gather, zr_execute_reduce, zr_execute_version, zr_execute_link,
    zr_execute_tied_weight;
// transfers.c. TRANSFER: FETCH and STORE.
zr_execute zr_execute_transfer, zr_execute_await;
zr_execute zr_execute_join;    // tensor_exchange.c
zr_execute zr_execute_scalars; // sum_scalars.c
// gradients.c. BIND: BIND and UNBIND.
zr_execute zr_execute_bind, zr_execute_open, zr_execute_round, zr_execute_squares;
zr_execute zr_execute_update; // execute_update.c

// unit_context.c: in a debug build, checks where operands lie.
zero_status zr_operands_bound(zero_engine *engine, zero_error *error); // from now on
void zr_operands_unbound(zero_engine *engine);
// Reserves what a call of the unit may use, or ends that. Its context is set.
void zr_operands_reserve(zero_engine *engine, int unit);
void zr_operands_free(zero_engine *engine);

// unit_context.c: what a unit's functions get: a context, through which they reach parameters and
// gradients, and the boundaries that they read and write.
// Fills engine->view.context for this unit.
void zr_engine_context(zero_engine *engine, int unit, zero_error *error);
// Finds the boundary that a unit reads; empty for the model's first unit.
void zr_engine_input(const zero_engine *engine, int unit, zero_tensors *out);
// Finds the boundary that a unit writes. again: its forward runs again. Then the place of an
// activation checkpoint may already hold the next one to come, so such a unit writes into the
// buffer of the gradient that its backward sets afterwards.
void zr_engine_boundary(const zero_engine *engine, int unit, bool again, zero_tensors *out);
// Finds the gradient of the boundary that a unit reads.
void zr_engine_input_gradient(const zero_engine *engine, int unit, zero_tensors *out);
// Finds the gradient of the boundary that a unit writes.
void zr_engine_boundary_gradient(const zero_engine *engine, int unit, zero_tensors *out);
// Find the place of the boundary that a unit writes, or reads, for a smaller batch of these
// shapes.
void zr_engine_place(const zero_engine *engine, int unit, const zero_tensors *shapes,
                     zero_tensors *out);
void zr_engine_place_input(const zero_engine *engine, int unit, const zero_tensors *shapes,
                           zero_tensors *out);
// interpret.c. Sets the functions that give a context its parameters, and its gradients.
void zr_program_serve_units(zr_view *view);

#endif
