// Slots of operations that are under way; instructions that move a slot's data between the store of
// a tier and a buffer on the device or the host (also the sums of micro-batches, to which later
// ones are added); and AWAIT: one look-up and one call of the wait of the slot's kind.
#include "base/alloc.h"
#include "engine/far_states.h"
#include "engine/interpret.h"
#include "plan/accumulators.h"

// Returns the number of operations that one slot has. Some kinds do not use theirs: windows, or the
// update's thread, know how far they are.
static int pending_of_slot(const zr_plan *plan, zr_slot_kind kind)
{
    return kind == ZR_SLOT_TRAVELLED ? zr_accumulators(&plan->settings) : 1;
}

zero_status zr_slots_reserve(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    int first[ZR_SLOT_KIND_COUNT], count = 0;
    for (zr_slot_kind kind = 0; kind < ZR_SLOT_KIND_COUNT; kind++) {
        first[kind] = count;
        count += plan->slots[kind] * pending_of_slot(plan, kind);
    }
    engine->pending = zr_alloc((size_t)count * sizeof *engine->pending, error);
    if (!engine->pending)
        return ZERO_ERR_MEMORY;
    for (zr_slot_kind kind = 0; kind < ZR_SLOT_KIND_COUNT; kind++)
        engine->slots[kind] = engine->pending + first[kind];
    return ZERO_OK;
}

// Returns the operations of the instruction's slot.
static zr_pending *pending_of(const zero_engine *engine, const zr_instruction *i)
{
    int each = pending_of_slot(engine->plan, i->slot.kind);
    return &engine->slots[i->slot.kind][i->slot.index * each];
}

// Begins to store the sum of this micro-batch, or to fetch those of earlier ones to which it is
// added, one after another.
static zero_status move_sums(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, i->flat_param, ZR_VECTOR_GRADIENT);
    const zr_sum_slots place = zr_grads_sum_slots(engine);
    bool out = i->code == ZR_STORE;
    char *at = zr_buffer_at(engine, out ? i->from : i->place);
    ZERO_TRY(zr_far_states_settle(engine, error));
    for (int sum = 0; sum < (out ? 1 : place.adds); sum++, at += i->bytes)
        ZERO_TRY((out ? store->ops->commit : store->ops->fetch)(
            store, zr_accumulator_range(engine, i->flat_param, place.slot + sum), at,
            &pending_of(engine, i)[sum].transfer, error));
    return ZERO_OK;
}

static zero_status fetch_parameters(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, i->flat_param, ZR_VECTOR_PARAMETERS);
    const zr_range range = {i->from.first, i->bytes};
    ZERO_TRY(zr_far_states_settle(engine, error));
    return store->ops->fetch(store, range, zr_buffer_at(engine, i->place),
                             &pending_of(engine, i)->transfer, error);
}

// Begins to move a range of a store on NVMe to or from a buffer. That of a far device is reached
// through pinned memory, where the queue must have done what it was given before.
static zero_status move_on_nvme(zero_engine *engine, zr_store *store, zr_range range, bool out,
                                const zr_buffer_ref *place, zr_pending *pending, zero_error *error)
{
    bool parked = place->buffer == ZR_BUFFER_OPEN_SUMS;
    char *buffer = zr_buffer_at(engine, *place), *at = buffer;
    pending->landed = NULL;
    if (engine->far.is) {
        at = engine->spaces[parked ? ZR_SPACE_SENT_OPEN_SUMS : ZR_SPACE_SENT_CHECKPOINTS].at +
             place->first;
        if (out)
            zr_engine_run_aside(engine, zr_op_copy(&(zr_bytes){range.count}, buffer, at));
        else
            *pending = (zr_pending){.landed = at, .to = buffer, .bytes = range.count};
        ZERO_TRY(zr_far_settle(engine, error));
    }
    return (out ? store->ops->commit : store->ops->fetch)(store, range, at, &pending->transfer,
                                                          error);
}

