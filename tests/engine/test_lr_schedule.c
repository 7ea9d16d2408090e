// The schedules, compared with the values that DeepSpeed's own code gives, to 1e-15 of the value.
#include "engine/step_schedules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// cmocka needs the headers above.
#include <cmocka.h>

typedef struct vector {
    int64_t n;
    double lr;
} vector;

static void check(const zr_lr_schedule *schedule, const vector *vectors, int count)
{
    for (int i = 0; i < count; i++) {
        double lr = zr_schedule_lr(schedule, vectors[i].n);
        if (fabs(lr - vectors[i].lr) > 1e-15 * fabs(vectors[i].lr))
            fail_msg("%s at %lld: %.17g, not %.17g", zr_schedule_name(schedule->kind),
                     (long long)vectors[i].n, lr, vectors[i].lr);
    }
}

#define CHECK(schedule, ...)                                                                       \
    do {                                                                                           \
        const vector vectors_[] = {__VA_ARGS__};                                                   \
        check(&(schedule), vectors_, ZR_COUNT(vectors_));                                          \
    } while (0)

static void test_warmup(void **state)
{
    zr_lr_schedule s = {.kind = ZR_SCHEDULE_WARMUP, .max_lr = 1e-3, .warmup_steps = 10, .lr = 5};
    CHECK(s, {0, 0}, {1, 0}, {2, 0.00030102999566398113}, {3, 0.0004771212547196624}, {11, 0.001},
          {1000000, 0.001});
    s.min_lr = 1e-5;
    CHECK(s, {0, 1e-5}, {1, 1e-5}, {6, 0.0007803697378798071});
    s.min_lr = 0;
    s.warmup_linear = 1;
    CHECK(s, {2, 0.0001}, {10, 0.0009000000000000001});
}

static void test_short_warmup_counts_as_two(void **state)
{
    zr_lr_schedule s = {
        .kind = ZR_SCHEDULE_WARMUP, .max_lr = 1e-3, .warmup_steps = 1, .warmup_linear = 1};
    CHECK(s, {1, 0}, {2, 0.0005}, {3, 0.001});
}

static void test_warmup_decay(void **state)
{
    zr_lr_schedule s = {.kind = ZR_SCHEDULE_WARMUP_DECAY,
                        .min_lr = 1e-5,
                        .max_lr = 1e-3,
                        .warmup_steps = 10,
                        .total_steps = 100};
    CHECK(s, {12, 0.000989}, {60, 0.00046100000000000004}, {100, 2.1000000000000002e-05},
          {101, 1e-05}, {5000, 1e-05});
}

static void test_warmup_cosine(void **state)
{
    zr_lr_schedule s = {.kind = ZR_SCHEDULE_WARMUP_COSINE,
                        .lr = 3e-4,
                        .warmup_steps = 10,
                        .total_steps = 100,
                        .cosine_min_ratio = 1e-4};
    CHECK(s, {0, 0}, {2, 9.030899869919434e-05}, {11, 0.0002999086331904591},
          {55, 0.00015001499999999998}, {100, 3e-08}, {999, 3e-08});
    zr_lr_schedule linear = {.kind = ZR_SCHEDULE_WARMUP_COSINE,
                             .lr = 6e-4,
                             .warmup_steps = 500,
                             .total_steps = 10000,
                             .cosine_min_ratio = 0.1,
                             .warmup_linear = 1};
    CHECK(linear, {5000, 0.0003522964232775297});
    s.warmup_min_ratio = 0.5;
    CHECK(s, {0, 0}, {1, 1.5e-4});
}

