// Small allocations, the buffer, and failures that tests inject.
#include "scratch_directory.h"

#include "base/alloc.h"

#include <limits.h>

// The sanitizers end the program at an impossible size, unless this says that NULL is wanted, as
// without them.
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static void memory_is_zeroed_and_copied(void **state)
{
    char *p = zr_alloc(1000, NULL);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    memset(p, 7, 1000);
    p = zr_realloc(p, 5000, NULL);
    assert_int_equal(p[999], 7);
    zr_free(p);
    p = zr_alloc(0, NULL);
    assert_non_null(p);
    zr_free(p);
    zr_free(NULL);
    char *text = zr_strdup("abc", NULL), *longer = zr_sprintf(NULL, "%s-%d", text, 5);
    assert_string_equal(longer, "abc-5");
    zr_free(text);
    zr_free(longer);
}

static void impossible_sizes_are_errors(void **state)
{
    zero_error error = {0};
    assert_null(zr_alloc(SIZE_MAX / 2 + 1, &error));
    assert_int_equal(error.status, ZERO_ERR_MEMORY);
    assert_contains(error.message, "9223372036854775808");
}

static void the_nth_allocation_fails_once(void **state)
{
    for (int nth = 1; nth <= 5; nth++) {
        int64_t before = zr_alloc_count();
        zr_alloc_fail_at(nth);
        for (int i = 1; i <= 5; i++) {
            zero_error error = {0};
            void *p = i % 2 ? zr_alloc(8, &error) : zr_realloc(NULL, 8, &error);
            assert_int_equal(p == NULL, i == nth);
            assert_int_equal(error.status, i == nth ? ZERO_ERR_MEMORY : ZERO_OK);
            zr_free(p);
        }
        assert_int_equal(zr_alloc_count() - before, 5);
    }
    zr_alloc_fail_at(1);
    zr_alloc_fail_at(0);
    void *p = zr_alloc(8, NULL);
    assert_non_null(p);
    zr_free(p);
}

// It grows only where it is full, keeps what is in it, and stays as it was where there is no
// memory.
static void a_full_list_grows(void **state)
{
    int *list = NULL, capacity = 0;
    for (int i = 0; i < 1000; i++) {
        int before = capacity, *grown = zr_list_grow(list, i, &capacity, sizeof *list, NULL);
        assert_non_null(grown);
        assert_true(capacity > i && (i == before || (capacity == before && grown == list)));
        list = grown;
        list[i] = i;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(list[i], i);
    int before = capacity;
    zr_alloc_fail_at(1);
    assert_null(zr_list_grow(list, capacity, &capacity, sizeof *list, NULL));
    assert_int_equal(capacity, before);
    zr_free(list);
    int most = INT_MAX / 2 + 1;
    zero_error error;
    assert_null(zr_list_grow(NULL, most, &most, 1, &error));
    assert_int_equal(error.status, ZERO_ERR_MEMORY);
}

static void a_failed_realloc_leaves_the_old(void **state)
{
    char *p = zr_strdup("kept", NULL);
    zr_alloc_fail_at(1);
    assert_null(zr_realloc(p, 1 << 20, NULL));
    assert_string_equal(p, "kept");
    zr_free(p);
}

static void buffers_grow_and_stay_terminated(void **state)
{
    zr_buffer buffer = {0};
    zr_buffer_append(&buffer, "", 0);
    assert_string_equal(buffer.data, "");
    char expected[30001] = {0};
    for (int i = 0; i < 10000; i++) {
        zr_buffer_printf(&buffer, "%d", i % 10);
        zr_buffer_append(&buffer, "ab", 2);
        snprintf(expected + 3 * i, 4, "%dab", i % 10);
    }
    assert_int_equal(buffer.length, 30000);
    assert_string_equal(buffer.data, expected);
    assert_false(buffer.failed);
    zr_buffer_free(&buffer);
    assert_null(buffer.data);
}

static void a_buffer_s_failure_is_sticky(void **state)
{
    zr_buffer buffer = {0};
    zr_buffer_printf(&buffer, "kept");
    zr_alloc_fail_at(1);
    char large[4096] = {0};
    zr_buffer_append(&buffer, large, sizeof large);
    assert_true(buffer.failed);
    zr_buffer_append(&buffer, "more", 4);
    zr_buffer_printf(&buffer, "more");
    assert_true(buffer.failed);
    assert_string_equal(buffer.data, "kept");
    zr_buffer_free(&buffer);
    zr_buffer_append(&buffer, "x", SIZE_MAX - 1); // refused before a byte is read
    assert_true(buffer.failed);
    zr_buffer_free(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_copied),
        cmocka_unit_test(impossible_sizes_are_errors),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(a_full_list_grows),
        cmocka_unit_test(a_failed_realloc_leaves_the_old),
        cmocka_unit_test(buffers_grow_and_stay_terminated),
        cmocka_unit_test(a_buffer_s_failure_is_sticky),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
