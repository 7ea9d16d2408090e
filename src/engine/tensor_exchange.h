// Exchanges with other tensor ranks: inside of layers, for units (struct zr_exchanger of
// model/unit.h), and of activation checkpoints that they divide (zr_execute_join).
#ifndef ZR_ENGINE_TENSOR_EXCHANGE_H
#define ZR_ENGINE_TENSOR_EXCHANGE_H

#include "comm/window.h"
#include "engine/engine_inner.h"
#include "model/unit.h"

typedef struct zr_tensor_exchange {
    struct zr_exchanger units; // what units see; zeroed: there is nobody to exchange with
    zr_window window;          // among all tensor ranks: plan->exchange_bytes
    zr_window shared;          // among those that share a piece: plan->shared_exchange_bytes
} zr_tensor_exchange;

// Makes the windows that the plan lists, and lets units exchange where the model is split.
// Collective over the groups of tensor ranks.
zero_status zr_tensor_exchange_create(zero_engine *engine, zero_error *error);
// Frees the windows; not collective, and nothing to free is fine.
void zr_tensor_exchange_destroy(zero_engine *engine);

#endif