// Ours: lr / 10 first, lr at the end of the warm-up, half way at half of it, the least at the last
// update.
static void test_cosine_from_one(void **state)
{
    zr_lr_schedule s = {.kind = ZR_SCHEDULE_WARMUP_COSINE,
                        .lr = 1,
                        .warmup_steps = 10,
                        .total_steps = 110,
                        .cosine_min_ratio = 0.1,
                        .warmup_linear = 1,
                        .from_one = true};
    CHECK(s, {0, 0.1}, {1, 0.2}, {9, 1}, {59, 0.55}, {109, 0.1}, {5000, 0.1});
    s.warmup_min_ratio = 0.5;
    CHECK(s, {0, 0.55}, {9, 1});
    s.warmup_linear = 0;
    s.warmup_min_ratio = 0;
    CHECK(s, {0, 0.28906482631788782}, {9, 1});
    s.warmup_steps = s.total_steps = 1;
    CHECK(s, {0, 1}, {1, 0.1});
}

static const zr_lr_schedule cycle = {.kind = ZR_SCHEDULE_ONE_CYCLE,
                                     .min_lr = 1e-4,
                                     .max_lr = 1e-3,
                                     .first_steps = 10,
                                     .second_steps = 20,
                                     .decay_steps = 10,
                                     .decay_lr_rate = 0.5,
                                     .cycle_momentum = true,
                                     .min_momentum = 0.8,
                                     .max_momentum = 0.9,
                                     .decay_momentum_rate = 0.1};

static void test_one_cycle(void **state)
{
    CHECK(cycle, {0, 1e-4}, {1, 0.00019000000000000028}, {7, 0.0007300000000000002},
          {29, 0.00014499999999999984}, {31, 9.523809523809524e-05}, {40, 6.666666666666667e-05});
    zr_lr_schedule still = cycle;
    still.decay_steps = 0;
    CHECK(still, {31, 1e-4}, {1000, 1e-4});
    zr_lr_schedule stairs = cycle;
    stairs.second_steps = 10;
    stairs.first_stairs = stairs.second_stairs = 4;
    CHECK(stairs, {3, 0.000325}, {9, 0.0007750000000000001}, {10, 0.001}, {13, 0.00055});
}

static void check_betas(const zr_lr_schedule *s, int64_t n, double beta1, double beta2)
{
    const double betas[2] = {0.5, 0.6};
    double out[2];
    zr_schedule_betas(s, n, betas, out);
    assert_true(fabs(out[0] - beta1) < 1e-14);
    assert_true(out[1] == beta2);
}

static void test_betas(void **state)
{
    check_betas(&cycle, 0, 0.8, 0.99);
    check_betas(&cycle, 1, 0.89, 0.99);
    check_betas(&cycle, 10, 0.8, 0.99);
    check_betas(&cycle, 20, 0.85, 0.99);
    check_betas(&cycle, 30, 0.9, 0.99);
    check_betas(&cycle, 40, 0.99, 0.99);
    zr_lr_schedule off = cycle;
    off.cycle_momentum = false;
    check_betas(&off, 5, 0.5, 0.6);
    check_betas(&(zr_lr_schedule){.kind = ZR_SCHEDULE_CONSTANT}, 5, 0.5, 0.6);
}

static void test_range_test(void **state)
{
    zr_lr_schedule s = {
        .kind = ZR_SCHEDULE_RANGE_TEST, .min_lr = 1e-4, .range_steps = 10, .range_rate = 2};
    CHECK(s, {0, 1e-4}, {1, 0.00012}, {25, 0.0006000000000000001});
    s.range_staircase = true;
    CHECK(s, {9, 0.0001}, {25, 0.0005});
}

static void test_constant(void **state)
{
    zr_lr_schedule s = {.kind = ZR_SCHEDULE_CONSTANT, .lr = 0.25};
    CHECK(s, {0, 0.25}, {1000, 0.25});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warmup),          cmocka_unit_test(test_short_warmup_counts_as_two),
        cmocka_unit_test(test_warmup_decay),    cmocka_unit_test(test_warmup_cosine),
        cmocka_unit_test(test_one_cycle),       cmocka_unit_test(test_betas),
        cmocka_unit_test(test_range_test),      cmocka_unit_test(test_constant),
        cmocka_unit_test(test_cosine_from_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
