// Tables of Markdown whose columns line up.
#include "tune/compare_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void columns_line_up(void **state)
{
    static zr_table table;
    zr_buffer out = {0};
    zr_table_row(&table);
    zr_table_cell(&table, "way");
    zr_table_cell(&table, "step");
    zr_table_row(&table);
    zr_table_cell(&table, "stage %d", 3);
    zr_table_cell(&table, "-");
    zr_table_write(&table, &out);
    assert_false(out.failed);
    assert_string_equal(out.data, "| way     | step |\n"
                                  "|---------|------|\n"
                                  "| stage 3 | -    |\n");
    zr_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_line_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
