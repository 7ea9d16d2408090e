// The host's store: fetched ranges are the state itself, and ranges outside it are refused.
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "memory/store.h"
#include <string.h>

static void what_is_written_is_read_back(void **state)
{
    zr_ledger ledger = {0};
    zr_store store;
    assert_int_equal(zr_store_host_create(&ledger, ZERO_MEM_optimizer, 4096, &store, NULL), ZERO_OK);
    assert_string_equal(store.ops->name, "host");
    assert_int_equal(ledger.held[ZERO_MEM_optimizer], 4096);
    void *data;
    zr_range range = {.first = 64, .count = 128}, all = {.first = 0, .count = 4096};
    assert_int_equal(store.ops->fetch(&store, range, &data, NULL), ZERO_OK);
    memset(data, 5, 128);
    assert_int_equal(store.ops->commit(&store, range, NULL), ZERO_OK);
    store.ops->release(&store, range);
    assert_int_equal(store.ops->fetch(&store, all, &data, NULL), ZERO_OK);
    const char *bytes = data;
    for (int i = 0; i < 4096; i++)
        assert_int_equal(bytes[i], i >= 64 && i < 192 ? 5 : 0);
    store.ops->release(&store, all);
    zr_store_destroy(&store);
    zr_store_destroy(&store);
    assert_int_equal(ledger.held[ZERO_MEM_optimizer], 0);
}

static void ranges_outside_are_refused(void **state)
{
    zr_ledger ledger = {0};
    zr_store store;
    assert_int_equal(zr_store_host_create(&ledger, ZERO_MEM_optimizer, 100, &store, NULL), ZERO_OK);
    static const zr_range outside[] = {{-1, 1}, {0, 101}, {100, 1}, {101, 0}, {1, INT64_MAX}, {INT64_MAX, 1}, {0, -1}};
    for (int i = 0; i < ZR_COUNT(outside); i++) {
        zero_error error = {0};
        void *data = NULL;
        assert_int_equal(store.ops->fetch(&store, outside[i], &data, &error), ZERO_ERR_INTERNAL);
        assert_null(data);
        assert_non_null(strstr(error.message, "state of 100 bytes (optimizer)"));
    }
    void *end;
    assert_int_equal(store.ops->fetch(&store, (zr_range){100, 0}, &end, NULL), ZERO_OK);
    zr_store_destroy(&store);
}

static void empty_and_impossible_stores(void **state)
{
    zr_ledger ledger = {0};
    zr_store store;
    void *data = NULL;
    assert_int_equal(zr_store_host_create(&ledger, ZERO_MEM_optimizer, 0, &store, NULL), ZERO_OK);
    assert_int_equal(store.ops->fetch(&store, (zr_range){0, 0}, &data, NULL), ZERO_OK);
    zr_store_destroy(&store);
    assert_int_equal(zr_store_host_create(&ledger, ZERO_MEM_optimizer, (size_t)1 << 60, &store, NULL), ZERO_ERR_MEMORY);
    assert_null(store.ops);
    zr_store_destroy(&store);
    assert_int_equal(ledger.held[ZERO_MEM_optimizer], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(ranges_outside_are_refused),
        cmocka_unit_test(empty_and_impossible_stores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
