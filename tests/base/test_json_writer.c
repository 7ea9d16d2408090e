// The JSON that is written as it goes: jansson reads back what was put, and misuse is noticed.
#include "scratch_directory.h"

#include "base/json_writer.h"
#include <math.h>

static void containers_nest_and_commas_stand_between(void **state)
{
    static const char *const expected[] = {
        [ZR_JSON_COMPACT] =
            "{\"step\":12,\"losses\":[2.5,null],\n \"mean\":0.25,\"note\":\"a\\\"b\","
            "\"empty\":{},\"ok\":true,\"none\":null,\"as_it_is\":[1, 2]\n}",
        [ZR_JSON_SPACED] =
            "{\"step\": 12, \"losses\": [2.5, null],\n \"mean\": 0.25, \"note\": \"a\\\"b\", "
            "\"empty\": {}, \"ok\": true, \"none\": null, \"as_it_is\": [1, 2]\n}"};
    for (int style = ZR_JSON_COMPACT; style <= ZR_JSON_SPACED; style++) {
        zr_buffer out = {0};
        zr_json_writer w = zr_json_writer_on(&out, (zr_json_style)style);
        zr_json_begin_object(&w, NULL);
        zr_json_integer(&w, "step", 12);
        zr_json_begin_array(&w, "losses");
        zr_json_real(&w, NULL, 2.5);
        zr_json_real(&w, NULL, NAN);
        zr_json_end(&w);
        zr_json_line(&w, 1);
        zr_json_fixed(&w, "mean", 2, 0.25);
        zr_json_text(&w, "note", "a\"b");
        zr_json_begin_object(&w, "empty");
        zr_json_end(&w);
        zr_json_flag(&w, "ok", true);
        zr_json_text(&w, "none", NULL);
        zr_json_verbatim(&w, "as_it_is", "[1, 2]");
        zr_json_line(&w, 0);
        zr_json_end(&w);
        assert_false(out.failed);
        assert_string_equal(out.data, expected[style]);
        json_t *read = NULL;
        assert_int_equal(zr_json_parse(out.data, out.length, "test", &read, NULL), ZERO_OK);
        json_decref(read);
        zr_buffer_free(&out);
    }
}

// Only the outermost value's items have lines of their own, unless a line is requested.
static void members_are_indented(void **state)
{
    zr_buffer out = {0};
    zr_json_writer w = zr_json_writer_on(&out, ZR_JSON_INDENTED);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "a", "b");
    zr_json_integers(&w, "list", (const int64_t[]){1, 2}, 2);
    zr_json_integers(&w, "none", NULL, 0);
    zr_json_begin_object(&w, "deep");
    zr_json_line(&w, 4);
    zr_json_integer(&w, "c", 3);
    zr_json_finish(&w);
    assert_false(out.failed);
    assert_string_equal(out.data, "{\n  \"a\": \"b\",\n  \"list\": [1, 2],\n  \"none\": [],\n"
                                  "  \"deep\": {\n    \"c\": 3}\n}\n");
    zr_buffer_free(&out);
}

static void misuse_fails(void **state)
{
    for (int mistake = 0; mistake < 4; mistake++) {
        zr_buffer out = {0};
        zr_json_writer w = zr_json_writer_on(&out, ZR_JSON_COMPACT);
        zr_json_begin_object(&w, NULL);
        if (mistake == 0)
            zr_json_integer(&w, NULL, 1); // an object's item has a key
        if (mistake == 1) {
            zr_json_begin_array(&w, "list");
            zr_json_integer(&w, "key", 1); // a list's has none
        }
        if (mistake == 2) {
            zr_json_end(&w);
            zr_json_end(&w); // of nothing
        }
        if (mistake == 3)
            for (int i = 0; i < ZR_JSON_MAX_DEPTH; i++)
                zr_json_begin_object(&w, "deeper");
        assert_true(out.failed);
        zr_buffer_free(&out);
    }
}

static void numbers_are_written_as_said(void **state)
{
    zr_buffer out = {0};
    zr_json_writer w = zr_json_writer_on(&out, ZR_JSON_COMPACT);
    zr_json_begin_array(&w, NULL);
    zr_json_digits(&w, NULL, 3, 12345.678);
    zr_json_fixed(&w, NULL, 0, 1.5e300);
    zr_json_fixed(&w, NULL, 4, INFINITY);
    zr_json_real(&w, NULL, 1);
    zr_json_integer(&w, NULL, INT64_MIN);
    zr_json_end(&w);
    assert_false(out.failed);
    assert_int_equal(strncmp(out.data, "[1.23e+04,1500000", 17), 0);
    assert_non_null(strstr(out.data, ",null,1.0,-9223372036854775808]"));
    zr_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(containers_nest_and_commas_stand_between),
        cmocka_unit_test(members_are_indented),
        cmocka_unit_test(misuse_fails),
        cmocka_unit_test(numbers_are_written_as_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
