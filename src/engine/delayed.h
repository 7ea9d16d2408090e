// Between the files of engine/: an update that is made beside the step after it (ZeRO-Offload
// section 5.2, one-step delayed parameter update). From its first step N on:
//
//   step N       forward, backward with P(N-1) | no update          P: parameters, U(i): the update
//   step N+1     forward, backward with P(N-1) | publish P(N)       by the gradient of step i
//   beside       U(N) ....................     |
//   step N+2     forward, backward with P(N)   | publish P(N+1)
//   beside       U(N+1) ..................     |
//
// The master is the second slot of the parameters: U(i) changes it while units read P(i-1), and
// publishing rounds it into them. There is one slot of gradients: U(i) walks from the last group to
// the first, as backward does, and a sum of the next step goes into a shard only when its group is
// done. The thread waits for no other rank; all exchange is the rank's own thread's.
#ifndef ZR_ENGINE_DELAYED_H
#define ZR_ENGINE_DELAYED_H

#include "compute/optimizer_ops.h"
#include "engine/engine_inner.h"

typedef struct zr_delayed zr_delayed; // NULL in an engine whose configuration delays nothing

zero_status zr_delayed_create(zero_engine *engine, zero_error *error);
void zr_delayed_destroy(zr_delayed *delayed);       // what is under way has ended first
bool zr_delayed_applies(const zero_engine *engine); // to the step under way

// At the end of a step: begins the update by the gradient of this step.
zero_status zr_delayed_begin(zero_engine *engine, double lr, float gradient_scale,
                             zero_error *error);
bool zr_delayed_under_way(const zero_engine *engine);
// Before a sum goes into the own shard of a piece: the update has done with its group and all after
// it; -1: zr_delayed_join. At once where none is under way.
zero_status zr_delayed_await_group(zero_engine *engine, int group, zero_error *error);
// The update has ended: the master is P(i). At once where none is under way. Not collective.
zero_status zr_delayed_join(zero_engine *engine, zero_error *error);
// Whether the master is an update ahead of the parameters; and who changes that.
bool zr_delayed_is_ahead(const zero_engine *engine);
void zr_delayed_set_ahead(zero_engine *engine, bool ahead);

// By the thread itself.
// until it has ended
zero_status zr_delayed_transfer(zero_engine *engine, zr_transfer *transfer, zero_error *error);
// is done
void zr_delayed_advance(zr_delayed *delayed, int group);
// By the rank's thread: the recorder changes, and the thread beside it has left the old one.
void zr_delayed_record(zero_engine *engine, zr_recorder *recorder);

#endif
