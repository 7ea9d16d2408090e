// Tensors are found by name in any order; of those that share a name, the first. Up to a hundred
// thousand at once.
#include "st_files.h"
#include "formats/pickle.h"

static const char *name_of(const void *user, int number)
{
    return ((const char *const *)user)[number];
}

static void test_any_order(void **state)
{
    static const char *const names[] = {"h.10", "wte", "h.2", "a", "wte", ""};
    zr_named *index;
    assert_int_equal(zr_name_index_create(name_of, names, ZR_COUNT(names), &index, NULL), ZERO_OK);
    for (int i = 0; i < ZR_COUNT(names); i++)
        assert_int_equal(zr_name_index_find(index, ZR_COUNT(names), names[i]), i == 4 ? 1 : i);
    assert_int_equal(zr_name_index_find(index, ZR_COUNT(names), "h.1"), -1);
    assert_int_equal(zr_name_index_find(index, ZR_COUNT(names), "z"), -1);
    assert_int_equal(zr_name_index_find(index, 0, "a"), -1);
    zr_free(index);
}

enum { MANY = 100000 };

static const char *one_of_many(const void *user, int number)
{
    return (const char *)user + (size_t)number * 16;
}

static void test_as_many_as_there_are(void **state)
{
    char *text = zr_alloc((size_t)MANY * 16, NULL), wanted[16];
    zr_named *index;
    // each number once
    for (int i = 0; i < MANY; i++)
        snprintf(text + (size_t)i * 16, 16, "t.%d", (int)((int64_t)i * 7919 % MANY));
    assert_int_equal(zr_name_index_create(one_of_many, text, MANY, &index, NULL), ZERO_OK);
    for (int i = 0; i < MANY; i++) {
        snprintf(wanted, sizeof wanted, "t.%d", i);
        int number = zr_name_index_find(index, MANY, wanted);
        assert_in_range(number, 0, MANY - 1);
        assert_string_equal(one_of_many(text, number), wanted);
    }
    zr_alloc_fail_at(1);
    zr_free(index);
    assert_int_equal(zr_name_index_create(one_of_many, text, MANY, &index, NULL), ZERO_ERR_MEMORY);
    assert_null(index);
    zr_free(text);
}

// A dict of a pickle: the last of those that share a key counts, keys that are no text have no
// name, and there may be many.
static void test_keys_of_a_pickle(void **state)
{
    char *text = zr_alloc((size_t)MANY * 16, NULL);
    zr_pickle_value *values = zr_alloc(2 * (size_t)MANY * sizeof *values, NULL);
    const zr_pickle_value **items = zr_alloc(2 * (size_t)MANY * sizeof *items, NULL);
    for (int i = 0; i < MANY; i++) {
        int length = snprintf(text + (size_t)i * 16, 16, "t.%d", i / 2); // each key twice
        values[2 * i] = (zr_pickle_value){.kind = i == 0 ? ZR_PICKLE_INTEGER : ZR_PICKLE_TEXT};
        if (i > 0)
            values[2 * i].text.at = text + (size_t)i * 16,
                       values[2 * i].text.length = (size_t)length;
        values[2 * i + 1] = (zr_pickle_value){.kind = ZR_PICKLE_INTEGER, .integer = i};
        items[2 * i] = &values[2 * i];
        items[2 * i + 1] = &values[2 * i + 1];
    }
    const zr_pickle_value dict = {.kind = ZR_PICKLE_DICT,
                                  .items = {.at = items, .count = 2 * (size_t)MANY}};
    const zr_pickle_value object = {.kind = ZR_PICKLE_OBJECT, .object = {.attributes = &dict}};
    zr_pickle_keys keys;
    assert_int_equal(zr_pickle_keys_create(&object, &keys, NULL), ZERO_OK);
    for (int i = 1; i < MANY; i += 2)
        assert_ptr_equal(zr_pickle_keys_find(&keys, text + (size_t)i * 16), &values[2 * i + 1]);
    assert_ptr_equal(zr_pickle_keys_find(&keys, "t.7"), zr_pickle_get(&dict, "t.7"));
    assert_null(zr_pickle_keys_find(&keys, "t.x"));
    zr_pickle_keys_free(&keys);
    assert_int_equal(zr_pickle_keys_create(NULL, &keys, NULL), ZERO_OK);
    assert_null(zr_pickle_keys_find(&keys, "t.7"));
    zr_pickle_keys_free(&keys);
    zr_free(items);
    zr_free(values);
    zr_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_order),
                                       cmocka_unit_test(test_as_many_as_there_are),
                                       cmocka_unit_test(test_keys_of_a_pickle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
