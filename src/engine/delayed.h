// A delayed update, which overlaps the step after it (ZeRO-Offload section 5.2, one-step delayed
// parameter update). From its first step N on:
//
//   step N       forward, backward with P(N-1) | no update          P: parameters, U(i): the update
//   step N+1     forward, backward with P(N-1) | publish P(N)       by the gradient of step i
//   meanwhile    U(N) ....................     |
//   step N+2     forward, backward with P(N)   | publish P(N+1)
//   meanwhile    U(N+1) ..................     |
//
// The master is a second copy of the parameters: U(i) changes the master while units read P(i-1),
// and publishing rounds it into the parameters. There is only one copy of the gradients: U(i) walks
// from the last group to the first, as backward does, and a sum of the next step goes into a shard
// only when U(i) is done with the shard's group. The thread that updates waits for no other rank,
// because the rank's own thread makes all exchanges.
#ifndef ZR_ENGINE_DELAYED_H
#define ZR_ENGINE_DELAYED_H

#include "compute/compute.h"
#include "engine/engine_api.h"

typedef struct zr_delayed zr_delayed; // NULL if the configuration does not delay updates

zero_status zr_delayed_create(zero_engine *engine, zero_error *error);
void zr_delayed_destroy(zr_delayed *delayed);       // waits for an update that is under way
bool zr_delayed_applies(const zero_engine *engine); // whether the current step's update is delayed

// At the end of a step: begins the update by the gradient of this step.
zero_status zr_delayed_begin(zero_engine *engine, double lr, float gradient_scale,
                             zero_error *error);
// Called before a sum goes into the own shard of a flat parameter: waits until the update is done
// with that shard's group and all groups after it; for group -1, until it has ended. Returns at
// once if no update is under way.
zero_status zr_delayed_await_group(zero_engine *engine, int group, zero_error *error);
// Waits until the update has ended: then the master is P(i). Returns at once if no update is under
// way. Not collective.
zero_status zr_delayed_join(zero_engine *engine, zero_error *error);
// Called by the rank's thread: changes the recorder. When it returns, the update's thread no longer
// uses the old one.
void zr_delayed_record(zero_engine *engine, zr_recorder *recorder);

#endif
