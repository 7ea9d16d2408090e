// Slots of operations that are under way, and AWAIT: one look-up and one call of the wait of the
// slot's kind. What begins an operation fills its slot (gather_reduce.c, transfers.c).
#include "base/alloc.h"
#include "engine/buffers.h"
#include "engine/interpret.h"
#include "plan/accumulators.h"

// Returns the number of operations that one slot has. The other kinds have none: windows, or the
// update's thread, know how far they are.
static int pending_of_slot(const zr_plan *plan, zr_slot_kind kind)
{
    switch (kind) {
    case ZR_SLOT_SUM:
    case ZR_SLOT_GATHER:
    case ZR_SLOT_FETCHED:
    case ZR_SLOT_PARKED:
    case ZR_SLOT_KEPT: return 1;
    case ZR_SLOT_TRAVELLED: return zr_accumulators(&plan->settings);
    default: return 0;
    }
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

static zero_status await_exchange(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_handle *handle = &engine->slots[i->slot.kind][i->slot.index].exchange;
    return handle->pending ? zr_comm_wait(handle, error) : ZERO_OK;
}

static zero_status await_transfers(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int count = pending_of_slot(engine->plan, i->slot.kind);
    zr_pending *first = &engine->slots[i->slot.kind][i->slot.index * count];
    for (int n = 0; n < count; n++)
        ZERO_TRY(zr_offload_await(engine, &first[n].transfer, error));
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

static zero_status await_group(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    return zr_delayed_await_group(engine, i->slot.index, error);
}

static zr_execute *const waits[ZR_SLOT_KIND_COUNT] = {
    [ZR_SLOT_SUM] = await_exchange,        [ZR_SLOT_GATHER] = await_exchange,
    [ZR_SLOT_READERS] = await_readers,     [ZR_SLOT_PUBLISHED] = await_versions,
    [ZR_SLOT_RELEASED] = await_versions,   [ZR_SLOT_FETCHED] = await_transfers,
    [ZR_SLOT_TRAVELLED] = await_transfers, [ZR_SLOT_PARKED] = await_transfers,
    [ZR_SLOT_KEPT] = await_transfers,      [ZR_SLOT_GROUP] = await_group,
};

zero_status zr_execute_await(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    return waits[i->slot.kind](engine, i, error);
}
