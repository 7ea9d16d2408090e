// The best checkpoint interval and its goodput: against closed forms, and against failures that are
// drawn at random.
#include "simulate/failures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_best_interval_is_the_best(void **state)
{
    static const zr_sim_failures cases[] = {{.mtbf = 1e4, .blocked = 60, .restart = 300},
                                            {.mtbf = 1e6, .blocked = 5},
                                            {.mtbf = 600, .blocked = 300, .restart = 10}};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_sim_survival best;
        assert_int_equal(zr_sim_survive(&cases[i], &best, NULL), ZERO_OK);
        assert_true(zr_sim_goodput(&cases[i], best.interval) == best.goodput);
        for (double by = 0.5; by < 2; by *= 1.1)
            assert_true(zr_sim_goodput(&cases[i], best.interval * by) <= best.goodput);
        double share = best.interval / cases[i].mtbf;
        assert_float_equal((1 - share) * exp((best.interval + cases[i].blocked) / cases[i].mtbf), 1,
                           1e-9);
    }
}

// Where failures are rare, Young's formula is the limit, and what is lost is twice
// blocked / interval.
static void rare_failures_are_youngs(void **state)
{
    const zr_sim_failures rare = {.mtbf = 1e9, .blocked = 10};
    zr_sim_survival best;
    assert_int_equal(zr_sim_survive(&rare, &best, NULL), ZERO_OK);
    assert_float_equal(best.interval / best.young, 1, 1e-3);
    assert_float_equal((1 - best.goodput) / (2 * rare.blocked / best.interval), 1, 1e-3);
}

static void free_checkpoints_cost_what_is_behind(void **state)
{
    // Nothing blocks, and a write takes 100 s: that is the interval, and there is no need of more.
    const zr_sim_failures fast = {.mtbf = 1e4, .behind = 100, .restart = 50};
    zr_sim_survival best;
    assert_int_equal(zr_sim_survive(&fast, &best, NULL), ZERO_OK);
    assert_float_equal(best.interval, 100, 1e-9);
    assert_float_equal(best.goodput, 0.01 * exp(-0.015) / expm1(0.01), 1e-12);
}

static void hopeless_machines_are_refused(void **state)
{
    const zr_sim_failures hopeless = {.mtbf = 10, .blocked = 1000, .restart = 1000};
    zr_sim_survival best;
    zero_error error;
    assert_int_equal(zr_sim_survive(&hopeless, &best, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "every 10 s"));
}

static double draw(uint64_t *seed, double mean) // an exponential time
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return -mean * log(((double)(*seed >> 11) + 0.5) / 9007199254740992.0);
}

// Trains through random failures for so long, and returns the part of the time that made progress.
static double live(const zr_sim_failures *f, double interval, double most)
{
    uint64_t seed = 19;
    double now = 0, fails = draw(&seed, f->mtbf), durable = 0, done = 0;
    double written = -1; // when the checkpoint of `done` is complete; -1: it is
    while (now < most) {
        double end = now + interval + f->blocked;
        if (written >= 0 && fails >= written) {
            durable = done;
            written = -1;
        }
        if (fails >= end) {
            now = end;
            done += interval;
            written = now + f->behind;
            continue;
        }
        done = durable;
        written = -1;
        now = fails;
        fails = now + draw(&seed, f->mtbf);
        while (fails < now + f->restart) {
            now = fails;
            fails = now + draw(&seed, f->mtbf);
        }
        now += f->restart;
    }
    return durable / now;
}

static void goodput_is_that_of_random_failures(void **state)
{
    static const zr_sim_failures cases[] = {{.mtbf = 1e4, .blocked = 60, .restart = 300},
                                            {.mtbf = 2e3, .blocked = 5, .behind = 200},
                                            {.mtbf = 600, .blocked = 100, .restart = 200}};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_sim_survival best;
        assert_int_equal(zr_sim_survive(&cases[i], &best, NULL), ZERO_OK);
        for (double by = 1; by < 3; by *= 2) {
            double lived = live(&cases[i], best.interval * by, cases[i].mtbf * 2e5);
            assert_float_equal(zr_sim_goodput(&cases[i], best.interval * by) / lived, 1, 0.01);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_interval_is_the_best),
        cmocka_unit_test(rare_failures_are_youngs),
        cmocka_unit_test(free_checkpoints_cost_what_is_behind),
        cmocka_unit_test(hopeless_machines_are_refused),
        cmocka_unit_test(goodput_is_that_of_random_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
