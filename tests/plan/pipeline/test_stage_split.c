// Splits of a model among pipeline stages: what each method gives, what is said of it, and what is
// refused with which numbers. That a division is the best one is in test_stage_divide.c.
#include "plan/pipeline/stage_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { BLOCKS = 12, UNITS = BLOCKS + 2 };

typedef struct model { // an embedding, blocks of time 1 and a head of time 5
    zr_unit_cost units[UNITS];
    int sets[UNITS * 2];
    zr_division_of_units costs; // without stages and chunks
} model;

static void make(model *m)
{
    static const char *const names[BLOCKS] = {"h.0", "h.1", "h.2", "h.3", "h.4",  "h.5",
                                              "h.6", "h.7", "h.8", "h.9", "h.10", "h.11"};
    *m = (model){.costs = {.units = m->units, .count = UNITS, .sets = m->sets}};
    m->units[0] =
        (zr_unit_cost){.name = "embedding", .kind = "embedding", .states = 39, .parameters = 39};
    for (int b = 0; b < BLOCKS; b++)
        m->units[b + 1] = (zr_unit_cost){.name = names[b],
                                         .kind = "block",
                                         .time = 1,
                                         .states = 7,
                                         .activations = 2,
                                         .parameters = 7};
    m->units[UNITS - 1] = (zr_unit_cost){.name = "head", .kind = "head", .time = 5, .states = 39};
    for (int c = 0; c < UNITS * 2; c++)
        m->sets[c] = 1;
}

static void check(const zr_pipeline_split *split)
{
    int taken[UNITS] = {0};
    double share = 0;
    for (int s = 0; s < split->stages; s++) {
        for (int c = 0; c < split->chunks; c++) {
            const int *first = &split->first[c * split->stages + s];
            assert_true(first[1] > first[0]);
            for (int u = first[0]; u < first[1]; u++)
                taken[u]++;
        }
        share += split->stage[s].share;
    }
    for (int u = 0; u < UNITS; u++)
        assert_int_equal(taken[u], 1);
    assert_true(share > 0.999 && share < 1.001);
    assert_true(split->imbalance >= 0.999 && split->imbalance <= split->stages);
}

static zero_status split_make(const model *m, const zr_pipeline_spec *spec, zr_pipeline_split *out,
                              zero_error *error)
{
    zr_division_of_units of = m->costs;
    of.stages = spec->stages;
    of.chunks = spec->chunks;
    return zr_pipeline_split_make(spec, &of, out, error);
}

