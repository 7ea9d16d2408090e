// A predicted step is computed from what the plan says is moved and what the machine was measured
// to reach, and from nothing else.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"
#include "plan/predict.h"

#include <math.h>
#include <string.h>

static const zr_speed slow_disk = {.micro_batch = 0.01,
                                   .copy = 10e9,
                                   .update = 20e9,
                                   .checksum = 10e9,
                                   .read = 2e8,
                                   .write = 1e8,
                                   .mix = 1e8};
static const zr_tiering on_host = {.optimizer = ZERO_TIER_host};
static const zr_tiering on_nvme = {.optimizer = ZERO_TIER_nvme,
                                   .parameters = ZERO_TIER_nvme,
                                   .sub_group = 4096,
                                   .read_ahead = true,
                                   .write_behind = true,
                                   .visits_ahead = 2,
                                   .block = 1 << 20};

static void near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9 + 1e-6 * fabs(wanted)))
        fail_msg("%.12g, expected %.12g", got, wanted);
}

static zr_prediction predict(const zr_tiering *tiering, int64_t accumulation, const zr_speed *speed,
                             zr_plan **out)
{
    static fixture f;
    fixture_build(&f, 4, 1000, 96);
    *out = fixture_plan_on_tiers(&f, 3, 2, accumulation, tiering);
    zr_prediction p = zr_predict(*out, speed);
    near(p.total, p.compute + p.exchange + p.update + p.disk);
    return p;
}

static void memory_alone(void **state)
{
    zr_plan *plan;
    zr_prediction p = predict(&on_host, 1, &slow_disk, &plan);
    double n = (double)plan->state_elems[ZERO_TIER_host];
    assert_true(p.disk == 0);
    // master, moments, gradient, parameters; and the norm
    near(p.update, n * (8 + 8 + 8 + 2 + 2) / 20e9 + n * 2 / 10e9);
    assert_true(p.compute > 0.01);
    zr_plan_destroy(plan);
    zr_prediction more = predict(&on_host, 3, &slow_disk, &plan);
    assert_true(more.compute > 2.9 * p.compute && more.compute < 3.1 * p.compute);
    zr_plan_destroy(plan);
}

static void the_disk_is_waited_for_where_it_is_slower(void **state)
{
    zr_plan *plan;
    zr_speed speed = slow_disk;
    zr_prediction p = predict(&on_nvme, 1, &speed, &plan);
    const zr_moves *m = &plan->moves;
    double update = (double)(m->update[0].nvme_read + m->update[0].nvme_written),
           n = (double)plan->state_elems[ZERO_TIER_nvme];
    double forward = (double)(m->micro_batch.nvme_read + m->kept.nvme_read) / 2e8 +
                     (double)m->micro_batch.nvme_written / 1e8;
    double busy = n * 28 / 20e9 + update / 10e9;
    near(p.update, busy + n * 2 / 10e9);
    near(p.disk, update / 1e8 - busy + fmax(forward - p.compute - p.exchange, 0));
    assert_string_equal(zr_prediction_bottleneck(&p), "NVMe");
    speed.read = speed.write = speed.mix = 1e15;
    zr_prediction quick = zr_predict(plan, &speed);
    assert_true(quick.disk == 0 && quick.total < p.total);
    near(quick.compute, p.compute);
    assert_string_equal(zr_prediction_bottleneck(&quick), "compute");
    zr_plan_destroy(plan);
}

static void what_is_delayed_hides_behind_compute(void **state)
{
    zr_plan *plan;
    zr_prediction now = predict(&on_nvme, 1, &slow_disk, &plan);
    // the same plan, as if its update went on beside: the parameters are published by a second walk
    zr_plan later = *plan;
    later.settings.delayed = true;
    later.moves.update[1] = (zr_moved){0};
    zr_speed speed = slow_disk;
    speed.micro_batch = 1000;
    zr_prediction hidden = zr_predict(&later, &speed);
    assert_true(hidden.disk < now.disk);
    near(hidden.disk, 0);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_alone),
        cmocka_unit_test(the_disk_is_waited_for_where_it_is_slower),
        cmocka_unit_test(what_is_delayed_hides_behind_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
