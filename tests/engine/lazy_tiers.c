// A transfer of a store only notes what was asked for and poisons the buffer of a fetch (bytes
// 0xff: NaN); waiting for it does all the work.
//
// The thread of an update beside the step is held back at every group until the rank's thread waits
// for a group that is not done. `at` groups are left, and it may continue while these are more than
// `wanted`.
#include "lazy_tiers.h"

#include "engine/engine_internal.h"
#include "engine/update.h"
#include "lazy_comm.h"

#include <pthread.h>
#include <string.h>

enum { POISON = 0xff, ALL = -1 };

static const zr_store_ops *nvme_ops; // of the stores that travel by themselves

static zero_status note(zr_store *store, zr_range range, void *buffer, bool write, zr_transfer *out,
                        zero_error *error)
{
    if (out->store)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "a transfer begins before the one before it was awaited");
    *out = (zr_transfer){.store = store, .request = {.write = write, .buffer = buffer}};
    out->request.began = range.first; // until it is awaited nobody else looks at these two
    out->request.ended = range.count;
    return ZERO_OK;
}

static zero_status lazy_fetch(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                              zero_error *error)
{
    ZERO_TRY(note(store, range, buffer, false, out, error));
    memset(buffer, POISON, (size_t)range.count);
    return ZERO_OK;
}

// A reader of what is about to be overwritten finds that it is damaged.
static zero_status damage(zr_store *store, zr_range range, zero_error *error)
{
    int begin, count;
    ZERO_TRY(zr_io_extents_find(&store->extents, range.first, range.count, &begin, &count, error));
    for (int e = begin; e < begin + count; e++) {
        store->extents.written[e] = 1;
        store->extents.checksums[e] ^= 1;
    }
    return ZERO_OK;
}

static zero_status lazy_commit(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                               zero_error *error)
{
    ZERO_TRY(note(store, range, buffer, true, out, error));
    if (store->tier == ZERO_TIER_nvme)
        return damage(store, range, error);
    memset(zr_store_at(store, range.first), POISON, (size_t)range.count);
    return ZERO_OK;
}

static void copy_in_memory(zr_transfer *transfer, zr_range range)
{
    static int64_t bounds[2];
    static zr_io_extents nowhere = {.count = 1, .bounds = bounds};
    char *kept = zr_store_at(transfer->store, range.first);
    char *buffer = transfer->request.buffer;
    bool write = transfer->request.write;
    memcpy(write ? kept : buffer, write ? buffer : kept, (size_t)range.count);
    transfer->request = (zr_io_request){.write = write, .extents = &nowhere, .count = 1};
}

static zero_status lazy_wait(zr_transfer *transfer, zero_error *error)
{
    zr_store *store = transfer->store;
    const zr_range range = {transfer->request.began, transfer->request.ended};
    bool write = transfer->request.write;
    if (store->tier != ZERO_TIER_nvme) {
        copy_in_memory(transfer, range);
        return ZERO_OK;
    }
    transfer->store = NULL;
    ZERO_TRY((write ? nvme_ops->commit : nvme_ops->fetch)(store, range, transfer->request.buffer,
                                                          transfer, error));
    return nvme_ops->wait(transfer, error);
}

static void lazy_destroy(zr_store *store)
{
    if (store->tier == ZERO_TIER_nvme)
        nvme_ops->destroy(store);
    else
        zr_arena_destroy(&store->arena);
}

static const zr_store_ops lazy_ops = {
    .name = "lazy",
    .needs_buffer = true,
    .fetch = lazy_fetch,
    .commit = lazy_commit,
    .wait = lazy_wait,
    .destroy = lazy_destroy,
};

static void take_store(zr_store *store)
{
    if (!store->ops)
        return;
    if (store->tier == ZERO_TIER_nvme)
        nvme_ops = store->ops;
    store->ops = &lazy_ops;
}

typedef struct gate {                   // of an update beside
    struct zr_delayed *_Atomic delayed; // whose; NULL: nobody's
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int at, wanted;
} gate;

static gate gates[LAZY_RANKS] = {
    {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER},
    {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER},
};

static gate *gate_of(const struct zr_delayed *delayed)
{
    for (int r = 0; r < LAZY_RANKS; r++)
        if (delayed && gates[r].delayed == delayed)
            return &gates[r];
    return NULL;
}

