// One function for each code of the program (plan/instruction.h says what each does). None of them
// decides what to do next, because the next instruction says that.
#ifndef ZR_ENGINE_EXECUTE_H
#define ZR_ENGINE_EXECUTE_H

#include "engine/engine_internal.h"

typedef zero_status (*zr_execute)(zero_engine *engine, const zr_instruction *i, zero_error *error);

// exchange.c
zero_status zr_execute_gather(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_reduce(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_release(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_publish(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_await(zero_engine *engine, const zr_instruction *i, zero_error *error);

// pipeline_links.c
zero_status zr_execute_receive(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_take(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_send(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_give(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_tied_weight(zero_engine *engine, const zr_instruction *i, zero_error *error);

// transfers.c
zero_status zr_execute_fetch(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_store(zero_engine *engine, const zr_instruction *i, zero_error *error);

// tensor_exchange.c
zero_status zr_execute_join(zero_engine *engine, const zr_instruction *i, zero_error *error);

// gradients.c
zero_status zr_execute_bind(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_unbind(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_open(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_round(zero_engine *engine, const zr_instruction *i, zero_error *error);
zero_status zr_execute_squares(zero_engine *engine, const zr_instruction *i, zero_error *error);

// sum_scalars.c
zero_status zr_execute_scalars(zero_engine *engine, const zr_instruction *i, zero_error *error);

// interpret.c
zero_status zr_execute_call(zero_engine *engine, const zr_instruction *i, zero_error *error);

// update.c
zero_status zr_execute_update(zero_engine *engine, const zr_instruction *i, zero_error *error);

#endif
