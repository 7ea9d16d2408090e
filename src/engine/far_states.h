// Optimizer states that lie off a far device (memory/device.h; ZeRO-Offload section 4). A queue of
// the host's updates them, and two vectors reach both sides:
//
//   gradient     the device sums it up in pinned memory; the host reads it there once it has waited
//                for the norm
//   parameters   made by the host in a staging buffer (or, where they lie on the host, in place),
//                copied from there by the device's queue
//
// On the CPU's device nothing crosses, and one queue does all.
#ifndef ZR_ENGINE_FAR_STATES_H
#define ZR_ENGINE_FAR_STATES_H

#include "engine/engine_api.h"
#include "plan/groups.h"

// Opens the host's queue where states or parameters lie off a far device. Close it with
// zr_far_states_close.
zero_status zr_far_states_open(zero_engine *engine, zero_error *error);
void zr_far_states_close(zero_engine *engine);
// Records what the engine's queues run, until it is called with NULL.
zero_status zr_queues_record(zero_engine *engine, zr_recorder *recorder, zero_error *error);

// Returns the queue of this thread that reaches memory of a tier.
zr_queue *zr_tier_queue(const zero_engine *engine, zero_tier tier);
// Before the host's queue, or NVMe, reads or writes what the device's queue has been given: waits
// for it. Nothing waits where no states lie off the device, or nothing is far.
zero_status zr_far_states_settle(zero_engine *engine, zero_error *error);

// Begins to copy the parameters of a group to a staging buffer, or back; and waits until what was
// begun with a staging buffer has ended.
void zr_parameters_move(zero_engine *engine, int group, int staging_buffer, bool up);
zero_status zr_parameters_await(zero_engine *engine, int staging_buffer, zero_error *error);
// Copies parameters that the host has made to the device, and waits.
zero_status zr_parameters_put(zero_engine *engine, const char *from, char *to, int64_t bytes,
                              zero_error *error);
// Returns where the parameters of a shard slice lie, on whatever tier of memory.
char *zr_slice_parameters(const zero_engine *engine, const zr_shard_slice *slice);

#endif
