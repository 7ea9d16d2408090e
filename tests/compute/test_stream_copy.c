// zr_stream_copy, compared with memcpy at sizes and alignments that make it use each of its
// methods; nothing around the target is touched.
#include "compute/tree_sum.h"

#include <stdlib.h>
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#define ROOM (9 << 20)

static void check(int64_t to, int64_t from, int64_t bytes)
{
    static unsigned char source[ROOM], copied[ROOM];
    for (int64_t i = 0; i < ROOM; i++)
        source[i] = (unsigned char)(i * 131 >> 3);
    memset(copied, 0xee, ROOM);
    zr_stream_copy(copied + to, source + from, bytes, 2);
    assert_memory_equal(copied + to, source + from, (size_t)bytes);
    for (int64_t i = 0; i < ROOM; i++)
        if ((i < to || i >= to + bytes) && copied[i] != 0xee)
            fail_msg("byte %lld beside the copy of %lld bytes to %lld was written", (long long)i,
                     (long long)bytes, (long long)to);
}

static void every_size_and_alignment(void **state)
{
    static const int64_t sizes[] = {
        0, 1, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (8 << 20) + 4099};
    for (int i = 0; i < ZR_COUNT(sizes); i++) {
        check(64, 64, sizes[i]);
        check(68, 4, sizes[i]);
        check(3, 17, sizes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_size_and_alignment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
