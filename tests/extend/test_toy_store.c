// A toy store: NVMe that does nothing in advance. What fetch and commit ask for begins when it is
// waited for, and until then a buffer that is read into holds NaN. Code that waits before it uses a
// range finds the same bytes, so no bit changes; other code computes with NaN.
#include "memory/store.h"
#include "toy.h"

#include <stdatomic.h>

static struct {
    atomic_int asked, done;
} transfers;
static const zr_store_ops *nvme; // whose vector in scratch files it is, and who ends it

// Remembers what is asked for. A transfer with a store is one that is waited for.
static zero_status ask(zr_store *store, bool write, zr_range range, void *buffer, zr_transfer *out,
                       zero_error *error)
{
    zr_io_request *request = &out->request;
    *out = (zr_transfer){.store = store};
    *request = (zr_io_request){.write = write, .extents = &store->extents, .buffer = buffer};
    if (!write)
        memset(buffer, 0xff, (size_t)range.count);
    transfers.asked++;
    return zr_io_extents_find(&store->extents, range.first, range.count, &request->begin,
                              &request->count, error);
}

static zero_status late_fetch(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                              zero_error *error)
{
    return ask(store, false, range, buffer, out, error);
}

static zero_status late_commit(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                               zero_error *error)
{
    return ask(store, true, range, buffer, out, error);
}

static zero_status late_wait(zr_transfer *transfer, zero_error *error)
{
    zr_io *io = transfer->store->io;
    ZERO_TRY(zr_io_start(io, &transfer->request, error));
    ZERO_TRY(zr_io_wait(io, &transfer->request, error));
    transfers.done++;
    return ZERO_OK;
}

static void late_destroy(zr_store *store) { nvme->destroy(store); }

static const zr_store_ops late_ops = {
    .name = "late",
    .needs_buffer = true,
    .fetch = late_fetch,
    .commit = late_commit,
    .wait = late_wait,
    .destroy = late_destroy,
};

static bool chosen;

// Here the store is.
typedef zero_status create(zr_ledger *ledger, zero_memory_category category, int64_t bytes,
                           const zr_nvme_site *place, zr_store *out, zero_error *error);
create __real_zr_store_nvme_create, __wrap_zr_store_nvme_create;
zero_status __wrap_zr_store_nvme_create(zr_ledger *ledger, zero_memory_category category,
                                        int64_t bytes, const zr_nvme_site *place, zr_store *out,
                                        zero_error *error)
{
    ZERO_TRY(__real_zr_store_nvme_create(ledger, category, bytes, place, out, error));
    if (chosen) {
        nvme = out->ops;
        out->ops = &late_ops;
    }
    return ZERO_OK;
}

static void it_trains_to_the_same_bits(void **state)
{
    harness_case c = {.stage = 3, .ranks = 1, .accumulation = 2, .batch = 2};
    c.tiers = harness_tiers(2, 2);
    toy_trains_alike(&c, &chosen);
    assert_true(transfers.asked > 0);
    assert_int_equal(transfers.done, transfers.asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_trains_to_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
