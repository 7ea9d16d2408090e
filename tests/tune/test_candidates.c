// The search, with a judge that makes up what candidates cost and hold.
#include "tune/candidates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct made_up {
    int64_t memory; // what a rank may hold
    int judged;
} made_up;

// Larger micro-batches are faster and hold more; checkpoints and tiles hold less and cost time.
static zero_status judge(void *user, zr_run_candidate *c, zero_error *error)
{
    made_up *m = user;
    m->judged++;
    int64_t samples = c->micro_batch * c->accumulation * c->ranks / (c->tensor * c->stages);
    c->tokens = 100 * ZR_MAX(samples / 12, 1);
    c->memory = 100 * c->micro_batch / (c->checkpoints ? 4 : 1) / (1 + c->tiling) +
                (c->optimizer == ZERO_TIER_device ? 50 : 0);
    c->step.seconds = (1 + 1.0 / (double)c->micro_batch) / c->ranks * (c->tokens > 100 ? 2 : 1) +
                      (c->checkpoints ? 0.3 : 0) + (double)c->tiling +
                      (c->optimizer == ZERO_TIER_device ? 0 : 0.2) - (c->delayed ? 0.15 : 0);
    c->state = c->memory <= m->memory ? ZR_CANDIDATE_FITS : ZR_CANDIDATE_TOO_LARGE;
    if (c->tensor == 4)
        c->state = ZR_CANDIDATE_REFUSED;
    return ZERO_OK;
}

static zr_tuning_space space(void)
{
    return (zr_tuning_space){.ranks = {{1, 2, 4}, 3},
                             .cores = 4,
                             .tensor = {{1}, 1},
                             .pipeline = {{1}, 1},
                             .stages = {{0, 1, 2, 3}, 4},
                             .schedules = {{ZR_PIPELINE_1F1B, ZR_PIPELINE_INTERLEAVED}, 2},
                             .chunks = 2,
                             .batches = {{12}, 1},
                             .least_micro_batch = 1,
                             .checkpoints = 6,
                             .tilings = 3};
}

static void run(const zr_tuning_space *space, int64_t memory, zr_candidates *out)
{
    made_up m = {.memory = memory};
    const zr_candidate_judge j = {.judge = judge, .user = &m};
    assert_int_equal(zr_candidates_search(space, &j, out, NULL), ZERO_OK);
    assert_int_equal(m.judged, out->count);
    for (int i = 0; i < out->count; i++)
        for (int k = 0; k < i; k++)
            assert_false(zr_candidate_is_same(&out->at[i], &out->at[k]));
}

static int count(const zr_candidates *list, int ranks, int64_t stage, int64_t micro)
{
    int found = 0;
    for (int i = 0; i < list->count; i++) {
        const zr_run_candidate *c = &list->at[i];
        assert_int_equal(c->threads, 4 / c->ranks);
        assert_int_equal(c->micro_batch * c->accumulation * c->ranks / (c->tensor * c->stages), 12);
        found += c->ranks == ranks && c->stage == stage && (!micro || c->micro_batch == micro);
    }
    return found;
}

static void test_all_divisors_of_all_grids(void **state)
{
    zr_candidates list;
    const zr_tuning_space s = space();
    run(&s, 1 << 20, &list);
    assert_int_equal(list.count, 6 + 4 * (4 + 2)); // of 12; at each stage of 6 and of 3
    assert_int_equal(count(&list, 1, 0, 0), 6);
    assert_int_equal(count(&list, 1, 1, 0), 0); // with one data rank stages divide nothing
    assert_int_equal(count(&list, 2, 3, 0), 4);
    assert_int_equal(count(&list, 4, 2, 3), 1);
    zr_candidates_free(&list);
}

static void test_limits_of_micro_batches(void **state)
{
    zr_candidates list;
    zr_tuning_space s = space();
    s.ranks = (zr_space_list){{1}, 1};
    s.least_micro_batch = 2;
    s.most_micro_batch = 6;
    run(&s, 1 << 20, &list);
    assert_int_equal(list.count, 4);
    zr_candidates_free(&list);
    s.micro_batch_count = 2;
    run(&s, 1 << 20, &list);
    assert_int_equal(list.count, 2);
    assert_true(list.at[0].micro_batch == 2 && list.at[1].micro_batch == 6);
    zr_candidates_free(&list);
    s.micro_batches = (zr_space_list){{3, 5}, 2};
    run(&s, 1 << 20, &list);
    assert_int_equal(list.count, 1); // 5 divides nothing
    zr_candidates_free(&list);
}

