// Every number in a manifest's state, beyond both ends of its range and of a wrong kind, is refused
// by name. What training writes is accepted.
#include "st_files.h"
#include "formats/manifest.h"

#include <stdlib.h>

static const char whole[] =
    "{\"step\": 3, \"updates\": 2, \"loss_scale\": {\"scale\": 65536.0, \"iteration\": 3, "
    "\"last_overflow\": -1, \"hysteresis\": 2}, \"gradient_scale\": 1, "
    "\"train_batch_size\": 0, \"seed\": -5, \"exact_micro_batch\": 0, \"train\": {\"seq\": 16, "
    "\"lines\": 0, \"micro_batch\": 1, \"ranks\": 1, \"best_windows\": 1, \"resumed_from\": 0}}";

// the ends themselves are taken
static const struct {
    const char *object, *key, *least, *most;
} numbers[] = {
    {NULL, "step", "0", "1000000000000"},
    {NULL, "updates", "0", "1000000000000"},
    {NULL, "train_batch_size", "0", "1000000000000"},
    {NULL, "exact_micro_batch", "0", "1000000000000"},
    {NULL, "gradient_scale", "1e-40", "1e40"},
    {"loss_scale", "scale", "1e-40", "1e40"},
    {"loss_scale", "iteration", "0", "1000000000000"},
    {"loss_scale", "last_overflow", "-1", "1000000000000"},
    {"loss_scale", "hysteresis", "0", "1000000"},
    {"train", "seq", "1", "1000000000000"},
    {"train", "lines", "0", "1000000000000"},
    {"train", "micro_batch", "1", "1000000000000"},
    {"train", "ranks", "1", "1000000"},
    {"train", "best_windows", "1", "1000000000000"},
    {"train", "resumed_from", "0", "1000000000000"},
};

// The state with numbers[i] as `value`, a JSON text; NULL: without it.
static zero_status check(int i, const char *value, zero_error *error)
{
    json_t *state = json_loads(whole, 0, NULL),
           *at = numbers[i].object ? json_object_get(state, numbers[i].object) : state;
    assert_non_null(at);
    if (value)
        json_object_set_new(at, numbers[i].key, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(at, numbers[i].key);
    *error = (zero_error){0};
    zero_status status = zr_state_check(state, "DIR/manifest.json", error);
    json_decref(state);
    return status;
}

static void put_name(int i, char *out, size_t size)
{
    const char *object = numbers[i].object;
    snprintf(out, size, "\"%s%s%s\"", object ? object : "", object ? "." : "", numbers[i].key);
}

static void refused(int i, const char *value)
{
    zero_error error;
    char key[64];
    put_name(i, key, sizeof key);
    if (check(i, value, &error) != ZERO_ERR_DATA)
        fail_msg("%s is taken as %s", key, value ? value : "missing");
    assert_contains(error.message, "\"DIR/manifest.json\"");
    assert_contains(error.message, key);
    assert_contains(error.message, numbers[i].least);
}

// The next number beyond either end; of the reals, a little more.
static void refused_beyond(int i)
{
    char text[32];
    const bool count = numbers[i].most[1] != 'e';
    const double least = strtod(numbers[i].least, NULL), most = strtod(numbers[i].most, NULL);
    snprintf(text, sizeof text, count ? "%.0f" : "%.17g", count ? least - 1 : least * 0.999);
    refused(i, text);
    snprintf(text, sizeof text, count ? "%.0f" : "%.17g", count ? most + 1 : most * 1.001);
    refused(i, text);
    if (count)
        refused(i, "9223372036854775807");
}

static void every_number_has_its_range(void **state)
{
    static const char *const never[] = {
        "-2", "-9223372036854775808", "1e300", "-1e300", "\"3\"", "null", "true", "[]"};
    zero_error error;
    for (int i = 0; i < ZR_COUNT(numbers); i++) {
        for (int n = 0; n < ZR_COUNT(never); n++)
            refused(i, never[n]);
        refused_beyond(i);
        assert_int_equal(check(i, numbers[i].least, &error), ZERO_OK);
        assert_int_equal(check(i, numbers[i].most, &error), ZERO_OK);
    }
    refused(4, "0");
    refused(5, "0.0");
    refused(0, "1.5");
}

static bool is_tried(const char *key)
{
    char wanted[64], name[64];
    snprintf(wanted, sizeof wanted, "\"%s\"", key);
    for (int i = 0; i < ZR_COUNT(numbers); i++) {
        put_name(i, name, sizeof name);
        if (!strcmp(name, wanted))
            return true;
    }
    return false;
}

static void no_number_is_left_out(void **state)
{
    int count = 0;
    for (const char *key; (key = zr_state_check_key(count)); count++)
        if (!is_tried(key))
            fail_msg("\"%s\" has no row in this test", key);
    assert_int_equal(count, ZR_COUNT(numbers));
}

static void what_is_missing(void **state)
{
    zero_error error;
    for (int i = 0; i < ZR_COUNT(numbers); i++) {
        bool needed = !numbers[i].object || numbers[i].object[0] == 'l';
        if (needed && strcmp(numbers[i].key, "exact_micro_batch"))
            refused(i, NULL);
        // of older programs, or of no training of ours
        else
            assert_int_equal(check(i, NULL, &error), ZERO_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_its_range),
        cmocka_unit_test(no_number_is_left_out),
        cmocka_unit_test(what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
