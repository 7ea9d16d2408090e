// exact_world: 1, 2, 4 and 8 ranks that share one global batch of equal micro-batches give the same
// bits, at every stage, in every policy, on every tier; and so does a run that is saved on one
// number of ranks and continued on another.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../sanitizers.h"
#include "base/file.h"
#include "base/random.h"
#include "comm/communicator.h"
#include "compute/tree_sum.h"
#include "harness.h"
#include "plan/accumulators.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MICRO_BATCHES = 8, MOST = 64, ELEMS = 1500, SAVED = 2 };

#define EXACT "\"libzero\": {\"exact_world\": true}"
static const char *const policies[] = {
    EXACT, "\"bf16\": {\"enabled\": true}, " EXACT,
    "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 10}, " EXACT};

static harness_result reference, other;

// On this many ranks, which together make MICRO_BATCHES micro-batches a step.
static void run_on(harness_case c, int ranks, harness_result *out)
{
    c.ranks = ranks;
    c.accumulation = MICRO_BATCHES / ranks;
    harness_run(&c, out);
}

static void same_in_every_world(harness_case c, int most, const char *what)
{
    run_on(c, 1, &reference);
    assert_true(isfinite(reference.loss[0]) && reference.loss[1] != reference.loss[0]);
    for (int ranks = 2; ranks <= most; ranks *= 2) {
        if (SANITIZED && ranks != 4)
            continue;
        run_on(c, ranks, &other);
        if (!harness_equal(&reference, &other))
            fail_msg("stage %d, %s: %d ranks have other bits than one", c.stage, what, ranks);
    }
}

// Gradients of MOST micro-batches, whose sum depends on its order.
static void draw(float (*values)[ELEMS])
{
    for (int g = 0; g < MOST; g++) {
        zr_random_normal(5, (uint64_t)g, ELEMS, 1.0f, values[g]);
        for (int i = 0; i < ELEMS; i++)
            values[g][i] *= (float)(1 << (i + g) % 23);
    }
}

// The sum over all micro-batches g = k * ranks + r, by the tree over ranks and the counter over k,
// in accumulators[0].
static void sum_up(float (*values)[ELEMS], int ranks,
                   zr_sum_slots (*place)(const zr_settings *, int64_t),
                   float (*accumulators)[ELEMS])
{
    const zr_settings settings = {.accumulation = MOST / ranks, .exact_world = true};
    for (int k = 0; k < MOST / ranks; k++) {
        const void *sources[MOST];
        zr_sum_slots to = place(&settings, k);
        assert_true(to.slot + ZR_MAX(to.adds, 1) <= zr_accumulators(&settings));
        for (int r = 0; r < ranks; r++)
            sources[r] = values[k * ranks + r];
        zr_tree_sum(&(zr_sum_target){accumulators[to.slot], ZERO_F32, to.adds, ELEMS}, ZERO_F32,
                    sources, ranks, ELEMS, 1);
    }
}

static zr_sum_slots one_after_another(const zr_settings *settings, int64_t k)
{
    return (zr_sum_slots){.adds = k > 0};
}

static void ranks_and_micro_batches_are_one_tree(void **state)
{
    static float values[MOST][ELEMS], whole[8][ELEMS], parts[8][ELEMS];
    int differ = 0;
    draw(values);
    sum_up(values, MOST, zr_sum_slots_of, whole);
    for (int ranks = 1; ranks < MOST; ranks *= 2) {
        sum_up(values, ranks, zr_sum_slots_of, parts);
        assert_memory_equal(whole[0], parts[0], sizeof whole[0]);
    }
    sum_up(values, 8, one_after_another, parts);
    for (int i = 0; i < ELEMS; i++)
        differ += whole[0][i] != parts[0][i];
    assert_true(differ > ELEMS / 10); // else these values could not tell the tree from a chain
}

static void accumulators_are_as_many_as_sums_that_wait(void **state)
{
    for (int log = 0; log < 20; log++) {
        zr_settings settings = {.accumulation = (int64_t)1 << log, .exact_world = true};
        assert_int_equal(zr_accumulators(&settings), ZR_MAX(log, 1));
        int64_t added = 0;
        for (int64_t k = 0; k < settings.accumulation; k++)
            added += zr_sum_slots_of(&settings, k).adds;
        assert_int_equal(added, settings.accumulation - 1); // as many as where all are added to one
        assert_int_equal(zr_sum_slots_of(&settings, settings.accumulation - 1).slot, 0);
    }
}

