// A struct of an older program, of the current one, and of a newer one.
#include "base/errors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

typedef struct first {
    size_t struct_size;
    const char *path;
    int count;
} first;

typedef struct today {
    size_t struct_size;
    const char *path;
    int count;
    double added;
    const char *also;
} today;

typedef struct newer {
    today known;
    int64_t unknown;
} newer;

#define FIRST ZR_STRUCT_UPTO(today, count)

static zero_status take(const void *from, today *out, zero_error *error)
{
    return zr_struct_take("call: options", from, FIRST, out, sizeof *out, error);
}

static void one_of_today_is_copied(void **state)
{
    const char path[] = "a";
    const today given = {sizeof given, path, 3, 0.5, path + 1};
    today taken;
    assert_int_equal(take(&given, &taken, NULL), ZERO_OK);
    assert_memory_equal(&given, &taken, sizeof given);
}

static void what_an_older_one_lacks_is_zero(void **state)
{
    struct {
        first given;
        char after[sizeof(today)];
    } old = {.given = {sizeof(first), "old", 7}};
    today taken;
    memset(old.after, 0x55, sizeof old.after);
    memset(&taken, 0xaa, sizeof taken);
    assert_int_equal(take(&old, &taken, NULL), ZERO_OK);
    assert_string_equal(taken.path, "old");
    assert_int_equal(taken.count, 7);
    assert_true(taken.added == 0);
    assert_null(taken.also);
    assert_int_equal(taken.struct_size, sizeof(today));
}

static void a_newer_one_is_taken_where_it_uses_nothing_new(void **state)
{
    newer given = {.known = {sizeof given, "new", 1, 2, NULL}};
    today taken;
    zero_error error = {0};
    assert_int_equal(take(&given, &taken, &error), ZERO_OK);
    assert_true(taken.added == 2);
    given.unknown = (int64_t)1 << 56;
    assert_int_equal(take(&given, &taken, &error), ZERO_ERR_USAGE);
    assert_non_null(
        strstr(error.message, "call: options.struct_size is 48, this library expects 40"));
    assert_non_null(strstr(error.message, "newer"));
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    const size_t sizes[] = {0, 8, FIRST - 1, sizeof(today) + 4097, SIZE_MAX};
    for (int i = 0; i < ZR_COUNT(sizes); i++) {
        const today given = {.struct_size = sizes[i]};
        today taken = {.count = 5};
        zero_error error = {0};
        assert_int_equal(take(&given, &taken, &error), ZERO_ERR_USAGE);
        assert_non_null(strstr(error.message, "struct_size"));
        assert_int_equal(taken.count, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_today_is_copied),
        cmocka_unit_test(what_an_older_one_lacks_is_zero),
        cmocka_unit_test(a_newer_one_is_taken_where_it_uses_nothing_new),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
