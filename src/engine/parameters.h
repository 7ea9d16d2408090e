// The parameters of this rank: its own shards as units read them, and the master weights that
// updates change.
#ifndef ZR_ENGINE_PARAMETERS_H
#define ZR_ENGINE_PARAMETERS_H

#include "engine/engine_api.h"

// Returns the own shard as units read it, of type flat_param->dtype; NULL: it is on NVMe.
void *zr_own_parameters(const zero_engine *engine, int flat_param);
bool zr_flat_param_has_master(const zero_engine *engine, int flat_param);
// Waits, before this rank's part of a flat parameter's states changes, until a guard's owner has
// read it (zr_guard).
zero_status zr_guard_await(zero_engine *engine, int flat_param, zero_error *error);
// Collective: lets other ranks read what this rank's shards hold now. holds: bits of ZR_OVERLAPPED
// and ZR_REWRITTEN. In step.c.
zero_status zr_engine_publish(zero_engine *engine, uint32_t holds, zero_error *error);

#endif
