// The least change with which a run fits: it fits, nothing that costs less would, and it is
// described in flags and keys.
#include "example.h"
#include "simulate/costs.h"
#include "simulate/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static zr_sim_run complete(zr_sim_run run, double memory)
{
    run.machine.memory = memory;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    return run;
}

// Returns the description for a device that has `part` of what the run needs.
static zr_sim_remedy remedy_for(zr_sim_run run, double part, bool keep_seq)
{
    zr_sim_remedy remedy;
    run.machine.memory = part * zr_sim_memory(&run);
    assert_true(zr_sim_remedy_find(&run, keep_seq, &remedy));
    assert_true(zr_sim_memory(&remedy.run) <= run.machine.memory);
    assert_true(remedy.memory == zr_sim_memory(&remedy.run));
    return remedy;
}

static void cheaper_changes_come_first(void **state)
{
    zr_sim_run run = sim_example_run();
    run.micro_batch = 8;
    run.accumulation = 4;
    run.global_batch = 0;
    run.seq = 8192;
    run = complete(run, 1e18);
    zr_sim_remedy little = remedy_for(run, 0.99, false);
    assert_string_equal(little.changes, "--micro-batch 4");
    assert_int_equal(little.run.global_batch, run.global_batch);
    run.micro_batch = 1;
    run.accumulation *= 8;
    assert_string_equal(remedy_for(run, 0.99, false).changes, "--seq 4096");
    assert_string_equal(remedy_for(run, 0.99, true).changes, "--recompute full");
    run.recompute = ZR_SIM_FULL;
    run.recompute_every = 1;
    assert_non_null(strstr(remedy_for(run, 0.99, true).changes, "--stage "));
    run.stage = 3;
    assert_non_null(strstr(remedy_for(run, 0.3, true).changes,
                           "zero_optimization.offload_optimizer.device \"cpu\""));
}

static void what_nothing_helps_has_none(void **state)
{
    zr_sim_run run = complete(sim_example_run(), 1e3);
    zr_sim_remedy remedy;
    assert_false(zr_sim_remedy_find(&run, false, &remedy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheaper_changes_come_first),
        cmocka_unit_test(what_nothing_helps_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
