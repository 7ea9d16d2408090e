// Every field of the settings changes the plan's hash and appears in the JSON.
#include "fixture.h"
#include "base/json.h"
#include "plan/settings_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define SEED 1

static zr_settings some_settings(void)
{
    return (zr_settings){
        .stage = 3,
        .precision = zr_precision_of(ZERO_BF16, 2),
        .accumulation = 2,
        .state_vectors = 2,
        .reduce_bucket = 1000,
        .tiering = {.optimizer = ZERO_TIER_nvme, .on_device = 0.25, .reuse = 7},
    };
}

// Another value of the field.
static void change(const zr_field *field, void *value)
{
    switch (field->kind) {
    case ZR_FIELD_text: *(const char **)value = "another"; break;
    case ZR_FIELD_flag: *(bool *)value = !*(bool *)value; break;
    case ZR_FIELD_count: *(int *)value += 1; break;
    case ZR_FIELD_amount: *(int64_t *)value += 1; break;
    case ZR_FIELD_real: *(double *)value += 1e-15; break;
    case ZR_FIELD_dtype: *(zero_dtype *)value = ZERO_F64; break;
    case ZR_FIELD_tier: *(zero_tier *)value = ZERO_TIER_host; break;
    default: fail_msg("%s has fields of its own", field->name);
    }
}

static int change_each(zr_fields fields, zr_settings *settings, char *at, uint64_t hash)
{
    int changed = 0;
    for (int i = 0; i < fields.count; i++) {
        const zr_field *field = &fields.at[i];
        zr_fields inner = zr_fields_of(field->kind);
        if (inner.count) {
            changed += change_each(inner, settings, at + field->offset, hash);
            continue;
        }
        zr_settings before = *settings;
        change(field, at + field->offset);
        if (zr_settings_hash(settings, SEED) == hash)
            fail_msg("%s changes no hash", field->name);
        *settings = before;
        changed++;
    }
    return changed;
}

static void each_field_changes_the_hash(void **state)
{
    zr_settings settings = some_settings(), same = some_settings();
    uint64_t hash = zr_settings_hash(&settings, SEED);
    assert_true(hash == zr_settings_hash(&same, SEED));
    assert_true(hash != zr_settings_hash(&same, SEED + 1));
    int changed = change_each(zr_settings_fields(), &settings, (char *)&settings, hash);
    assert_int_equal(changed, zr_settings_fields().count - 2 +
                                  zr_fields_of(ZR_FIELD_precision).count +
                                  zr_fields_of(ZR_FIELD_tiering).count);
}

static void equal_values_in_two_fields_are_told_apart(void **state)
{
    zr_settings a = some_settings(), b = some_settings();
    a.exact_world = b.delayed = true;
    assert_true(zr_settings_hash(&a, SEED) != zr_settings_hash(&b, SEED));
}

static uint64_t hash_of_plan(const zr_settings *settings)
{
    fixture f;
    zero_error error = {0};
    zr_plan *plan = NULL;
    fixture_build(&f, 3, 1000, 100);
    assert_int_equal(zr_plan_create(&f.model, &(zero_shape){.batch = 2, .seq = 8}, settings,
                                    &(zr_machine){.ranks = 2, .threads = 1, .mapped = true}, &plan,
                                    &error),
                     ZERO_OK);
    uint64_t hash = plan->hash;
    zr_plan_destroy(plan);
    return hash;
}

// Neither changes the messages of this plan: the settings alone tell the ranks that they differ.
static void a_plan_s_hash_has_them(void **state)
{
    zr_settings settings = some_settings(), other = some_settings();
    other.tiering.reuse++;
    assert_true(hash_of_plan(&settings) != hash_of_plan(&other));
    other = settings;
    other.delayed = true;
    assert_true(hash_of_plan(&settings) != hash_of_plan(&other));
    assert_true(hash_of_plan(&settings) == hash_of_plan(&settings));
}

static void assert_fields(zr_fields fields, const json_t *object)
{
    assert_int_equal(json_object_size(object), fields.count);
    for (int i = 0; i < fields.count; i++) {
        const json_t *value = json_object_get(object, fields.at[i].name);
        zr_fields inner = zr_fields_of(fields.at[i].kind);
        assert_non_null(value);
        if (inner.count)
            assert_fields(inner, value);
    }
}

static void the_json_has_every_field(void **state)
{
    zr_settings settings = some_settings();
    zr_buffer text = {0};
    zero_error error = {0};
    json_t *json = NULL;
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_COMPACT);
    zr_settings_json(&settings, &w, NULL);
    assert_false(text.failed);
    assert_int_equal(zr_json_parse(text.data, text.length, "settings", &json, &error), ZERO_OK);
    assert_fields(zr_settings_fields(), json);
    const json_t *tiering = json_object_get(json, "tiering");
    const json_t *precision = json_object_get(json, "precision");
    assert_string_equal(json_string_value(json_object_get(precision, "accumulator")), "f32");
    assert_string_equal(json_string_value(json_object_get(precision, "name")), "bf16");
    assert_string_equal(json_string_value(json_object_get(tiering, "optimizer")), "nvme");
    assert_true(json_real_value(json_object_get(tiering, "on_device")) == 0.25);
    assert_int_equal(json_integer_value(json_object_get(tiering, "reuse")), 7);
    assert_true(json_is_false(json_object_get(json, "delayed")));
    json_decref(json);
    zr_buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_changes_the_hash),
        cmocka_unit_test(equal_values_in_two_fields_are_told_apart),
        cmocka_unit_test(a_plan_s_hash_has_them),
        cmocka_unit_test(the_json_has_every_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
