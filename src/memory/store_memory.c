// The host's store: the whole state lies in one arena, so fetching is a pointer and committing is nothing.
#include "memory/store.h"

static zero_status host_fetch(zr_store *store, zr_range range, void **data, zero_error *error)
{
    int64_t bytes = (int64_t)store->arena.bytes;
    bool inside = range.first >= 0 && range.count >= 0 && range.first <= bytes && range.count <= bytes - range.first;
    if (!inside)
        return zr_fail(error, ZERO_ERR_INTERNAL, "bytes %lld + %lld of a state of %lld bytes (%s) were asked for",
                       (long long)range.first, (long long)range.count, (long long)bytes,
                       zr_memory_category_name(store->arena.category));
    *data = store->arena.base + range.first;
    return ZERO_OK;
}

static zero_status host_commit(zr_store *store, zr_range range, zero_error *error)
{
    return ZERO_OK;
}

static void host_release(zr_store *store, zr_range range)
{
}

static void host_destroy(zr_store *store)
{
    zr_arena_destroy(&store->arena);
}

static const zr_store_ops host_ops = {
    .name = "host",
    .fetch = host_fetch,
    .commit = host_commit,
    .release = host_release,
    .destroy = host_destroy,
};

zero_status zr_store_host_create(zr_ledger *ledger, zero_memory_category category, size_t bytes, zr_store *out,
                                 zero_error *error)
{
    *out = (zr_store){0};
    ZERO_TRY(zr_arena_create(ledger, ZR_HOST, category, bytes, &out->arena, error));
    out->ops = &host_ops;
    return ZERO_OK;
}

void zr_store_destroy(zr_store *store)
{
    if (store->ops)
        store->ops->destroy(store);
    *store = (zr_store){0};
}