static int64_t last_micro_batch(const zr_candidates *list)
{
    return list->at[list->count - 1].micro_batch;
}

// A batch of many divisors, or of a large prime number, is divided at once.
static void test_divisors_of_large_batches(void **state)
{
    zr_candidates list;
    zr_tuning_space s = space();
    s.ranks = (zr_space_list){{1}, 1};
    s.batches = (zr_space_list){{5040}, 1}; // it has 60
    run(&s, 1 << 20, &list);
    assert_int_equal(list.count, ZR_SPACE_MOST);
    assert_true(list.at[0].micro_batch == 1 && last_micro_batch(&list) == 5040);
    zr_candidates_free(&list);
    s.batches = (zr_space_list){{1000000007}, 1};
    run(&s, INT64_MAX, &list);
    assert_int_equal(list.count, 1); // one sample at a time would be too many micro-batches
    assert_int_equal(last_micro_batch(&list), 1000000007);
    zr_candidates_free(&list);
    s.batches = (zr_space_list){{735134400}, 1}; // it has 1344, as many as there can be
    s.accumulation = 2;
    run(&s, INT64_MAX, &list);
    assert_int_equal(list.count, 1);
    assert_int_equal(last_micro_batch(&list), 735134400 / 2);
    zr_candidates_free(&list);
}

// The best of a grid are varied, by what is to be best: the made-up steps grow less than batches.
static void test_the_metric_chooses_what_is_varied(void **state)
{
    zr_tuning_space s = space();
    s.ranks = (zr_space_list){{1}, 1};
    s.batches = (zr_space_list){{12, 96}, 2};
    s.micro_batches = (zr_space_list){{1, 2}, 2};
    s.vary_checkpoints = true;
    for (int latency = 0; latency < 2; latency++) {
        zr_candidates list;
        s.metric = latency ? ZR_METRIC_LATENCY : ZR_METRIC_THROUGHPUT;
        run(&s, 1 << 20, &list);
        int small = 0, large = 0;
        for (int i = 0; i < list.count; i++) {
            const zr_run_candidate *c = &list.at[i];
            small += c->checkpoints && c->tokens == 100;
            large += c->checkpoints && c->tokens == 800;
        }
        assert_int_equal(small, latency ? 2 : 0);
        assert_int_equal(large, latency ? 0 : 2);
        zr_candidates_free(&list);
    }
}

static void test_of_what_is_too_large_the_least_and_the_largest_are_judged(void **state)
{
    zr_candidates list;
    zr_tuning_space s = space();
    s.ranks = (zr_space_list){{1}, 1};
    run(&s, 250, &list);
    assert_int_equal(list.count, 4); // 1 and 2 fit, 3 does not, and 12 tells what memory is worth
    assert_int_equal(list.at[2].state, ZR_CANDIDATE_TOO_LARGE);
    assert_true(list.at[2].micro_batch == 3 && list.at[3].micro_batch == 12);
    zr_candidates_free(&list);
    s.vary_checkpoints = true;
    run(&s, 250, &list);
    for (int i = 0; i < list.count; i++) // it is not varied itself
        assert_true(list.at[i].micro_batch < 12 || list.at[i].checkpoints == 0);
    zr_candidates_free(&list);
}

static const zr_run_candidate *best_of(const zr_candidates *list)
{
    const zr_run_candidate *best = NULL;
    for (int i = 0; i < list->count; i++)
        if (list->at[i].state == ZR_CANDIDATE_FITS &&
            (!best || zr_candidate_cost(&list->at[i], ZR_METRIC_THROUGHPUT) <
                          zr_candidate_cost(best, ZR_METRIC_THROUGHPUT)))
            best = &list->at[i];
    return best;
}

static void test_memory_is_saved_where_nothing_fits(void **state)
{
    zr_candidates list;
    zr_tuning_space s = space();
    s.vary_checkpoints = s.vary_tiles = true;
    run(&s, 80, &list);
    const zr_run_candidate *best = best_of(&list);
    assert_non_null(best);
    assert_int_equal(best->checkpoints, 6);
    assert_int_equal(best->tiling, 0);
    zr_candidates_free(&list);
    s.vary_checkpoints = false;
    run(&s, 120, &list);
    best = best_of(&list);
    assert_non_null(best);
    assert_int_equal(best->checkpoints, 0);
    assert_int_equal(best->tiling, 1);
    zr_candidates_free(&list);
}

