// Memory of the far device: what it holds when it is fresh, what is refused, and what is a mistake.
#include "far_harness.h"

static const far_options eager = {.order = FAR_EAGER};

static zero_status reserve(zr_memory kind, size_t bytes, void **out, zero_error *error)
{
    return far_device()->ops->reserve(far_device(), kind, bytes, out, error);
}

static void assert_filled(const unsigned char *at, size_t bytes, int value)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != value)
            fail_msg("byte %zu is %#x, not %#x", i, at[i], value);
}

static void the_device_is_far(void **state)
{
    far_begin(&eager);
    assert_true(zr_device_is_far(far_device()));
    assert_string_equal(far_device()->ops->name, "far");
    assert_int_equal(far_device()->ops->align, 256);
    end_clean();
}

static void memory_of_the_host_is_zeroed(void **state)
{
    enum { BYTES = 10000 };
    static const zr_memory kinds[] = {ZR_MEMORY_HOST, ZR_MEMORY_PINNED};
    far_begin(&eager);
    for (int i = 0; i < ZR_COUNT(kinds); i++) {
        unsigned char *at = take(kinds[i], BYTES);
        assert_int_equal((uintptr_t)at % 256, 0);
        assert_filled(at, BYTES, 0);
        memset(at, 1, BYTES);
        give_back(kinds[i], at, BYTES);
    }
    end_clean();
}

static void fresh_device_memory_is_full_of_nan(void **state)
{
    enum { BYTES = 5000 };
    far_begin(&eager);
    zr_queue *queue = far_queue_new();
    unsigned char *device = take(ZR_MEMORY_DEVICE, BYTES), *seen = take(ZR_MEMORY_PINNED, BYTES);
    assert_int_equal((uintptr_t)device % 256, 0);
    far_copy(queue, device, seen, BYTES);
    finish_all(queue);
    assert_filled(seen, BYTES, 0xff);
    float value;
    memcpy(&value, seen, sizeof value);
    assert_true(value != value);
    give_back(ZR_MEMORY_DEVICE, device, BYTES);
    give_back(ZR_MEMORY_PINNED, seen, BYTES);
    zr_queue_close(queue);
    end_clean();
}

static void nothing_can_be_reserved(void **state)
{
    far_begin(&eager);
    for (zr_memory kind = 0; kind < ZR_MEMORY_KINDS; kind++) {
        void *at = take(kind, 0);
        assert_non_null(at);
        give_back(kind, at, 0);
        give_back(kind, NULL, 100);
    }
    end_clean();
}

static void the_device_is_as_large_as_asked(void **state)
{
    const far_options small = {.device_bytes = 10000};
    int64_t unused, all;
    zero_error error = {0};
    far_begin(&small);
    void *at = take(ZR_MEMORY_DEVICE, 6000), *more = &unused,
         *pinned = take(ZR_MEMORY_PINNED, 20000);
    far_device()->ops->free_bytes(far_device(), &unused, &all);
    assert_int_equal(unused, 4000);
    assert_int_equal(all, 10000);
    assert_int_equal(reserve(ZR_MEMORY_DEVICE, 4001, &more, &error), ZERO_ERR_MEMORY);
    assert_null(more);
    assert_non_null(strstr(error.message, "4000 bytes of the device are left"));
    give_back(ZR_MEMORY_DEVICE, at, 6000);
    at = take(ZR_MEMORY_DEVICE, 10000);
    give_back(ZR_MEMORY_DEVICE, at, 10000);
    give_back(ZR_MEMORY_PINNED, pinned, 20000);
    end_clean();
}

static void the_reserve_that_is_named_fails(void **state)
{
    zero_error error = {0};
    for (int nth = 1; nth <= 3; nth++) {
        far_begin(&(far_options){.fail_reserve = nth});
        for (int i = 1; i <= 4; i++) {
            void *at;
            assert_int_equal(reserve(ZR_MEMORY_PINNED, 100, &at, &error),
                             i == nth ? ZERO_ERR_MEMORY : ZERO_OK);
            give_back(ZR_MEMORY_PINNED, at, 100);
        }
        assert_non_null(strstr(error.message, "fails, as the test asked"));
        end_clean();
    }
}

static void other_ranks_reach_device_memory(void **state)
{
    zr_device *device = far_device();
    far_begin(&eager);
    char *at = take(ZR_MEMORY_DEVICE, 1000), *pinned = take(ZR_MEMORY_PINNED, 1000);
    void *theirs = NULL;
    zr_share token, none;
    assert_int_equal(device->ops->share(device, at + 256, &token, NULL), ZERO_OK);
    assert_int_equal(device->ops->share(device, pinned, &none, NULL), ZERO_ERR_INTERNAL);
    assert_int_equal(device->ops->attach(device, &token, &theirs, NULL), ZERO_OK);
    zr_queue *queue = far_queue_new();
    far_fill(queue, at, 1000, 3);
    far_copy(queue, theirs, pinned, 744);
    finish_all(queue);
    assert_filled((unsigned char *)pinned, 744, 3);
    zr_queue_close(queue);
    device->ops->detach(device, theirs);
    give_back(ZR_MEMORY_DEVICE, at, 1000);
    assert_int_equal(device->ops->attach(device, &token, &theirs, NULL), ZERO_ERR_INTERNAL);
    give_back(ZR_MEMORY_PINNED, pinned, 1000);
    end_clean();
}

