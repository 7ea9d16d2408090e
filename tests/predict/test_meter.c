// What the meter's moves of memory do, since their rates count only if they move what they say.
#include "predict/meter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { ROWS = 5, WIDTH = 48, LINE = 16 }; // words

static void gathers_a_word_of_each_line_of_the_rows(void **state)
{
    static const int32_t list[] = {4, 0, 2, 4};
    uint32_t words[ROWS * WIDTH], want = 0;
    for (uint32_t i = 0; i < ROWS * WIDTH; i++)
        words[i] = 1 + i * i;
    for (int i = 0; i < ZR_COUNT(list); i++)
        for (int at = 0; at < WIDTH; at += LINE)
            want += words[list[i] * WIDTH + at];
    for (int threads = 1; threads <= 3; threads++)
        assert_int_equal(zr_memory_gather(words, WIDTH, list, ZR_COUNT(list), threads), want);
    assert_int_equal(zr_memory_gather(words, WIDTH, list, 0, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gathers_a_word_of_each_line_of_the_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
