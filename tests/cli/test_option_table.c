// The rows of options: each option has a row with its own name, and with what its kind needs.
#include "option_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_every_option_has_one_row(void **state)
{
    int rows[CLI_OPTIONS] = {0};
    for (int i = 0; i < cli_option_row_count(); i++)
        rows[cli_option_row_at(i)->id]++;
    for (int id = 0; id < CLI_OPTIONS; id++) {
        assert_int_equal(rows[id], 1);
        assert_int_equal(cli_option_row((cli_option_id)id)->id, id);
    }
}

static void test_names_are_unique(void **state)
{
    for (int i = 0; i < cli_option_row_count(); i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(cli_option_row_at(i)->name, cli_option_row_at(j)->name);
}

static void test_rows_have_what_their_kind_needs(void **state)
{
    for (int i = 0; i < cli_option_row_count(); i++) {
        const cli_option *row = cli_option_row_at(i);
        assert_non_null(row->help);
        assert_true(row->commands);
        assert_int_equal(row->kind == CLI_FLAG, row->argument == NULL);
        assert_true(row->choices || row->kind != CLI_CHOICE);
        assert_int_equal(row->kind >= CLI_INTEGER, row->most > row->least);
        for (int d = 0; d < CLI_MOST_WORDINGS; d++)
            assert_int_equal(row->differs[d].commands & ~row->commands, 0);
    }
}

// Values that completion proposes for an option of another kind are words of its help, or in its
// range.
static void test_proposed_values_are_those_of_the_help(void **state)
{
    int proposed = 0;
    for (int i = 0; i < cli_option_row_count(); i++) {
        const cli_option *row = cli_option_row_at(i);
        if (!row->choices || row->kind == CLI_CHOICE)
            continue;
        char values[256];
        snprintf(values, sizeof values, "%s", row->choices + (*row->choices == ','));
        for (char *rest = values, *value; (value = strsep(&rest, "|")); proposed++) {
            if (strcmp(value, "FILE") == 0)
                continue;
            char *colon = strchr(value, ':'), *end;
            double number = strtod(value, &end);
            if (colon && row->id == OPT_SCHEDULE)
                colon[1] = 0; // the help has interleaved:CHUNKS
            bool in_range = !*end && row->most && number >= row->least && number <= row->most;
            bool named =
                strstr(row->help, value) || (row->standard && strstr(row->standard, value));
            assert_true(in_range || named);
        }
    }
    assert_true(proposed >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option_has_one_row),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_rows_have_what_their_kind_needs),
        cmocka_unit_test(test_proposed_values_are_those_of_the_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
