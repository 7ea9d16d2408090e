// The stores of device and host: the whole state lies in one arena, and its ranges are used
// where they lie. So a fetch only checks its range, and a commit does nothing.
#include "memory/store.h"

static zero_status memory_fetch(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                                zero_error *error)
{
    bool inside = range.first >= 0 && range.count >= 0 && range.first <= store->bytes &&
                  range.count <= store->bytes - range.first;
    if (!inside)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "bytes %lld + %lld of a state of %lld bytes (%s) were requested",
                       (long long)range.first, (long long)range.count, (long long)store->bytes,
                       zr_memory_category_name(store->category));
    return ZERO_OK;
}

static zero_status memory_commit(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                                 zero_error *error)
{
    return ZERO_OK;
}

static zero_status memory_wait(zr_transfer *transfer, zero_error *error) { return ZERO_OK; }

static void memory_destroy(zr_store *store) { zr_arena_destroy(&store->arena); }

static const zr_store_ops memory_ops = {
    .name = "memory",
    .fetch = memory_fetch,
    .commit = memory_commit,
    .wait = memory_wait,
    .destroy = memory_destroy,
};

zero_status zr_store_memory_create(zr_ledger *ledger, const zr_place *place, size_t bytes,
                                   zr_store *out, zero_error *error)
{
    *out = (zr_store){.bytes = (int64_t)bytes, .tier = place->tier, .category = place->category};
    ZERO_TRY(zr_arena_create(ledger, place, bytes, &out->arena, error));
    out->ops = &memory_ops;
    return ZERO_OK;
}

bool zr_store_needs_buffer(const zr_store *store) { return store->ops && store->ops->needs_buffer; }

void *zr_store_at(const zr_store *store, int64_t first)
{
    return store->arena.base ? store->arena.base + first : NULL;
}

zero_status zr_transfer_wait(zr_transfer *transfer, zero_error *error)
{
    zero_status status = transfer->store ? transfer->store->ops->wait(transfer, error) : ZERO_OK;
    transfer->store = NULL;
    return status;
}

void zr_store_destroy(zr_store *store)
{
    if (store->ops)
        store->ops->destroy(store);
    *store = (zr_store){0};
}
