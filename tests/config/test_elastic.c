// Elasticity: DeepSpeed's batches and numbers of ranks for random sections, its documented vectors,
// and how the section changes a file.
#include "config_support.h"

#include "elastic_golden.h"

static const zr_config_facts facts = {FACTS};

static void test_golden(void **state)
{
    int refused = 0;
    for (int i = 0; i < ZR_COUNT(elastic_golden); i++) {
        const struct elastic_row *row = &elastic_golden[i];
        zr_elastic elastic = {.count = 0};
        zr_elastic_batch batch = {0};
        int64_t sum = 0;
        if (zr_elastic_solve(&row->rule, &elastic, NULL) == ZERO_OK)
            zr_elastic_share(&elastic, row->ranks, &batch);
        for (int r = 0; r < elastic.count; r++)
            sum += elastic.ranks[r];
        bool same = elastic.count == row->count && sum == row->sum &&
                    (!row->count || elastic.batch == row->batch);
        if (!same || batch.train != row->share.train || batch.micro != row->share.micro)
            fail_msg("row %d: a batch of %lld for %d numbers of ranks (sum %lld); %lld ranks: %lld "
                     "by %lld",
                     i, (long long)elastic.batch, elastic.count, (long long)sum,
                     (long long)row->ranks, (long long)batch.train, (long long)batch.micro);
        if (batch.train)
            assert_int_equal(batch.train, batch.micro * batch.accumulation * row->ranks);
        refused += !batch.train;
    }
    assert_true(refused > 2 && refused < ZR_COUNT(elastic_golden) / 2);
}

static void test_vectors(void **state)
{
    zr_elastic elastic;
    zr_elastic_batch batch;
    zr_elastic_rule rule = {.most_samples = 10000,
                            .micros = {8, 12, 16, 17},
                            .micro_count = 4,
                            .min_ranks = 32,
                            .max_ranks = 1500,
                            .prefer_larger = true};
    assert_int_equal(zr_elastic_solve(&rule, &elastic, NULL), ZERO_OK);
    assert_true(elastic.batch == 9792 && elastic.count == 23);
    assert_true(zr_elastic_share(&elastic, 64, &batch) && batch.micro == 17 && !batch.other);
    assert_false(zr_elastic_share(&elastic, 65, &batch));
    rule = (zr_elastic_rule){.most_samples = 2000,
                             .micros = {2, 4, 6},
                             .micro_count = 3,
                             .min_ranks = 1,
                             .max_ranks = 10000,
                             .prefer_larger = true};
    assert_int_equal(zr_elastic_solve(&rule, &elastic, NULL), ZERO_OK);
    assert_true(elastic.batch == 1680 && elastic.count == 32);
    assert_true(zr_elastic_share(&elastic, 7, &batch) && batch.micro == 6 &&
                batch.accumulation == 40);
}

// The largest values that the table lets through.
static void test_limits(void **state)
{
    zr_elastic elastic;
    zr_elastic_batch batch;
    zr_elastic_rule rule = {.most_samples = ZR_ELASTIC_MOST_SAMPLES,
                            .micro_count = ZR_ELASTIC_MOST_MICROS,
                            .min_ranks = 1,
                            .max_ranks = ZR_ELASTIC_MOST_SAMPLES,
                            .node_ranks = 1,
                            .prefer_larger = true};
    for (int i = 0; i < rule.micro_count; i++)
        rule.micros[i] = i % 2 ? ZR_ELASTIC_MOST_SAMPLES - i : i + 1;
    assert_int_equal(zr_elastic_solve(&rule, &elastic, NULL), ZERO_OK);
    assert_true(elastic.count > 1 && elastic.count <= ZR_ELASTIC_MOST_RANKS &&
                elastic.batch <= ZR_ELASTIC_MOST_SAMPLES);
    rule.by_node = true;
    rule.node_ranks = ZR_ELASTIC_MOST_SAMPLES;
    assert_int_equal(zr_elastic_solve(&rule, &elastic, NULL), ZERO_ERR_CONFIG);
    rule = (zr_elastic_rule){.by_node = true,
                             .most_samples = 100,
                             .micros = {10},
                             .micro_count = 1,
                             .min_ranks = 1,
                             .max_ranks = 10,
                             .node_ranks = 1};
    assert_int_equal(zr_elastic_solve(&rule, &elastic, NULL), ZERO_OK);
    assert_false(zr_elastic_share(&elastic, INT64_MAX, &batch));
}

#define V1 "\"version\": 0.1"
#define SECTION                                                                                    \
    "\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 2000, \"micro_batch_sizes\": "  \
    "[2, 4, 6], "

static void test_in_a_file(void **state)
{
    recorder log;
    zero_error error;
    zr_config_facts seven = facts;
    seven.world = 7;
    zr_config *c = resolved("{" SECTION V1 "}}", &seven, &log, &error);
    assert_non_null(c);
    assert_true(c->train_batch == 1680 && c->micro_batch == 6 && c->accumulation == 40);
    assert_contains(log.lines, "batch 1680 = micro-batch 6 x accumulation 40 x 7 ranks "
                               "(elasticity; numbers of ranks: 1, 2, 3, 4, 5, 6, 7, 8, 10,");
    assert_lacks(log.lines, "warning");
    // What is written resolves to the same.
    zr_buffer text = {0};
    zr_config_write(c, &text);
    zr_config *again = resolved(text.data, &seven, &log, &error);
    assert_non_null(again);
    assert_true(again->train_batch == 1680 && again->micro_batch == 6);
    assert_lacks(log.lines, "ignored");
    zr_buffer_free(&text);
    zr_config_destroy(again);
    zr_config_destroy(c);
    // "auto" leaves it to elasticity.
    c = resolved("{" SECTION V1 "}, \"train_batch_size\": \"auto\"}", &seven, &log, &error);
    assert_true(c && c->train_batch == 1680);
    zr_config_destroy(c);
}