static zr_pipeline_split split_of(const model *m, zr_pipeline_spec spec)
{
    zr_pipeline_split split;
    zero_error error = {0};
    spec.chunks = ZR_MAX(spec.chunks, 1);
    if (split_make(m, &spec, &split, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    check(&split);
    return split;
}

static void expect_first(zr_pipeline_split split, const int *first)
{
    for (int c = 0; c < split.stages * split.chunks; c++)
        assert_int_equal(split.first[c], first[c]);
    zr_pipeline_split_free(&split);
}

static void expect_words(const model *m, zr_pipeline_split split, int stage, const char *words)
{
    zr_buffer text = {0};
    zr_pipeline_stage_list_units(m->units, split.first, split.stages, split.chunks, stage, &text);
    assert_string_equal(text.data, words);
    zr_buffer_free(&text);
    zr_pipeline_split_free(&split);
}

static void each_method_has_its_division(void **state)
{
    model m;
    make(&m);
    expect_first(split_of(&m, (zr_pipeline_spec){.stages = 4}), (int[]){0, 5, 9, 13});
    expect_first(split_of(&m, (zr_pipeline_spec){.stages = 4, .method = ZR_SPLIT_UNIFORM}),
                 (int[]){0, 4, 8, 11});
    expect_first(split_of(&m, (zr_pipeline_spec){.stages = 4, .method = ZR_SPLIT_PARAMETERS}),
                 (int[]){0, 1, 5, 9});
    expect_first(
        split_of(&m, (zr_pipeline_spec){.stages = 4, .method = ZR_SPLIT_TYPE, .regex = "^BLOCK$"}),
        (int[]){0, 4, 7, 10});
    expect_first(
        split_of(&m, (zr_pipeline_spec){.stages = 2, .method = ZR_SPLIT_TYPE, .regex = "h[.]1"}),
        (int[]){0, 12});
    expect_first(split_of(&m, (zr_pipeline_spec){.stages = 2, .split_count = 2, .split = {0, 9}}),
                 (int[]){0, 9});
}

static void every_number_of_stages_has_a_split(void **state)
{
    model m;
    make(&m);
    for (int method = 0; method < ZR_SPLIT_METHOD_COUNT; method++)
        for (int chunks = 1; chunks <= 3; chunks++)
            for (int stages = 1; stages * chunks <= UNITS; stages++) {
                zr_pipeline_split split = split_of(&m, (zr_pipeline_spec){.stages = stages,
                                                                          .chunks = chunks,
                                                                          .method = method,
                                                                          .regex = "block"});
                zr_pipeline_split_free(&split);
            }
}

static void stages_have_units_and_loads(void **state)
{
    model m;
    make(&m);
    const zr_pipeline_spec two = {.stages = 2, .split_count = 2, .split = {0, 10}},
                           four = {
                               .stages = 2, .chunks = 2, .split_count = 4, .split = {0, 2, 3, 13}};
    expect_words(&m, split_of(&m, two), 0, "embedding, h.0 to h.8");
    expect_words(&m, split_of(&m, two), 1, "h.9 to h.11, head");
    expect_words(&m, split_of(&m, four), 0, "embedding, h.0; h.2 to h.11");
    zr_pipeline_split split = split_of(&m, two);
    assert_true(split.stage[0].time == 9 && split.stage[1].time == 8);
    assert_true(split.stage[0].share == 9. / 17);
    assert_true(split.imbalance > 1.058 && split.imbalance < 1.059);
    assert_int_equal(split.stage[0].bytes, 39 + 9 * (7 + 2));
    zr_pipeline_split_free(&split);
}

static void refused(const model *m, zr_pipeline_spec spec, zero_status status, const char *words)
{
    zr_pipeline_split split;
    zero_error error = {0};
    spec.chunks = ZR_MAX(spec.chunks, 1);
    assert_int_equal(split_make(m, &spec, &split, &error), status);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" lacks \"%s\"", error.message, words);
    assert_null(split.first);
}

static void too_few_units_are_refused(void **state)
{
    model m;
    make(&m);
    zr_pipeline_split split = {0};
    zero_error error = {0};
    const zr_pipeline_spec spec = {.stages = 5, .chunks = 3};
    assert_int_equal(split_make(&m, &spec, &split, &error), ZERO_ERR_CONFIG);
    assert_string_equal(error.message,
                        "dividing 14 units among 5 pipeline stages of 3 chunks: each of the 15 "
                        "chunks needs a unit; at most 4 pipeline stages of 3 chunks are possible");
}

static void wrong_splits_are_refused(void **state)
{
    model m;
    make(&m);
    refused(&m, (zr_pipeline_spec){.stages = 2, .split_count = 3, .split = {0, 3, 6}},
            ZERO_ERR_CONFIG, "the split has 3 numbers: 2 pipeline stages of 1 chunk need 2");
    refused(&m, (zr_pipeline_spec){.stages = 2, .split_count = 2, .split = {1, 3}}, ZERO_ERR_CONFIG,
            "the split begins with unit 1");
    refused(&m, (zr_pipeline_spec){.stages = 3, .split_count = 3, .split = {0, 6, 6}},
            ZERO_ERR_CONFIG, "the split has 6 after 6");
    refused(&m, (zr_pipeline_spec){.stages = 3, .split_count = 3, .split = {0, 6, -1}},
            ZERO_ERR_CONFIG, "the split has -1 after 6");
    refused(&m, (zr_pipeline_spec){.stages = 2, .split_count = 2, .split = {0, 14}},
            ZERO_ERR_CONFIG, "the split has 14: the model's units are 0 to 13");
}

static void wrong_types_are_refused(void **state)
{
    model m;
    make(&m);
    refused(&m, (zr_pipeline_spec){.stages = 2, .method = ZR_SPLIT_TYPE, .regex = "layer"},
            ZERO_ERR_CONFIG,
            "no unit's kind or name matches it; the units are embedding, h.0 to h.11, head");
    refused(&m, (zr_pipeline_spec){.stages = 2, .method = ZR_SPLIT_TYPE, .regex = "("},
            ZERO_ERR_CONFIG, "units of type \"(\" among pipeline stages: this is no regular");
}

// The best division by time is embedding and 8 or 9 blocks. Memory moves it, and then has no room.
static void memory_limits_the_division(void **state)
{
    model m;
    make(&m);
    m.sets[0] = 4;
    m.costs.memory_limit = 39 + 6 * 15;
    expect_first(split_of(&m, (zr_pipeline_spec){.stages = 2}), (int[]){0, 7});
    m.costs.memory_limit = 100;
    refused(
        &m, (zr_pipeline_spec){.stages = 2}, ZERO_ERR_LIMIT,
        "dividing 14 units among 2 pipeline stages: in the division that needs least, pipeline "
        "stage 1 (h.4 to h.11, head) needs 111 B, 11 B more than the 100 B of a rank; at most 1 "
        "micro-batch in flight on each would fit; 3 pipeline stages would fit");
    m.costs.memory_limit = 38;
    refused(&m, (zr_pipeline_spec){.stages = 2}, ZERO_ERR_LIMIT,
            "; no number of pipeline stages fits: a smaller micro-batch, ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_method_has_its_division),
        cmocka_unit_test(every_number_of_stages_has_a_split),
        cmocka_unit_test(stages_have_units_and_loads),
        cmocka_unit_test(too_few_units_are_refused),
        cmocka_unit_test(wrong_splits_are_refused),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(memory_limits_the_division),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