static void the_host_pins_its_memory(void **state)
{
    static char own[1000];
    zero_error error = {0};
    zr_device *device = far_device();
    far_begin(&eager);
    zr_queue *queue = far_queue_new();
    far_fill(queue, own, sizeof own, 5);
    assert_int_equal(zr_mark_finish(zr_queue_mark(queue), 0, NULL), ZERO_ERR_INTERNAL);
    assert_int_equal(device->ops->pin(device, own, sizeof own, NULL), ZERO_OK);
    assert_int_equal(device->ops->pin(device, own + 10, 10, NULL), ZERO_ERR_INTERNAL);
    far_fill(queue, own, sizeof own, 6);
    finish_all(queue);
    assert_filled((unsigned char *)own, sizeof own, 6);
    device->ops->unpin(device, own, sizeof own);
    far_fill(queue, own, sizeof own, 7);
    assert_int_equal(zr_mark_finish(zr_queue_mark(queue), 0, &error), ZERO_ERR_INTERNAL);
    assert_non_null(strstr(error.message, "is memory of the host"));
    assert_filled((unsigned char *)own, sizeof own, 6);
    zr_queue_close(queue);
    end_clean();
}

// ---- mistakes ----

static void a_leak_is_told(void **state)
{
    static char own[100];
    far_report report;
    far_begin(&eager);
    take(ZR_MEMORY_HOST, 10);
    take(ZR_MEMORY_DEVICE, 300);
    far_device()->ops->pin(far_device(), own, sizeof own, NULL);
    far_end(&report);
    assert_int_equal(report.allocations, 3);
    assert_int_equal(report.violations, 3);
    assert_string_equal(report.first, "allocation 1, 10 bytes of host memory, was not released");
}

static void what_is_not_there_is_not_released(void **state)
{
    far_begin(&eager);
    void *at = take(ZR_MEMORY_DEVICE, 300);
    give_back(ZR_MEMORY_DEVICE, at, 300);
    give_back(ZR_MEMORY_DEVICE, at, 300);
    end_with("300 bytes of device memory are released that were not reserved, or twice");
    far_begin(&eager);
    at = take(ZR_MEMORY_DEVICE, 300);
    give_back(ZR_MEMORY_PINNED, at, 200);
    end_with("200 bytes of pinned memory are released that were reserved as 300 of device");
    far_begin(&eager);
    far_device()->ops->unpin(far_device(), &at, sizeof at);
    end_with("bytes are unpinned that were not pinned");
}

static void the_owner_releases_last(void **state)
{
    zr_device *device = far_device();
    void *theirs;
    zr_share token;
    far_begin(&eager);
    void *at = take(ZR_MEMORY_DEVICE, 300);
    device->ops->share(device, at, &token, NULL);
    device->ops->attach(device, &token, &theirs, NULL);
    give_back(ZR_MEMORY_DEVICE, at, 300);
    end_with("allocation 1 is released, and another rank is attached to it");
    far_begin(&eager);
    at = take(ZR_MEMORY_DEVICE, 300);
    device->ops->detach(device, at);
    give_back(ZR_MEMORY_DEVICE, at, 300);
    end_with("memory is detached from that was not attached to");
}

static void nothing_is_reserved_after_the_seal(void **state)
{
    far_begin(&eager);
    far_seal();
    far_unseal();
    void *at = take(ZR_MEMORY_DEVICE, 10);
    give_back(ZR_MEMORY_DEVICE, at, 10);
    end_clean();
    far_begin(&eager);
    far_seal();
    at = take(ZR_MEMORY_PINNED, 10);
    give_back(ZR_MEMORY_PINNED, at, 10);
    end_with("10 bytes of pinned memory are reserved after far_seal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_is_far),
        cmocka_unit_test(memory_of_the_host_is_zeroed),
        cmocka_unit_test(fresh_device_memory_is_full_of_nan),
        cmocka_unit_test(nothing_can_be_reserved),
        cmocka_unit_test(the_device_is_as_large_as_asked),
        cmocka_unit_test(the_reserve_that_is_named_fails),
        cmocka_unit_test(other_ranks_reach_device_memory),
        cmocka_unit_test(the_host_pins_its_memory),
        cmocka_unit_test(a_leak_is_told),
        cmocka_unit_test(what_is_not_there_is_not_released),
        cmocka_unit_test(the_owner_releases_last),
        cmocka_unit_test(nothing_is_reserved_after_the_seal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
