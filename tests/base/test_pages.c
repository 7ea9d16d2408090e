// Pages: a mapping is backed before it is used, in one call or in parts by several threads, and
// keeps its content.
#define _GNU_SOURCE
#include "scratch_directory.h"

#include "base/alloc.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

static char *map(size_t bytes, int access)
{
    char *base = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    return base;
}

static size_t resident_pages(char *base, size_t bytes)
{
    unsigned char *there = malloc(bytes / 4096);
    assert_int_equal(mincore(base, bytes, there), 0);
    size_t pages = 0;
    for (size_t i = 0; i < bytes / 4096; i++)
        pages += there[i] & 1;
    free(there);
    return pages;
}

static void assert_populates(size_t bytes)
{
    char *base = map(bytes, PROT_READ | PROT_WRITE);
    base[0] = 3;
    base[bytes / 2] = 5;
    base[bytes - 1] = 7;
    assert_int_equal(zr_pages_populate(base, bytes), 0);
    assert_int_equal(resident_pages(base, bytes), bytes / 4096);
    assert_true(base[0] == 3 && base[bytes / 2] == 5 && base[bytes - 1] == 7);
    munmap(base, bytes);
}

static void every_page_is_there_and_keeps_its_contents(void **state)
{
    assert_int_equal(zr_pages_populate(NULL, 0), 0);
    assert_populates(4096);
    assert_populates(3 * MIB + 4096);
    assert_populates(150 * MIB + 4096); // in parts, the last one short
}

static void what_is_not_mapped_is_an_error(void **state)
{
    char *base = map(150 * MIB, PROT_READ | PROT_WRITE);
    munmap(base + 100 * MIB, MIB);
    assert_int_equal(zr_pages_populate(base, 150 * MIB), ENOMEM);
    munmap(base, 150 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page_is_there_and_keeps_its_contents),
        cmocka_unit_test(what_is_not_mapped_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