static void every_stage_and_policy(void **state)
{
    for (int policy = SANITIZED; policy < (SANITIZED ? 2 : 3); policy++)
        for (int stage = 0; stage <= 3; stage++)
            same_in_every_world((harness_case){.stage = stage,
                                               .batch = 2,
                                               .dropout = 0.1f,
                                               .clipping = 1,
                                               .precision = policies[policy]},
                                8, policies[policy]);
}

// What exact_world is for: without it these runs differ.
static void without_it_worlds_differ(void **state)
{
    run_on((harness_case){.stage = 2, .batch = 2}, 1, &reference);
    run_on((harness_case){.stage = 2, .batch = 2}, 4, &other);
    assert_false(harness_equal(&reference, &other));
}

static void stages_agree_as_ever(void **state)
{
    for (int policy = 0; policy < (SANITIZED ? 1 : 3); policy++) {
        harness_case c = {.stage = 0, .batch = 2, .precision = policies[policy]};
        run_on(c, 2, &reference);
        for (c.stage = 1; c.stage <= 3; c.stage++) {
            run_on(c, 2, &other);
            assert_true(harness_equal(&reference, &other));
        }
    }
}

static void every_tier(void **state)
{
    for (int stage = SANITIZED ? 3 : 1; stage <= 3; stage++)
        for (int tier = 1; tier <= 2; tier++) {
            harness_case c = {.stage = stage,
                              .batch = 1,
                              .precision = policies[1 + tier % 2],
                              .tiers = harness_tiers(tier, stage == 3 ? tier : 0)};
            same_in_every_world(c, 4, c.tiers);
            c.tiers = NULL;
            run_on(c, 2, &reference); // other is on its tier
            assert_true(harness_equal(&reference, &other));
        }
}

static void every_optimizer(void **state)
{
    static const char *const optimizers[] = {"Adam", "SGD", "Adagrad", "Lion", "LAMB"};
    for (int i = SANITIZED ? 4 : 0; i < (int)(sizeof optimizers / sizeof *optimizers); i++)
        same_in_every_world((harness_case){.stage = 1 + i % 3,
                                           .batch = 1,
                                           .clipping = 1,
                                           .optimizer = optimizers[i],
                                           .precision = policies[i % 3]},
                            4, optimizers[i]);
}

static void tiles_and_delayed_updates(void **state)
{
    same_in_every_world((harness_case){.stage = 3,
                                       .batch = 2,
                                       .backend = "cpu",
                                       .width = 128,
                                       .vocabulary = 200,
                                       .tiles_embedding = 3,
                                       .tiles_mlp = 2,
                                       .precision = policies[1],
                                       .tiers = harness_tiers(2, 2)},
                        SANITIZED ? 2 : 4, "tiles");
    static const char *const delayed =
        "\"bf16\": {\"enabled\": true}, \"libzero\": {\"exact_world\": true, \"delayed_update\": "
        "{\"start_step\": 1}}";
    for (int tier = 1; tier <= 2; tier++)
        same_in_every_world((harness_case){.stage = 4 - tier,
                                           .batch = 1,
                                           .precision = delayed,
                                           .tiers = harness_tiers(tier, 0)},
                            4, "delayed updates");
}

static void products_of_the_processor_and_overlap(void **state)
{
    for (int policy = 0; policy < (SANITIZED ? 1 : 2); policy++)
        same_in_every_world((harness_case){.stage = 3,
                                           .batch = 2,
                                           .backend = "cpu",
                                           .width = 64,
                                           .overlap = true,
                                           .bucket = 3000,
                                           .precision = policies[policy]},
                            4, "backend cpu");
}

// Steps whose gradient is not finite are the same steps, and the scale after them.
static void the_loss_scale_falls_alike(void **state)
{
    static const char *const falling =
        "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 22, \"hysteresis\": 1}, " EXACT;
    harness_case c = {.stage = 2, .batch = 1, .precision = falling};
    run_on(c, 1, &reference);
    assert_true(reference.skipped > 0 && reference.skipped < HARNESS_STEPS);
    run_on(c, 8, &other);
    assert_int_equal(reference.skipped, other.skipped);
    assert_memory_equal(reference.loss, other.loss, sizeof reference.loss);
    assert_memory_equal(reference.parameters, other.parameters,
                        (size_t)reference.elems * sizeof(float));
}