static void put(gate *gate, int *field, int value)
{
    pthread_mutex_lock(&gate->lock);
    *field = value;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

// Of the rank's thread, which alone writes `wanted`.
static void want(gate *gate, int group)
{
    if (gate && group < gate->wanted)
        put(gate, &gate->wanted, group);
}

static void hold_back(gate *gate)
{
    if (!gate)
        return;
    pthread_mutex_lock(&gate->lock);
    while (gate->at <= gate->wanted)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

void lazy_tiers_take(zero_engine *engine)
{
    for (int s = zr_store_of_vector(ZERO_TIER_nvme, 0); s < ZR_STORE_COUNT; s++)
        take_store(&engine->stores[s]);
    gates[engine->grid.world->rank].delayed = engine->delayed;
}

// What follows stands between the engine's files: the linker puts it in place of what one of them
// calls in another (meson.build).
zero_status __real_zr_delayed_begin(zero_engine *engine, zero_error *error);
zero_status __wrap_zr_delayed_begin(zero_engine *engine, zero_error *error);

zero_status __wrap_zr_delayed_begin(zero_engine *engine, zero_error *error)
{
    gate *gate = gate_of(engine->delayed);
    if (engine->update.overlaps)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "an update begins before the one before it was awaited");
    if (gate) {
        put(gate, &gate->wanted, engine->plan->group_count);
        put(gate, &gate->at, engine->plan->group_count);
    }
    return __real_zr_delayed_begin(engine, error);
}

zero_status __real_zr_delayed_await_group(zero_engine *engine, const zr_instruction *i,
                                          zero_error *error);
zero_status __wrap_zr_delayed_await_group(zero_engine *engine, const zr_instruction *i,
                                          zero_error *error);

zero_status __wrap_zr_delayed_await_group(zero_engine *engine, const zr_instruction *i,
                                          zero_error *error)
{
    want(gate_of(engine->delayed), i->slot.index);
    return __real_zr_delayed_await_group(engine, i, error);
}

zero_status __real_zr_delayed_join(zero_engine *engine, zero_error *error);
zero_status __wrap_zr_delayed_join(zero_engine *engine, zero_error *error);

zero_status __wrap_zr_delayed_join(zero_engine *engine, zero_error *error)
{
    want(gate_of(engine->delayed), ALL);
    return __real_zr_delayed_join(engine, error);
}

void __real_zr_delayed_destroy(struct zr_delayed *delayed);
void __wrap_zr_delayed_destroy(struct zr_delayed *delayed);

void __wrap_zr_delayed_destroy(struct zr_delayed *delayed)
{
    gate *gate = gate_of(delayed);
    want(gate, ALL);
    __real_zr_delayed_destroy(delayed);
    if (gate)
        gate->delayed = NULL;
}

zero_status __real_zr_update_shard_slice(void *walk, zero_engine *engine,
                                         const zr_shard_slice *shard_slice,
                                         const zr_range_states *states, zero_error *error);
zero_status __wrap_zr_update_shard_slice(void *walk, zero_engine *engine,
                                         const zr_shard_slice *shard_slice,
                                         const zr_range_states *states, zero_error *error);

zero_status __wrap_zr_update_shard_slice(void *walk, zero_engine *engine,
                                         const zr_shard_slice *shard_slice,
                                         const zr_range_states *states, zero_error *error)
{
    hold_back(gate_of(engine->delayed));
    return __real_zr_update_shard_slice(walk, engine, shard_slice, states, error);
}

static _Atomic(const zr_overlapped_walk *) real_hooks; // the same for every engine

static zero_status held_await(zero_engine *engine, zr_transfer *transfer, zero_error *error)
{
    hold_back(gate_of(engine->delayed));
    return real_hooks->await(engine, transfer, error);
}

static void held_group_done(zero_engine *engine, int group)
{
    gate *gate = gate_of(engine->delayed);
    if (gate)
        put(gate, &gate->at, group);
    real_hooks->group_done(engine, group);
}

zero_status __real_zr_groups_walk(zero_engine *engine, const zr_walk *walk, zero_error *error);
zero_status __wrap_zr_groups_walk(zero_engine *engine, const zr_walk *walk, zero_error *error);

zero_status __wrap_zr_groups_walk(zero_engine *engine, const zr_walk *walk, zero_error *error)
{
    static const zr_overlapped_walk held = {.await = held_await, .group_done = held_group_done};
    zr_walk copy = *walk;
    if (walk->overlapped) {
        real_hooks = walk->overlapped;
        copy.overlapped = &held;
    }
    return __real_zr_groups_walk(engine, &copy, error);
}