static void test_other_ranks(void **state)
{
    recorder log;
    zero_error error;
    zr_config_facts eleven = facts;
    eleven.world = 11;
    assert_null(resolved("{\n" SECTION V1 "}}", &eleven, &log, &error));
    assert_int_equal(error.status, ZERO_ERR_CONFIG);
    assert_contains(error.message, "ds.json:2:27: elasticity: a batch of 1680 samples cannot be "
                                   "shared by 11 ranks; numbers of ranks that can: 1, 2, 3, 4,");
    zr_config *c = resolved("{" SECTION "\"prefer_larger_batch\": true}}", &eleven, &log, &error);
    assert_non_null(c);
    assert_true(c->train_batch == 1980 && c->micro_batch == 6 && c->accumulation == 30);
    assert_contains(log.lines, "warning: ds.json:1:28: elasticity: 11 ranks cannot share the batch "
                               "of 1680 samples and take one of 1980");
    zr_config_destroy(c);
    eleven.world = 1500;
    assert_null(resolved("{" SECTION "\"prefer_larger_batch\": false}}", &eleven, &log, &error));
    assert_contains(
        error.message,
        "1500 ranks need more than max_train_batch_size 2000 for one of the micro-batches");
}

static void test_beside_batch_keys(void **state)
{
    recorder log;
    zero_error error;
    assert_null(resolved("{" SECTION V1 "},\n\"train_micro_batch_size_per_gpu\": 4}", &facts, &log,
                         &error));
    assert_int_equal(error.status, ZERO_ERR_CONFIG);
    assert_contains(
        error.message,
        "ds.json:2:35: train_micro_batch_size_per_gpu 4 is given together with elasticity");
    zr_config *c = resolved("{" SECTION V1
                            ", \"ignore_non_elastic_batch_info\": true},\n\"train_batch_size\": 4}",
                            &facts, &log, &error);
    assert_non_null(c);
    assert_int_equal(c->train_batch, 1680);
    assert_contains(log.lines,
                    "warning: ds.json:2:21: train_batch_size 4 is ignored: elasticity takes 1680");
    zr_config_destroy(c);
    c = parsed("{" SECTION V1 "}}", &error);
    assert_int_equal(zr_config_override(c, "gradient_accumulation_steps", "3", "--accumulation",
                                        false, NULL, &error),
                     ZERO_OK);
    assert_int_equal(zr_config_resolve(c, &facts, NULL, &error), ZERO_ERR_USAGE);
    assert_contains(
        error.message,
        "--accumulation: gradient_accumulation_steps 3 is given together with elasticity");
    zr_config_destroy(c);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *keys, *message;
    } rows[] = {
        {"\"micro_batch_sizes\": [2]",
         "elasticity.max_train_batch_size: found nothing, expected the largest batch"},
        {"\"max_train_batch_size\": null, \"micro_batch_sizes\": [2]",
         "expected the largest batch, in samples"},
        {"\"max_train_batch_size\": 8",
         "elasticity.micro_batch_sizes: found nothing, expected a list of 1 to 64 integers"},
        {"\"max_train_batch_size\": 8, \"micro_batch_sizes\": []",
         "found a list, expected a list of 1 to 64 integers of at least 1"},
        {"\"max_train_batch_size\": 8, \"micro_batch_sizes\": [0]", "integers of at least 1"},
        {"\"max_train_batch_size\": 8, \"micro_batch_sizes\": [2.5]", "integers of at least 1"},
        {"\"max_train_batch_size\": 8, \"micro_batch_sizes\": [2, 9]",
         "ds.json:1:82: elasticity: a micro-batch of 9 samples is above the largest batch, 8"},
        {"\"max_train_batch_size\": 8, \"micro_batch_sizes\": [2], \"version\": 0.3",
         "elasticity.version: found 0.3, expected 0.1 or 0.2"},
        {"\"max_train_batch_size\": 8, \"micro_batch_sizes\": [2], \"min_gpus\": 8, \"max_gpus\": "
         "4",
         "elasticity.max_gpus: found 4, expected no less than"},
        {"\"max_train_batch_size\": 8, \"micro_batch_sizes\": [2], \"min_gpus\": 0",
         "expected an integer above 0"},
        {"\"max_train_batch_size\": 8, \"micro_batch_sizes\": [2], \"model_parallel_size\": 2",
         "elasticity.model_parallel_size is 2, but a model has 1 tensor rank "
         "(tensor_parallel.autotp_size, --tensor); expected 1"},
        {"\"max_train_batch_size\": 8, \"micro_batch_sizes\": [8], \"min_gpus\": 3, " V1,
         "cannot be shared by 4 ranks; numbers of ranks that can: none"},
    };
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        char text[512];
        recorder log;
        zero_error error;
        snprintf(text, sizeof text, "{\"elasticity\": {\"enabled\": true, %s}}", rows[i].keys);
        assert_null(resolved(text, &facts, &log, &error));
        assert_contains(error.message, rows[i].message);
        snprintf(text, sizeof text, "{\"elasticity\": {\"enabled\": false, %s}}", rows[i].keys);
        if (strstr(rows[i].keys, "\"min_gpus\": 0"))
            continue;
        zr_config *c = resolved(text, &facts, &log, &error); // the section is off
        assert_non_null(c);
        assert_null(c->elastic);
        assert_contains(log.lines, "elasticity.enabled is false");
        zr_config_destroy(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),      cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_in_a_file),
        cmocka_unit_test(test_other_ranks), cmocka_unit_test(test_beside_batch_keys),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
