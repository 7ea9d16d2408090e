// The stores of every tier: what is committed is fetched again, ranges outside are refused, and the
// ledger counts the bytes.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "memory/store.h"
#include <stdlib.h>
#include <string.h>

static void memory_is_used_where_it_lies(void **state)
{
    for (zero_tier tier = ZERO_TIER_device; tier <= ZERO_TIER_host; tier++) {
        zr_ledger ledger = {0};
        zr_store store;
        zr_transfer transfer = {0};
        assert_int_equal(zr_store_memory_create(
                             &ledger, &(zr_place){.tier = tier, .category = ZERO_MEM_optimizer},
                             4096, &store, NULL),
                         ZERO_OK);
        assert_false(zr_store_needs_buffer(&store));
        assert_int_equal(ledger.held[tier][ZERO_MEM_optimizer], 4096);
        zr_range range = {.first = 64, .count = 128};
        assert_int_equal(store.ops->fetch(&store, range, NULL, &transfer, NULL), ZERO_OK);
        assert_int_equal(zr_transfer_wait(&transfer, NULL), ZERO_OK);
        memset(zr_store_at(&store, 64), 5, 128);
        assert_int_equal(store.ops->commit(&store, range, NULL, &transfer, NULL), ZERO_OK);
        assert_int_equal(zr_transfer_wait(&transfer, NULL), ZERO_OK);
        const char *bytes = zr_store_at(&store, 0);
        for (int i = 0; i < 4096; i++)
            assert_int_equal(bytes[i], i >= 64 && i < 192 ? 5 : 0);
        zr_store_destroy(&store);
        zr_store_destroy(&store);
        assert_int_equal(ledger.held[tier][ZERO_MEM_optimizer], 0);
    }
}

static void ranges_outside_are_refused(void **state)
{
    zr_ledger ledger = {0};
    zr_store store;
    zr_transfer transfer = {0};
    assert_int_equal(
        zr_store_memory_create(&ledger,
                               &(zr_place){.tier = ZERO_TIER_host, .category = ZERO_MEM_optimizer},
                               100, &store, NULL),
        ZERO_OK);
    static const zr_range outside[] = {{-1, 1},        {0, 101},       {100, 1}, {101, 0},
                                       {1, INT64_MAX}, {INT64_MAX, 1}, {0, -1}};
    for (int i = 0; i < ZR_COUNT(outside); i++) {
        zero_error error = {0};
        assert_int_equal(store.ops->fetch(&store, outside[i], NULL, &transfer, &error),
                         ZERO_ERR_INTERNAL);
        assert_null(transfer.store);
        assert_non_null(strstr(error.message, "state of 100 bytes (optimizer)"));
    }
    assert_int_equal(store.ops->fetch(&store, (zr_range){100, 0}, NULL, &transfer, NULL), ZERO_OK);
    zr_store_destroy(&store);
}

static void empty_and_impossible_stores(void **state)
{
    zr_ledger ledger = {0};
    zr_store store;
    zr_transfer transfer = {0};
    assert_int_equal(
        zr_store_memory_create(&ledger,
                               &(zr_place){.tier = ZERO_TIER_host, .category = ZERO_MEM_optimizer},
                               0, &store, NULL),
        ZERO_OK);
    assert_int_equal(store.ops->fetch(&store, (zr_range){0, 0}, NULL, &transfer, NULL), ZERO_OK);
    zr_store_destroy(&store);
    assert_int_equal(
        zr_store_memory_create(&ledger,
                               &(zr_place){.tier = ZERO_TIER_host, .category = ZERO_MEM_optimizer},
                               (size_t)1 << 60, &store, NULL),
        ZERO_ERR_MEMORY);
    assert_null(store.ops);
    zr_store_destroy(&store);
    assert_int_equal(ledger.held[ZERO_TIER_host][ZERO_MEM_optimizer], 0);
}

enum { NVME_BYTES = 5 * 16384, RANGES = 5 };