static void test_tiers_need_their_stage_and_a_place(void **state)
{
    zr_candidates list;
    zr_tuning_space s = space();
    int on_host = 0;
    s.vary_optimizer = s.vary_parameters = s.vary_sub_group = true;
    run(&s, 120, &list);
    assert_null(best_of(&list)); // on one memory no tier saves anything
    zr_candidates_free(&list);
    s.budgets = true;
    run(&s, 120, &list);
    assert_non_null(best_of(&list));
    for (int i = 0; i < list.count; i++) {
        const zr_run_candidate *c = &list.at[i];
        assert_true(c->optimizer != ZERO_TIER_nvme && c->parameters != ZERO_TIER_nvme);
        assert_true(c->optimizer == ZERO_TIER_device || c->stage >= 1);
        assert_true(c->parameters == ZERO_TIER_device || c->stage == 3);
        assert_true(c->sub_group == 0 || zr_candidate_travels(c, true));
        on_host += c->sub_group > 0;
    }
    assert_true(on_host > 0);
    zr_candidates_free(&list);
    s.nvme = true;
    run(&s, 120, &list);
    int groups = 0, small = 0;
    for (int i = 0; i < list.count; i++) {
        const zr_run_candidate *c = &list.at[i];
        assert_true(c->sub_group == 0 || zr_candidate_travels(c, true));
        groups += c->sub_group == 1 << 18;
        small += c->sub_group == 1 << 16;
    }
    assert_true(groups > 0 && small == groups);
    zr_candidates_free(&list);
}

static void test_delayed_updates_lie_on_the_host(void **state)
{
    zr_candidates list;
    zr_tuning_space s = space();
    int delayed = 0;
    s.vary_delayed = s.vary_optimizer = true;
    run(&s, 1 << 20, &list);
    for (int i = 0; i < list.count; i++) {
        delayed += list.at[i].delayed;
        assert_true(!list.at[i].delayed || list.at[i].optimizer == ZERO_TIER_host);
        assert_true(list.at[i].delayed || list.at[i].optimizer == ZERO_TIER_device);
    }
    assert_true(delayed > 0);
    zr_candidates_free(&list);
}

static void test_grids_divide_the_ranks(void **state)
{
    zr_candidates list;
    zr_tuning_space s = space();
    int interleaved = 0, refused = 0;
    s.tensor = (zr_space_list){{1, 2, 4}, 3};
    s.pipeline = (zr_space_list){{1, 2}, 2};
    run(&s, 1 << 20, &list);
    for (int i = 0; i < list.count; i++) {
        const zr_run_candidate *c = &list.at[i];
        assert_int_equal(c->ranks % (c->tensor * c->stages), 0);
        assert_int_equal(c->chunks, c->schedule == ZR_PIPELINE_INTERLEAVED ? 2 : 1);
        assert_true(c->stages > 1 || c->schedule == ZR_PIPELINE_1F1B);
        interleaved += c->schedule == ZR_PIPELINE_INTERLEAVED;
        refused += c->state == ZR_CANDIDATE_REFUSED;
    }
    assert_true(interleaved > 0 && refused > 0);
    zr_candidates_free(&list);
}

static void test_a_limit_leaves_the_rest_out(void **state)
{
    zr_candidates list;
    zr_tuning_space s = space();
    s.most = 7;
    run(&s, 1 << 20, &list);
    assert_int_equal(list.count, 7);
    assert_true(list.left > 0);
    zr_candidates_free(&list);
}

static void test_words(void **state)
{
    char text[200];
    zr_run_candidate c = {.ranks = 4,
                          .threads = 2,
                          .tensor = 2,
                          .stages = 2,
                          .chunks = 2,
                          .schedule = ZR_PIPELINE_INTERLEAVED,
                          .stage = 1,
                          .micro_batch = 3,
                          .accumulation = 4,
                          .optimizer = ZERO_TIER_nvme};
    zr_candidate_text(&c, text, sizeof text);
    assert_string_equal(text, "4 x 2, tensor 2, pipeline 2 interleaved:2, stage 1, "
                              "micro-batch 3 x 4, optimizer on NVMe");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_divisors_of_all_grids),
        cmocka_unit_test(test_limits_of_micro_batches),
        cmocka_unit_test(test_divisors_of_large_batches),
        cmocka_unit_test(test_the_metric_chooses_what_is_varied),
        cmocka_unit_test(test_of_what_is_too_large_the_least_and_the_largest_are_judged),
        cmocka_unit_test(test_memory_is_saved_where_nothing_fits),
        cmocka_unit_test(test_tiers_need_their_stage_and_a_place),
        cmocka_unit_test(test_delayed_updates_lie_on_the_host),
        cmocka_unit_test(test_grids_divide_the_ranks),
        cmocka_unit_test(test_a_limit_leaves_the_rest_out),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
