// Optimizer states in 8 bits between steps: checkpoints read and write them as fp32 numbers, with
// which a training continues bit for bit (base/state_codes.h).
#ifndef ZR_ENGINE_CODED_STATES_H
#define ZR_ENGINE_CODED_STATES_H

#include "engine/engine_internal.h"

// Says whether a vector is one of codes.
bool zr_is_coded(const zero_engine *engine, zr_vector vector);
// Calls `take` for the own shard of such a vector, in portions of fp32 numbers, and narrows what it
// leaves there if `changed`. Between steps; not collective.
zero_status zr_coded_states_each(zero_engine *engine, int flat_param, zr_vector vector,
                                 bool changed, const zr_portion_taker *taker, zero_error *error);

#endif
