// The rows of `zero plan`: what tensor ranks exchange has a line of its own, and members in JSON.
#include "tools/plan_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const zr_plan_row rows[] = {
    {.stage = 1, .ranks = 4, .tensor = 2, .exchanged = 3000000, .micro_batch = 4, .largest = -1},
    {.stage = 2, .ranks = 4, .tensor = 2, .exchanged = 3000000, .micro_batch = 4, .largest = -1},
    {.stage = 2, .ranks = 4, .tensor = 2, .exchanged = 6000000, .micro_batch = 8, .largest = -1},
};

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (; (text = strstr(text, words)); text++)
        count++;
    return count;
}

static void a_table_says_what_tensor_ranks_exchange(void **state)
{
    zr_buffer text = {0};
    zr_plan_table(rows, 3, &text);
    assert_int_equal(count_of(text.data, "2 tensor ranks: each fetches"), 2);
    assert_non_null(strstr(text.data, "fetches 3.00 MB a step from the others (micro-batch 4)"));
    assert_non_null(strstr(text.data, "fetches 6.00 MB a step from the others (micro-batch 8)"));
    zr_buffer_free(&text);
}

static void alone_nothing_is_said(void **state)
{
    const zr_plan_row alone = {.stage = 1, .ranks = 4, .tensor = 1, .largest = -1};
    zr_buffer table = {0}, json = {0};
    zr_plan_table(&alone, 1, &table);
    zr_plan_json(&alone, 1, "m", "fp32", 1, NULL, NULL, &json);
    assert_null(strstr(table.data, "tensor"));
    assert_null(strstr(json.data, "tensor"));
    zr_buffer_free(&table);
    zr_buffer_free(&json);
}

static void json_has_the_bytes(void **state)
{
    zr_buffer json = {0};
    zr_plan_json(rows, 1, "m", "fp32", 1, NULL, NULL, &json);
    assert_non_null(strstr(json.data, "\"tensor\":2,\"exchanged\":3000000"));
    zr_buffer_free(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_says_what_tensor_ranks_exchange),
        cmocka_unit_test(alone_nothing_is_said),
        cmocka_unit_test(json_has_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
