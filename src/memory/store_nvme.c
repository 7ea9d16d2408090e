// The store on NVMe: a vector in scratch files. Its ranges travel through the I/O engine to and
// from the caller's buffers.
#include "memory/store.h"

static zero_status start_io(zr_store *store, bool write, zr_range range, void *buffer,
                            zr_transfer *out, zero_error *error)
{
    assert(!out->store && "a transfer is waited for before it is used again");
    *out = (zr_transfer){.request = {.write = write, .extents = &store->extents, .buffer = buffer}};
    ZERO_TRY(zr_io_extents_find(&store->extents, range.first, range.count, &out->request.begin,
                                &out->request.count, error));
    out->store = store;
    return zr_io_start(store->io, &out->request, error);
}

static zero_status nvme_fetch(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                              zero_error *error)
{
    return start_io(store, false, range, buffer, out, error);
}

static zero_status nvme_commit(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                               zero_error *error)
{
    return start_io(store, true, range, buffer, out, error);
}

static zero_status nvme_wait(zr_transfer *transfer, zero_error *error)
{
    return zr_io_wait(transfer->store->io, &transfer->request, error);
}

static void nvme_destroy(zr_store *store)
{
    zr_io_extents_destroy(&store->extents);
    zr_ledger_hold(store->ledger, ZERO_TIER_nvme, store->category, -store->bytes);
}

static const zr_store_ops nvme_ops = {
    .name = "nvme",
    .needs_buffer = true,
    .fetch = nvme_fetch,
    .commit = nvme_commit,
    .wait = nvme_wait,
    .destroy = nvme_destroy,
};

zero_status zr_store_nvme_create(zr_ledger *ledger, zero_memory_category category, int64_t bytes,
                                 const zr_nvme_site *place, zr_store *out, zero_error *error)
{
    *out = (zr_store){.bytes = bytes,
                      .tier = ZERO_TIER_nvme,
                      .category = category,
                      .ledger = ledger,
                      .io = place->io};
    ZERO_TRY(zr_io_extents_create(place->scratch, place->first, bytes, place->cuts,
                                  place->cut_count, place->block, &out->extents, error));
    zr_ledger_hold(ledger, ZERO_TIER_nvme, category, bytes);
    out->ops = &nvme_ops;
    return ZERO_OK;
}
