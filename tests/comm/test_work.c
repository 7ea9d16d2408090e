// What a rank of a pipeline is at fits into a word, and messages say it.
#include "comm/communicator.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void says(zr_work work, const char *words)
{
    char text[ZR_WORK_TEXT];
    zr_work_text(zr_work_pack(&work), text);
    assert_string_equal(text, words);
}

static void messages_have_the_place(void **state)
{
    says((zr_work){1, 4, 0, 2}, ", pipeline stage 1 of 4, chunk 0, micro-batch 2");
    says((zr_work){0, 2, 1, -1}, ", pipeline stage 0 of 2, chunk 1");
    says((zr_work){3, 4, -1, -1}, ", pipeline stage 3 of 4");
}

static void the_largest_fit(void **state)
{
    says((zr_work){1023, 1024, 127, INT_MAX - 1},
         ", pipeline stage 1023 of 1024, chunk 127, micro-batch 2147483646");
}

static void without_a_pipeline_there_is_nothing_to_say(void **state)
{
    says((zr_work){0, 1, 0, 3}, "");
    says((zr_work){0}, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_have_the_place),
        cmocka_unit_test(the_largest_fit),
        cmocka_unit_test(without_a_pipeline_there_is_nothing_to_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
