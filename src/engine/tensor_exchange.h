// Exchanges with other tensor ranks: inside of layers, for units (struct zr_exchanger of
// model/unit.h), and of activation checkpoints that they divide (zr_execute_join).
#ifndef ZR_ENGINE_TENSOR_EXCHANGE_H
#define ZR_ENGINE_TENSOR_EXCHANGE_H

#include "comm/window.h"
#include "engine/engine_api.h"
#include "model/unit.h"

typedef struct zr_tensor_exchange {
    struct zr_exchanger units; // what units see; all zero on a single tensor rank
    const zero_engine *engine; // whose units exchange
    zr_window *window;         // among all tensor ranks
    zr_window *shared; // among those that share a flat parameter; NULL or zeroed if there is none
    zr_window opened;  // by zr_tensor_exchange_open; else the windows are spaces of the engine
    // The first unit of the pass whose exchanges differ from those that its sizes list; -1 if there
    // is none.
    int differing;
} zr_tensor_exchange;

// Makes a window with `bytes` for the operands of units; makes nothing if the model is not split or
// this rank has all of it. It is for calls of units that the plan does not know (generation). *out
// must not move. Collective over the groups of tensor ranks; the caller records the bytes held, and
// destroys out->opened.
zero_status zr_tensor_exchange_open(zero_engine *engine, int64_t bytes, zr_tensor_exchange *out,
                                    zero_error *error);
// Announces what a unit will exchange, before a call in a shape that the plan does not know. After
// all units were visited, the messages of tensor ranks are compared with what was announced.
void zr_tensor_exchange_expect(zero_engine *engine, const zero_unit_sizes *sizes);
// Returns hashes of what a rank has exchanged with other tensor ranks; zeroes if there are none.
zr_pass_traffic zr_tensor_exchange_so_far(const zero_engine *engine);
// Compares what a call of a unit has exchanged since `before` with the unit's sizes, and records
// the unit if they differ, so that the check at the end of the pass can name it.
void zr_tensor_exchange_note(zero_engine *engine, const zr_instruction *call,
                             const zr_pass_traffic *before);

// Lets units exchange in the engine's spaces, where the model is split.
void zr_tensor_exchange_begin(zero_engine *engine);
// Makes a window with slots for exchanges, in spaces.c. Collective over the ranks of `comm`.
zero_status zr_exchange_window_create(zero_comm *comm, int64_t bytes, zr_window *out,
                                      zero_error *error);

#endif
