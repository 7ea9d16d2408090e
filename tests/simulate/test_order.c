// Orders of the mesh: texts, and that the best one is no worse than any.
#include "simulate/catalogue.h"
#include "simulate/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void texts_name_axes(void **state)
{
    zr_sim_run run = {0};
    zero_error error;
    assert_int_equal(zr_sim_order_read("tensor", &run, NULL), ZERO_OK);
    assert_string_equal(run.order, "tensor,context,data,pipeline");
    assert_int_equal(zr_sim_order_read("data,pipeline", &run, NULL), ZERO_OK);
    assert_string_equal(run.order, "data,pipeline,tensor,context");
    static const char *const wrong[] = {"", "tensor,", "tensor,tensor", "tens", "tensor context"};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        assert_int_equal(zr_sim_order_read(wrong[i], &run, &error), ZERO_ERR_USAGE);
        assert_non_null(strstr(error.message, "tensor, context, data and pipeline"));
    }
}

static zr_sim_run example(void)
{
    zr_sim_run run = {.layers = 32,
                      .width = 4096,
                      .heads = 32,
                      .seq = 4096,
                      .devices = 256,
                      .tensor = 8,
                      .pipeline = 4,
                      .accumulation = 16,
                      .number = ZR_SIM_16_BIT,
                      .attention = ZR_SIM_FLASH};
    zr_sim_catalogue catalogue;
    assert_int_equal(zr_sim_catalogue_open(&catalogue, NULL), ZERO_OK);
    assert_int_equal(zr_sim_machine_find(&catalogue, "a100-dgx", &run.machine, NULL), ZERO_OK);
    zr_sim_framework_find(&catalogue, NULL, &run.framework);
    zr_sim_catalogue_close(&catalogue);
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    return run;
}

static const zr_sim_axis_use *use_of(const zr_sim_step *step, const char *axis)
{
    for (int i = 0; i < step->axis_count; i++)
        if (!strcmp(step->axes[i].axis, axis))
            return &step->axes[i];
    fail_msg("no axis %s", axis);
    return NULL;
}

static void the_best_is_no_worse_than_any(void **state)
{
    static const char *const orders[] = {"tensor,data,pipeline", "tensor,pipeline,data",
                                         "data,tensor,pipeline", "data,pipeline,tensor",
                                         "pipeline,data,tensor", "pipeline,tensor,data"};
    zr_sim_run run = example(), best = run;
    zr_sim_step found, step;
    bool met = false;
    assert_int_equal(zr_sim_best_order(&best, &found, NULL), ZERO_OK);
    for (int i = 0; i < ZR_COUNT(orders); i++) {
        assert_int_equal(zr_sim_order_read(orders[i], &run, NULL), ZERO_OK);
        assert_int_equal(zr_sim_step_find(&run, &step, NULL), ZERO_OK);
        assert_true(found.seconds <= step.seconds);
        met |= found.seconds == step.seconds;
    }
    assert_true(met);
    // Tensor ranks send most, so they stay in a node.
    assert_int_equal(use_of(&found, "tensor")->reach, ZR_SIM_IN_NODE);
}

static void orders_say_what_crosses_what(void **state)
{
    zr_sim_run run = example();
    zr_sim_step step;
    assert_int_equal(zr_sim_order_read("data", &run, NULL), ZERO_OK);
    assert_int_equal(zr_sim_step_find(&run, &step, NULL), ZERO_OK);
    assert_int_equal(use_of(&step, "data")->reach, ZR_SIM_IN_NODE);
    assert_true(use_of(&step, "tensor")->reach > ZR_SIM_IN_NODE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_name_axes),
        cmocka_unit_test(the_best_is_no_worse_than_any),
        cmocka_unit_test(orders_say_what_crosses_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