static void a_checkpoint_goes_on_in_any_world(void **state)
{
    char directory[256], path[320];
    snprintf(directory, sizeof directory, "%s/zero-exact-XXXXXX", harness_scratch());
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/ck", directory);
    for (int i = 0; i < (SANITIZED ? 1 : 3); i++) {
        harness_case c = {.stage = 1 + i,
                          .batch = 1,
                          .dropout = 0.1f,
                          .precision = policies[1 + i % 2],
                          .save = path,
                          .save_at = SAVED};
        run_on(c, 2, &reference);
        c.save = NULL;
        c.load = path;
        for (int ranks = 1; ranks <= (SANITIZED ? 2 : 8); ranks *= 2) {
            c.stage = ranks == 1 ? 0 : 3 - i;
            c.tiers = c.stage == 3 ? harness_tiers(1 + i % 2, 1) : NULL;
            run_on(c, ranks, &other);
            assert_memory_equal(reference.loss + SAVED, other.loss + SAVED,
                                sizeof reference.loss - SAVED * sizeof *reference.loss);
            assert_memory_equal(reference.norm + SAVED, other.norm + SAVED,
                                sizeof reference.norm - SAVED * sizeof *reference.norm);
            assert_memory_equal(reference.parameters, other.parameters,
                                (size_t)reference.elems * sizeof(float));
        }
    }
    harness_failure failure;
    harness_case halves = {.stage = 1,
                           .ranks = 1,
                           .accumulation = MICRO_BATCHES / 2,
                           .batch = 2,
                           .dropout = 0.1f,
                           .precision = EXACT,
                           .load = path};
    harness_try(&halves, &other, &failure);
    assert_non_null(
        strstr(failure.error.message, "train_micro_batch_size_per_gpu of 1, this training has 2"));
    halves.precision = NULL; // to other bits it goes on
    harness_run(&halves, &other);
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
}

static void bytes_are_planned(void **state)
{
    harness_case plain = {.stage = 2, .batch = 1, .precision = "\"bf16\": {\"enabled\": true}"},
                 exact = plain;
    exact.precision = policies[1];
    run_on(plain, 1, &reference);
    run_on(exact, 1, &other);
    const int64_t *before = reference.memory.held[ZERO_TIER_device],
                  *after = other.memory.held[ZERO_TIER_device];
    // K = 8: one for each bit of 7
    assert_int_equal(after[ZERO_MEM_gradients], 3 * before[ZERO_MEM_gradients]);
    run_on(plain, 2, &reference);
    run_on(exact, 2, &other);
    assert_int_equal(other.traffic.bytes[ZERO_COMM_reduce_scatter],
                     2 * reference.traffic.bytes[ZERO_COMM_reduce_scatter]);
    assert_int_equal(other.traffic.bytes[ZERO_COMM_all_gather],
                     reference.traffic.bytes[ZERO_COMM_all_gather]);
    assert_memory_equal(other.memory.held, other.memory.planned, sizeof other.memory.held);
}

static void what_has_no_such_tree_is_refused(void **state)
{
    const struct {
        harness_case c;
        const char *words;
    } cases[] = {
        {{.ranks = 3, .accumulation = 2, .batch = 1, .precision = EXACT},
         "found 3, expected a power of two"},
        {{.ranks = 2, .accumulation = 6, .batch = 1, .precision = EXACT},
         "gradient_accumulation_steps 6 (a batch of 12 = 1 x 6 x 2"},
        {{.ranks = 2,
          .accumulation = 2,
          .batch = 1,
          .precision = EXACT ", \"communication_data_type\": \"bf16\""},
         "communication_data_type is bf16, but with libzero.exact_world gradients are exchanged in "
         "fp32"},
        {{.ranks = 2,
          .accumulation = 2,
          .batch = 1,
          .precision = EXACT ", \"data_types\": {\"grad_accum_dtype\": \"bf16\"}"},
         "data_types.grad_accum_dtype is bf16, but with libzero.exact_world sums are fp32"},
        {{.ranks = 2,
          .accumulation = 2,
          .batch = 1,
          .precision = "\"libzero\": {\"exact_world\": true, \"reduce\": \"per_step\"}"},
         "keep one of them"},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        harness_refused(&cases[i].c, ZERO_ERR_CONFIG, cases[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_and_micro_batches_are_one_tree),
        cmocka_unit_test(accumulators_are_as_many_as_sums_that_wait),
        cmocka_unit_test(every_stage_and_policy),
        cmocka_unit_test(without_it_worlds_differ),
        cmocka_unit_test(stages_agree_as_ever),
        cmocka_unit_test(every_tier),
        cmocka_unit_test(every_optimizer),
        cmocka_unit_test(tiles_and_delayed_updates),
        cmocka_unit_test(products_of_the_processor_and_overlap),
        cmocka_unit_test(the_loss_scale_falls_alike),
        cmocka_unit_test(a_checkpoint_goes_on_in_any_world),
        cmocka_unit_test(bytes_are_planned),
        cmocka_unit_test(what_has_no_such_tree_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
