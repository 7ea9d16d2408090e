// The device of the CPU: memory of all kinds is zeroed, aligned and the host's, and what cannot be
// had is refused. The linker's --wrap replaces mmap, so that the kernel can refuse.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "memory/device.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static int refusal; // errno of the next mmap; 0: none

void *__real_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    errno = refusal;
    refusal = 0;
    return errno ? MAP_FAILED : __real_mmap64(address, length, protection, flags, fd, offset);
}

static void all_kinds_are_the_host_s(void **state)
{
    zr_device *host = zr_device_host();
    assert_false(zr_device_is_far(host));
    assert_string_equal(host->ops->name, "host");
    assert_int_equal(host->ops->align, 64);
    for (zr_memory kind = 0; kind < ZR_MEMORY_KINDS; kind++) {
        unsigned char *at = NULL;
        void *empty = NULL;
        assert_int_equal(host->ops->reserve(host, kind, 100, (void **)&at, NULL), ZERO_OK);
        assert_int_equal((uintptr_t)at % host->ops->align, 0);
        for (int i = 0; i < 100; i++)
            assert_int_equal(at[i], 0);
        memset(at, 1, 100);
        assert_int_equal(host->ops->pin(host, at, 100, NULL), ZERO_OK);
        host->ops->unpin(host, at, 100);
        assert_int_equal(host->ops->reserve(host, kind, 0, &empty, NULL), ZERO_OK);
        assert_non_null(empty);
        host->ops->release(host, kind, at, 100);
        host->ops->release(host, kind, empty, 0);
        host->ops->release(host, kind, NULL, 100);
    }
}

static void kinds_have_names(void **state)
{
    assert_string_equal(zr_memory_name(ZR_MEMORY_HOST), "host");
    assert_string_equal(zr_memory_name(ZR_MEMORY_PINNED), "pinned");
    assert_string_equal(zr_memory_name(ZR_MEMORY_DEVICE), "device");
}

static void what_cannot_be_had_is_refused(void **state)
{
    zr_device *host = zr_device_host();
    int64_t unused, all;
    void *at = &unused;
    zero_error error;
    host->ops->free_bytes(host, &unused, &all);
    assert_true(unused > 0 && all >= unused);
    assert_int_equal(host->ops->reserve(host, ZR_MEMORY_DEVICE, (size_t)unused * 2, &at, &error),
                     ZERO_ERR_MEMORY);
    assert_null(at);
    assert_non_null(strstr(error.message, "bytes are left ("));
    refusal = ENOMEM;
    assert_int_equal(host->ops->reserve(host, ZR_MEMORY_DEVICE, 4096, &at, &error),
                     ZERO_ERR_MEMORY);
    assert_non_null(strstr(error.message, "Cannot allocate memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_kinds_are_the_host_s),
                                       cmocka_unit_test(kinds_have_names),
                                       cmocka_unit_test(what_cannot_be_had_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
