// Labels of a classifier: their order, their numbers, and what is refused.
#include "base/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static zr_labels made;

static void make(const char *const *names)
{
    made = (zr_labels){.count = 0};
    for (int i = 0; names[i]; i++)
        assert_int_equal(zr_labels_add(&made, names[i], "f", NULL), ZERO_OK);
    assert_int_equal(zr_labels_sort(&made, NULL), ZERO_OK);
}

static void expect(const char *const *names)
{
    int count = 0;
    for (; names[count]; count++) {
        assert_true(count < made.count);
        assert_string_equal(zr_labels_name(&made, count), names[count]);
        assert_int_equal(zr_labels_find(&made, names[count], false), count);
    }
    assert_int_equal(count, made.count);
}

static void whole_numbers_ascend(void **state)
{
    make((const char *[]){"10", "9", "-2", "0", NULL});
    expect((const char *[]){"-2", "0", "9", "10", NULL});
}

static void other_names_are_in_the_order_of_bytes(void **state)
{
    make((const char *[]){"10", "9", "good", "Bad", NULL});
    expect((const char *[]){"10", "9", "Bad", "good", NULL});
    make((const char *[]){"10", "09", NULL});
    expect((const char *[]){"09", "10", NULL});
}

// A number means the label of that name; of labels that have no numbers as names, their own number.
static void numbers_find_labels(void **state)
{
    make((const char *[]){"a", "b", "1.5", NULL});
    assert_int_equal(zr_labels_find(&made, "2", true), 2);
    assert_int_equal(zr_labels_find(&made, "2", false), -1);
    assert_int_equal(zr_labels_find(&made, "3", true), -1);
    assert_int_equal(zr_labels_find(&made, "-1", true), -1);
    make((const char *[]){"0", "a", "b", NULL});
    assert_int_equal(zr_labels_find(&made, "0", true), 0);
    assert_int_equal(zr_labels_find(&made, "2", true), -1);
}

static void unnamed_labels_are_numbered(void **state)
{
    assert_int_equal(zr_labels_number(&made, 3, NULL), ZERO_OK);
    expect((const char *[]){"LABEL_0", "LABEL_1", "LABEL_2", NULL});
}

static void what_is_no_label_is_refused(void **state)
{
    zero_error error = {0};
    make((const char *[]){"a", NULL});
    assert_int_equal(zr_labels_add(&made, "a", "f:1", &error), ZERO_ERR_DATA);
    assert_string_equal(error.message, "f:1: two labels are called \"a\"");
    assert_int_equal(zr_labels_add(&made, "", "f:1", &error), ZERO_ERR_DATA);
    expect((const char *[]){"a", NULL});
}

static void too_many_are_refused(void **state)
{
    char name[200];
    zero_error error = {0};
    made = (zr_labels){.count = 0};
    for (int i = 0; i < ZR_MOST_LABELS; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(zr_labels_add(&made, name, "f", NULL), ZERO_OK);
    }
    assert_int_equal(zr_labels_add(&made, "more", "f", &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "would be label 1025"));
    made = (zr_labels){.count = 0};
    zero_status status = ZERO_OK;
    int count = 0;
    for (; status == ZERO_OK; count++) {
        snprintf(name, sizeof name, "%0199d", count);
        status = zr_labels_add(&made, name, "f", NULL);
    }
    assert_int_equal(count - 1, ZR_LABELS_TEXT / 200);
    assert_true(made.bytes <= ZR_LABELS_TEXT);
}

static void lists_are_short(void **state)
{
    char text[256];
    make((const char *[]){"a", "b", "c", NULL});
    zr_labels_list(&made, text, sizeof text);
    assert_string_equal(text, "\"a\", \"b\" and \"c\"");
    zr_labels_number(&made, 20, NULL);
    zr_labels_list(&made, text, sizeof text);
    assert_non_null(strstr(text, "\"LABEL_11\" and 8 more"));
    // Names that there is no room for are left out whole.
    make((const char *[]){"\303\244\303\266", "\303\244\303\274",
                          "\303\244\342\202\254\342\202\254\342\202\254", NULL});
    zr_labels_list(&made, text, 30);
    assert_string_equal(text, "\"\303\244\303\266\", \"\303\244\303\274\" and 1 more");
    for (size_t size = 21; size < 29; size++) {
        zr_labels_list(&made, text, size);
        assert_string_equal(text, "\"\303\244\303\266\" and 2 more");
    }
    zr_labels_list(&made, text, 20);
    assert_string_equal(text, "3 long names");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_ascend),
        cmocka_unit_test(other_names_are_in_the_order_of_bytes),
        cmocka_unit_test(numbers_find_labels),
        cmocka_unit_test(unnamed_labels_are_numbered),
        cmocka_unit_test(what_is_no_label_is_refused),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(lists_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
