// A micro-batch in the memory of the device is refused in one sentence, before anything is read.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "far_training.h"

#include <string.h>

enum { ROOM = 4096 };

static struct {
    void *device;
    zero_error errors[2]; // of a forward and an evaluation
    zero_status status[2];
} told;

static zero_status give_device_memory(zero_engine *engine, zero_error *error)
{
    harness_rows rows;
    zero_step_info info;
    double loss;
    const harness_case c = {.batch = FAR_BATCH};
    const zero_tensors good = harness_micro_batch(&c, 0, 0, &rows);
    zero_tensors bad = good;
    bad.at[1].data = (char *)told.device + 64;
    told.status[0] = zero_forward(engine, &bad, &loss, &told.errors[0]);
    told.status[1] = zero_evaluate(engine, &bad, &loss, &told.errors[1]);
    ZERO_TRY(zero_forward(engine, &good, &loss, error)); // nothing has changed
    ZERO_TRY(zero_backward(engine, error));
    return zero_step(engine, &info, error);
}

static void a_batch_on_the_device_is_refused(void **state)
{
    static const char *const functions[] = {"zero_forward", "zero_evaluate"};
    static harness_result got;
    far_report report;
    harness_case run = far_case_at(&far_plain_cases[0], 2, 1);
    zr_device *device = far_device();
    run.backend = "far";
    run.drive = give_device_memory;
    far_begin(&(far_options){.order = FAR_LAZY});
    assert_int_equal(device->ops->reserve(device, ZR_MEMORY_DEVICE, ROOM, &told.device, NULL),
                     ZERO_OK);
    harness_run(&run, &got);
    device->ops->release(device, ZR_MEMORY_DEVICE, told.device, ROOM);
    far_end(&report);
    assert_string_equal(report.first, "");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(told.status[i], ZERO_ERR_USAGE);
        assert_int_equal(strncmp(told.errors[i].message, functions[i], strlen(functions[i])), 0);
        assert_non_null(strstr(told.errors[i].message,
                               ": tensor 1 of the micro-batch lies in the memory of \"far\"; the "
                               "host reads micro-batches, from its own memory"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_batch_on_the_device_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
