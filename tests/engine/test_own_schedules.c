// The program's own schedules, from the configuration on: compared with transformers', with the
// program's default, and at their ends.
#include "schedule_golden.h"
#include "config/config.h"
#include "engine/step_schedules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// cmocka needs the headers above.
#include <cmocka.h>

// Returns the schedule of a run of so many updates.
static zr_lr_schedule schedule_of(const char *params, int64_t updates)
{
    char text[400];
    zero_error error;
    zr_config *config;
    const zr_config_facts facts = {.world = 1, .micro_batch = 1, .total_steps = updates};
    snprintf(text, sizeof text,
             "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 3e-4}}, \"libzero\": "
             "{\"schedule\": {%s}}}",
             params);
    if (zr_config_parse(text, strlen(text), "x", &config, &error) != ZERO_OK ||
        zr_config_resolve(config, &facts, NULL, &error) != ZERO_OK ||
        zr_config_check_schedule(config, &error) != ZERO_OK)
        fail_msg("%s: %s", params, error.message);
    zr_lr_schedule schedule = config->schedule;
    zr_config_destroy(config);
    return schedule;
}

// The remainder of wsd is 1 - p there, which is rounded at the size of the whole rate; all others
// agree to 1e-15 of the value.
static void test_against_transformers(void **state)
{
    for (int c = 0; c < SCHEDULE_GOLDENS; c++) {
        const schedule_golden *golden = &schedule_goldens[c];
        zr_lr_schedule s = schedule_of(golden->params, SCHEDULE_GOLDEN_UPDATES);
        for (int n = 0; n < SCHEDULE_GOLDEN_UPDATES; n++) {
            double lr = zr_schedule_lr(&s, n), want = golden->lr[n],
                   scale = s.kind == ZR_SCHEDULE_OWN_WSD ? s.lr : want;
            if (!(fabs(lr - want) <= 1e-15 * scale))
                fail_msg("%s, update %d: %.17g, not %.17g", golden->params, n + 1, lr, want);
        }
    }
}

// No update is made at rate 0, and what comes after the run is at the end of the decay.
static void test_ends(void **state)
{
    static const char *const types[] = {"constant", "linear", "cosine", "wsd"};
    static const double after[] = {3e-4, 0, 3e-5, 0};
    char params[80];
    for (int type = 0; type < ZR_COUNT(types); type++) {
        for (int64_t updates = 1; updates <= 12; updates++) {
            for (int64_t warmup = 0; warmup <= updates * 4 / 5; warmup++) {
                snprintf(params, sizeof params, "\"type\": \"%s\", \"warmup\": %d", types[type],
                         (int)warmup);
                zr_lr_schedule s = schedule_of(params, updates);
                assert_true(zr_schedule_lr(&s, ZR_MAX(warmup, 1) - 1) == 3e-4);
                assert_true(zr_schedule_lr(&s, 0) == 3e-4 * (1 / (double)ZR_MAX(warmup, 1)));
                for (int64_t n = 0; n < updates; n++)
                    assert_true(zr_schedule_lr(&s, n) > 0 && zr_schedule_lr(&s, n) <= 3e-4);
                bool decays = s.decay_steps > 0;
                assert_true(fabs(zr_schedule_lr(&s, updates) - (decays ? after[type] : 3e-4)) <
                            1e-18);
                assert_true(zr_schedule_lr(&s, updates) == zr_schedule_lr(&s, 1000));
            }
        }
    }
}

// wsd is constant until its last updates, and the same at any length until then.
static void test_wsd_is_a_trapezoid(void **state)
{
    zr_lr_schedule s = schedule_of("\"type\": \"wsd\", \"warmup\": \"10%\", \"decay\": 4", 50),
                   longer = schedule_of("\"type\": \"wsd\", \"warmup\": 5, \"decay\": 4", 500);
    for (int n = 0; n < 46; n++)
        assert_true(zr_schedule_lr(&s, n) == zr_schedule_lr(&longer, n));
    for (int n = 46; n < 50; n++)
        assert_true(fabs(zr_schedule_lr(&s, n) - 3e-4 * (50 - n) / 5) < 1e-18);
}

// The program's default has the same bits under its name.
static void test_cosine_is_the_default(void **state)
{
    zr_lr_schedule s = schedule_of("\"type\": \"cosine\", \"warmup\": 7", 90);
    const zr_lr_schedule usual = {.kind = ZR_SCHEDULE_WARMUP_COSINE,
                                  .lr = 3e-4,
                                  .warmup_steps = 7,
                                  .total_steps = 90,
                                  .cosine_min_ratio = 0.1,
                                  .warmup_linear = 1,
                                  .from_one = true};
    for (int n = 0; n < 100; n++)
        assert_true(zr_schedule_lr(&s, n) == zr_schedule_lr(&usual, n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_transformers),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_wsd_is_a_trapezoid),
        cmocka_unit_test(test_cosine_is_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