static void ranges_travel_to_nvme_and_back(void **state)
{
    static const int64_t cuts[] = {16384, 2 * 16384, 3 * 16384, 4 * 16384};
    const char *directory = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    char *buffer = aligned_alloc(ZR_IO_ALIGN, NVME_BYTES);
    zr_ledger ledger = {0};
    zr_scratch scratch;
    zr_io *io;
    zr_store store;
    assert_int_equal(
        zr_scratch_create(&directory, 1, NVME_BYTES, 8192, "test-store", NULL, &scratch, NULL),
        ZERO_OK);
    const zr_scratch *scratches[] = {&scratch};
    const zr_io_buffer buffers[] = {{buffer, NVME_BYTES}};
    const zr_io_options options = {.block = 8192,
                                   .queue_depth = 2,
                                   .lanes = 1,
                                   .overlap_events = true,
                                   .scratches = scratches,
                                   .scratch_count = 1,
                                   .buffers = buffers,
                                   .buffer_count = 1};
    assert_int_equal(zr_io_create(&options, &io, NULL), ZERO_OK);
    const zr_nvme_site place = {
        .io = io, .scratch = &scratch, .block = 8192, .cuts = cuts, .cut_count = ZR_COUNT(cuts)};
    assert_int_equal(
        zr_store_nvme_create(&ledger, ZERO_MEM_optimizer, NVME_BYTES, &place, &store, NULL),
        ZERO_OK);
    assert_true(zr_store_needs_buffer(&store));
    assert_null(zr_store_at(&store, 0));
    assert_int_equal(ledger.held[ZERO_TIER_nvme][ZERO_MEM_optimizer], NVME_BYTES);

    zr_transfer transfers[RANGES] = {0};
    memset(buffer, 1, NVME_BYTES);
    for (int r = 0; r < RANGES; r++) // nothing was written: zeros
        assert_int_equal(store.ops->fetch(&store, (zr_range){r * 16384, 16384}, buffer + r * 16384,
                                          &transfers[r], NULL),
                         ZERO_OK);
    for (int r = 0; r < RANGES; r++)
        assert_int_equal(zr_transfer_wait(&transfers[r], NULL), ZERO_OK);
    for (int i = 0; i < NVME_BYTES; i++)
        assert_int_equal(buffer[i], 0);
    for (int r = 0; r < RANGES; r++) {
        memset(buffer + r * 16384, r + 1, 16384);
        assert_int_equal(store.ops->commit(&store, (zr_range){r * 16384, 16384}, buffer + r * 16384,
                                           &transfers[r], NULL),
                         ZERO_OK);
    }
    for (int r = 0; r < RANGES; r++)
        assert_int_equal(zr_transfer_wait(&transfers[r], NULL), ZERO_OK);
    memset(buffer, 9, NVME_BYTES);
    assert_int_equal(
        store.ops->fetch(&store, (zr_range){16384, 3 * 16384}, buffer, &transfers[0], NULL),
        ZERO_OK);
    assert_int_equal(zr_transfer_wait(&transfers[0], NULL), ZERO_OK);
    for (int i = 0; i < 3 * 16384; i++)
        assert_int_equal(buffer[i], i / 16384 + 2);

    zero_error error = {0};
    // inside of an extent
    assert_int_equal(
        store.ops->fetch(&store, (zr_range){4096, 4096}, buffer, &transfers[0], &error),
        ZERO_ERR_INTERNAL);
    assert_null(transfers[0].store);
    zr_io_destroy(io);
    zr_store_destroy(&store);
    zr_scratch_destroy(&scratch);
    free(buffer);
    assert_int_equal(ledger.held[ZERO_TIER_nvme][ZERO_MEM_optimizer], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_used_where_it_lies),
        cmocka_unit_test(ranges_outside_are_refused),
        cmocka_unit_test(empty_and_impossible_stores),
        cmocka_unit_test(ranges_travel_to_nvme_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
