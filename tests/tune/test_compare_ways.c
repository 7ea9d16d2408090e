// The ways of a comparison: which there are on how many ranks, and that their configurations differ
// in nothing but the way.
#include "tune/compare_ways.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char base_text[] =
    "{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 3,"
    " \"gradient_accumulation_steps\": 1, \"zero_optimization\": {\"stage\": 2,"
    " \"reduce_bucket_size\": 77, \"offload_optimizer\": {\"device\": \"nvme\","
    " \"nvme_path\": \"/elsewhere\"}}, \"optimizer\": {\"type\": \"AdamW\"}, \"pipeline\": "
    "{\"stages\": 1},"
    " \"tensorboard\": {\"enabled\": true}, \"wall_clock_breakdown\": true, \"libzero\": "
    "{\"seed\": 5, \"offload\": \"auto\"}}";

static const zr_way_batch batch = {.samples = 24, .micro_batch = 3};

static const zr_way *named(const zr_way *ways, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    return NULL;
}

static void every_way_has_all_ranks(void **state)
{
    static const int numbers[] = {2, 3, 4, 6, 8, 16};
    for (int n = 0; n < ZR_COUNT(numbers); n++) {
        zr_way ways[ZR_MOST_WAYS];
        int count = zr_ways_list(numbers[n], true, ways);
        assert_int_equal(count, ZR_MOST_WAYS);
        for (int i = 0; i < count; i++) {
            int ranks = ways[i].data * ways[i].tensor * ways[i].stages;
            assert_true(ways[i].needs[0] || ranks == numbers[n]);
            assert_true(ways[i].effort[0] && ways[i].code[0]);
        }
    }
}

static void three_axes_need_eight_ranks(void **state)
{
    zr_way ways[ZR_MOST_WAYS];
    int count = zr_ways_list(2, false, ways);
    assert_int_equal(count, ZR_MOST_WAYS - 1); // without NVMe
    const zr_way *way = named(ways, count, "3D: data, tensor, pipeline");
    assert_non_null(strstr(way->needs, "--ranks 8"));
    count = zr_ways_list(4, false, ways);
    way = named(ways, count, "tensor and pipeline");
    assert_true(!way->needs[0] && way->data == 1 && way->stage == 0);
    count = zr_ways_list(16, false, ways);
    way = named(ways, count, "3D: data, tensor, pipeline");
    assert_true(!way->needs[0] && way->data == 4 && way->stage == 1);
}

static json_t *config_of(const zr_way *way)
{
    json_t *base, *config;
    assert_int_equal(zr_json_parse(base_text, strlen(base_text), "base", &base, NULL), ZERO_OK);
    char *text = zr_way_config(way, base, &batch, "/scratch", NULL);
    assert_non_null(text);
    assert_int_equal(zr_json_parse(text, strlen(text), "way", &config, NULL), ZERO_OK);
    zr_free(text);
    json_decref(base);
    return config;
}

static int64_t number(const json_t *config, const char *section, const char *key)
{
    const json_t *in = section ? json_object_get(config, section) : config;
    return json_integer_value(json_object_get(in, key));
}

static void a_step_has_the_same_samples(void **state)
{
    zr_way ways[ZR_MOST_WAYS];
    int count = zr_ways_list(8, true, ways);
    for (int i = 0; i < count; i++) {
        json_t *config = config_of(&ways[i]);
        int64_t micro_batch = number(config, NULL, "train_micro_batch_size_per_gpu");
        int64_t accumulation = number(config, NULL, "gradient_accumulation_steps");
        assert_int_equal(micro_batch, batch.micro_batch);
        assert_int_equal(micro_batch * accumulation * ways[i].data, batch.samples);
        assert_null(json_object_get(config, "train_batch_size"));
        assert_null(json_object_get(json_object_get(config, "pipeline"), "stages"));
        assert_int_equal(number(config, "zero_optimization", "stage"), ways[i].stage);
        json_decref(config);
    }
}

static const char *place(const json_t *config, const char *section, const char *key)
{
    const json_t *zero = json_object_get(config, "zero_optimization");
    return json_string_value(json_object_get(json_object_get(zero, section), key));
}

static void states_lie_where_the_way_says(void **state)
{
    zr_way ways[ZR_MOST_WAYS];
    int count = zr_ways_list(2, true, ways);
    json_t *data = config_of(named(ways, count, "data parallelism"));
    json_t *host = config_of(named(ways, count, "ZeRO stage 3, states on the host"));
    json_t *nvme = config_of(named(ways, count, "ZeRO stage 3, states on NVMe"));
    assert_string_equal(place(data, "offload_optimizer", "device"), "none");
    assert_null(place(data, "offload_optimizer", "nvme_path"));
    assert_string_equal(place(host, "offload_param", "device"), "cpu");
    assert_string_equal(place(nvme, "offload_optimizer", "nvme_path"), "/scratch");
    assert_string_equal(place(nvme, "offload_param", "device"), "nvme");
    json_decref(data);
    json_decref(host);
    json_decref(nvme);
}

static void the_rest_is_the_users(void **state)
{
    zr_way ways[ZR_MOST_WAYS];
    int count = zr_ways_list(2, false, ways);
    json_t *config = config_of(named(ways, count, "tensor parallelism"));
    assert_int_equal(number(config, "zero_optimization", "reduce_bucket_size"), 77);
    assert_int_equal(number(config, "libzero", "seed"), 5);
    assert_non_null(json_object_get(config, "optimizer"));
    assert_null(json_object_get(config, "tensorboard"));
    assert_null(json_object_get(config, "wall_clock_breakdown"));
    assert_null(json_object_get(json_object_get(config, "libzero"), "offload"));
    json_decref(config);
}

// Tables of Markdown whose columns line up.
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_has_all_ranks),
        cmocka_unit_test(three_axes_need_eight_ranks),
        cmocka_unit_test(a_step_has_the_same_samples),
        cmocka_unit_test(states_lie_where_the_way_says),
        cmocka_unit_test(the_rest_is_the_users),
        cmocka_unit_test(columns_line_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