// Moves parked contributions, or an activation checkpoint of the chunk whose pass runs, between a
// device buffer and a store of any tier, and counts the bytes. Stores in memory are copied at once;
// NVMe reads and writes the buffer itself.
static zero_status move_stored(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    bool parked = i->slot.kind == ZR_SLOT_PARKED, out = i->code == ZR_STORE;
    zr_store *store = &engine->stores[parked ? ZR_STORE_PARKED : ZR_STORE_ACTIVATION_CHECKPOINTS];
    const zr_buffer_ref *place = out ? &i->from : &i->place;
    char *buffer = zr_buffer_at(engine, *place);
    zr_range range = {out ? i->place.first : i->from.first, i->bytes};
    if (!parked)
        range.first += engine->now.set * engine->plan->chunks[engine->now.chunk].stored_bytes;
    if (store->tier != ZERO_TIER_device)
        *(out ? &engine->offload.to_host : &engine->offload.to_device) += range.count;
    if (zr_store_needs_buffer(store))
        return move_on_nvme(engine, store, range, out, place, pending_of(engine, i), error);
    char *kept = zr_store_at(store, range.first);
    if (!out && engine->offload.overwrite)
        zr_engine_run_aside(engine, zr_op_fill(&(zr_bytes){range.count, 0xff}, buffer));
    zr_run(engine->queue,
           zr_op_copy(&(zr_bytes){range.count}, out ? buffer : kept, out ? kept : buffer));
    return ZERO_OK;
}

zero_status zr_execute_transfer(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    switch (i->slot.kind) {
    case ZR_SLOT_FETCHED: return fetch_parameters(engine, i, error);
    case ZR_SLOT_TRAVELLED: return move_sums(engine, i, error);
    default: return move_stored(engine, i, error);
    }
}

static zero_status await_exchange(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_handle *handle = &pending_of(engine, i)->exchange;
    return handle->pending ? zr_comm_wait(handle, error) : ZERO_OK;
}

static zero_status await_transfers(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    for (int n = 0; n < pending_of_slot(engine->plan, i->slot.kind); n++) {
        zr_pending *pending = &pending_of(engine, i)[n];
        ZERO_TRY(zr_offload_await(engine, &pending->transfer, error));
        if (pending->landed)
            zr_engine_run_aside(
                engine, zr_op_copy(&(zr_bytes){pending->bytes}, pending->landed, pending->to));
        pending->landed = NULL;
    }
    return ZERO_OK;
}

static zero_status await_readers(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_space *space = &engine->spaces[zr_space_of_buffer(i->place.buffer)];
    return zr_comm_quiesce(&space->window, i->slot.index, error);
}

static zero_status await_versions(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_version_ops *versions = engine->grid.data->versions;
    return (i->slot.kind == ZR_SLOT_PUBLISHED ? versions->await_published
                                              : versions->await_released)(
        &engine->spaces[ZR_SPACE_PARAMETERS].window, zr_version_slot(engine, i->slot.index),
        engine->versions.published[engine->versions.copy], error);
}

static zr_execute *const waits[ZR_SLOT_KIND_COUNT] = {
    [ZR_SLOT_SUM] = await_exchange,        [ZR_SLOT_GATHER] = await_exchange,
    [ZR_SLOT_READERS] = await_readers,     [ZR_SLOT_PUBLISHED] = await_versions,
    [ZR_SLOT_RELEASED] = await_versions,   [ZR_SLOT_FETCHED] = await_transfers,
    [ZR_SLOT_TRAVELLED] = await_transfers, [ZR_SLOT_PARKED] = await_transfers,
    [ZR_SLOT_KEPT] = await_transfers,      [ZR_SLOT_GROUP] = zr_delayed_await_group,
};

zero_status zr_execute_await(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    return waits[i->slot.kind](engine, i, error);
}
