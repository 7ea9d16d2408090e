// The names of schedules: what is read, what is written, and what is none.
#include "config/pipeline_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void every_name_is_read_and_listed(void **state)
{
    for (int k = 0; k < ZR_PIPELINE_KIND_COUNT; k++) {
        zr_pipeline_kind kind = ZR_PIPELINE_KIND_COUNT;
        int chunks = 0;
        const char *name = zr_pipeline_kind_name((zr_pipeline_kind)k);
        assert_non_null(strstr(ZR_PIPELINE_KINDS, name));
        if (k == ZR_PIPELINE_INTERLEAVED)
            continue;
        assert_true(zr_pipeline_kind_read(name, &kind, &chunks));
        assert_int_equal(kind, k);
        assert_int_equal(chunks, 1);
    }
}

static void interleaved_says_its_chunks(void **state)
{
    char most[8];
    for (int count = 2; count <= ZR_MOST_CHUNKS; count++) {
        zr_pipeline_kind kind = ZR_PIPELINE_KIND_COUNT;
        int chunks = 0;
        char text[32];
        snprintf(text, sizeof text, "interleaved:%d", count);
        assert_true(zr_pipeline_kind_read(text, &kind, &chunks));
        assert_int_equal(kind, ZR_PIPELINE_INTERLEAVED);
        assert_int_equal(chunks, count);
    }
    snprintf(most, sizeof most, "to %d)", ZR_MOST_CHUNKS);
    assert_non_null(strstr(ZR_PIPELINE_KINDS, most));
}

static void what_is_no_schedule_changes_nothing(void **state)
{
    static const char *const none[] = {
        "",       "1f1",           "1f1b ",         "1F1B",           "gpipe:2",
        "zb",     "interleaved",   "interleaved:",  "interleaved:1",  "interleaved:9",
        "2bw:1",  "interleaved:0", "interleaved:x", "interleaved:22", "interleaved:-2",
        "zb-h10", "interleaved2",  "pipe",          "1f1b,gpipe",     "interleaved:2 ",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        zr_pipeline_kind kind = ZR_PIPELINE_KIND_COUNT;
        int chunks = -1;
        assert_false(zr_pipeline_kind_read(none[i], &kind, &chunks));
        assert_int_equal(kind, ZR_PIPELINE_KIND_COUNT);
        assert_int_equal(chunks, -1);
    }
}

static void two_schedules_are_asynchronous(void **state)
{
    for (int k = 0; k < ZR_PIPELINE_KIND_COUNT; k++)
        assert_int_equal(zr_pipeline_is_asynchronous((zr_pipeline_kind)k),
                         k == ZR_PIPELINE_PIPEDREAM || k == ZR_PIPELINE_2BW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_read_and_listed),
        cmocka_unit_test(interleaved_says_its_chunks),
        cmocka_unit_test(what_is_no_schedule_changes_nothing),
        cmocka_unit_test(two_schedules_are_asynchronous),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
