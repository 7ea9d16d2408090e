// Instructions that move a slot's data between the store of a tier and a buffer on the device or
// the host (also the sums of micro-batches, to which later ones are added), and the waits for them.
#include "compute/compute.h"
#include "engine/buffers.h"
#include "engine/interpret.h"

#include <string.h>

void zr_offload_record(zr_recorder *recorder, const zr_io_request *request)
{
    const int64_t *bounds = request->extents->bounds;
    zr_activity what = request->write ? ZR_ACTIVITY_disk_write : ZR_ACTIVITY_disk_read;
    zr_recorder_add_overlapped(recorder, what, request->began, request->ended,
                               bounds[request->begin + request->count] - bounds[request->begin]);
}

zero_status zr_offload_await(zero_engine *engine, zr_transfer *transfer, zero_error *error)
{
    if (!transfer->store)
        return ZERO_OK;
    int64_t begin = zr_recorder_begin(engine->recorder);
    zero_status status = zr_transfer_wait(transfer, error);
    zr_recorder_add(engine->recorder, ZR_ACTIVITY_disk_wait, begin, 0, 0, -1);
    zr_offload_record(engine->recorder, &transfer->request);
    return status;
}

// Moves bytes between a device buffer and a store of any tier, and counts them. Stores in memory
// are copied at once; NVMe reads and writes the buffer itself.
static zero_status move_range(zero_engine *engine, zr_store *store, zr_range range, char *buffer,
                              bool out, zr_transfer *transfer, zero_error *error)
{
    if (store->tier != ZERO_TIER_device)
        *(out ? &engine->offload.to_host : &engine->offload.to_device) += range.count;
    if (zr_store_needs_buffer(store))
        return (out ? store->ops->commit : store->ops->fetch)(store, range, buffer, transfer,
                                                              error);
    char *kept = zr_store_at(store, range.first);
    if (!out && engine->offload.overwrite)
        memset(buffer, 0xff, (size_t)range.count);
    zr_run(engine->queue,
           zr_op_copy(&(zr_bytes){range.count}, out ? buffer : kept, out ? kept : buffer));
    return ZERO_OK;
}

static zr_transfer *transfer_of_sum(zero_engine *engine, int flat_param, int sum)
{
    return &engine->offload.gradients[flat_param * zr_accumulators(&engine->plan->settings) + sum];
}

// Begins to fetch the sums of earlier micro-batches to which this one's is added, one after
// another.
static zero_status fetch_sums(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, i->flat_param, ZR_VECTOR_GRADIENT);
    const zr_sum_slots place = zr_grads_sum_slots(engine);
    char *to = zr_buffer_at(engine, i->place);
    for (int sum = 0; sum < place.adds; sum++, to += i->bytes) {
        const zr_range range = zr_accumulator_range(engine, i->flat_param, place.slot + sum);
        ZERO_TRY(store->ops->fetch(store, range, to, transfer_of_sum(engine, i->flat_param, sum),
                                   error));
    }
    return ZERO_OK;
}

static zero_status store_sum(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, i->flat_param, ZR_VECTOR_GRADIENT);
    const zr_range range =
        zr_accumulator_range(engine, i->flat_param, zr_grads_sum_slots(engine).slot);
    char *sum = zr_buffer_at(engine, i->from);
    return store->ops->commit(store, range, sum, transfer_of_sum(engine, i->flat_param, 0), error);
}

zero_status zr_transfers_await_sums(zero_engine *engine, int flat_param, zero_error *error)
{
    for (int sum = 0; sum < zr_accumulators(&engine->plan->settings); sum++)
        ZERO_TRY(zr_offload_await(engine, transfer_of_sum(engine, flat_param, sum), error));
    return ZERO_OK;
}

// Returns the chunk whose pass runs.
static const zr_chunk_plan *chunk_running(const zero_engine *engine)
{
    return &engine->plan->chunks[engine->chunk];
}

static zero_status move_slot(zero_engine *engine, zr_slot slot, zr_range range, char *buffer,
                             bool out, zero_error *error)
{
    zr_offload *offload = &engine->offload;
    bool parked = slot.kind == ZR_SLOT_PARKED;
    if (!parked)
        range.first += engine->set * chunk_running(engine)->stored_bytes;
    zr_store *store = parked ? &offload->parked : &offload->activation_checkpoints;
    zr_transfer *transfer =
        parked ? &offload->parking[slot.index] : &offload->activation_checkpoint[slot.index];
    return move_range(engine, store, range, buffer, out, transfer, error);
}

static zero_status fetch_parameters(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, i->flat_param, ZR_VECTOR_PARAMETERS);
    const zr_range range = {i->from.first, i->bytes};
    zr_transfer *transfer = &engine->offload.parameters[i->slot.index];
    return store->ops->fetch(store, range, zr_buffer_at(engine, i->place), transfer, error);
}

zero_status zr_execute_fetch(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_range range = {i->from.first, i->bytes};
    switch (i->slot.kind) {
    case ZR_SLOT_FETCHED: return fetch_parameters(engine, i, error);
    case ZR_SLOT_TRAVELLED: return fetch_sums(engine, i, error);
    default: return move_slot(engine, i->slot, range, zr_buffer_at(engine, i->place), false, error);
    }
}

zero_status zr_execute_store(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_range range = {i->place.first, i->bytes};
    if (i->slot.kind == ZR_SLOT_TRAVELLED)
        return store_sum(engine, i, error);
    return move_slot(engine, i->slot, range, zr_buffer_at(engine, i->from), true, error);
}
