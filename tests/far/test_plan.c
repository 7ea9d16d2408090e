// What a plan takes from a far device's backend: its own scratch and logits, what its queues take
// by themselves, and, as budget, what the device has unused.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "far_training.h"
#include "layers/layout.h"
#include <zero/gpt2.h>

static zr_queue *open_far(void)
{
    zr_queue *queue = NULL;
    far_begin(&(far_options){.order = FAR_LAZY});
    assert_int_equal(zr_queue_open("far", NULL, 2, &queue, NULL), ZERO_OK);
    return queue;
}

static void close_far(zr_queue *queue)
{
    far_report report;
    zr_queue_close(queue);
    far_end(&report);
    assert_int_equal(report.violations, 0);
}

// "far" computes as "ref" does, which needs less than the widest path of the host.
static void scratch_is_that_of_the_device(void **state)
{
    const zr_norm norm = {.rows = 512, .width = 768};
    zr_queue *queue = open_far();
    zr_queue ref = {.threads = 2};
    const zr_op op = {.kind = ZR_OP_norm_backward, .shape.norm = norm};
    assert_int_equal(zr_backend_find("ref", NULL, &ref.backend, NULL), ZERO_OK);
    assert_int_equal(zr_scratch_norm(queue->backend, 2, &norm), zr_op_scratch(&ref, op));
    assert_true(zr_scratch_norm(NULL, 2, &norm) > zr_scratch_norm(queue->backend, 2, &norm));
    assert_int_equal(zr_scratch_norm(ref.backend, 2, &norm), zr_scratch_norm(NULL, 2, &norm));
    close_far(queue);
}

static void logits_are_as_many_as_the_device_computes_at_once(void **state)
{
    zero_gpt2_config config;
    const zero_shape shape = {.batch = 1, .seq = 1024, .threads = 1};
    static zero_unit_sizes host, device;
    zero_model *model = NULL;
    zr_queue *queue = open_far();
    zero_gpt2_defaults(&config);
    config.n_layer = 1;
    config.n_head = 2;
    config.n_embd = 16;
    assert_int_equal(zero_gpt2_create(&config, &model, NULL), ZERO_OK);
    const zero_unit *head = &model->units[model->unit_count - 1];
    assert_int_equal(head->ops->sizes(head, &shape, NULL, &host), ZERO_OK);
    assert_int_equal(head->ops->sizes_on(head, queue->backend, &shape, NULL, &device), ZERO_OK);
    int64_t of_host = host.products[0].m, of_device = device.products[0].m;
    assert_true(of_host * 4 * 50257 <= 32 << 20);
    assert_true(of_device > of_host && of_device * 4 * 50257 <= FAR_LOGIT_BYTES);
    assert_true((int64_t)(device.workspace_bytes - host.workspace_bytes) >
                (of_device - of_host) * 4 * 50257 / 2);
    // Rows of logits begin at multiples of 8 elements, where the device wants that.
    zr_backend dense = *queue->backend;
    dense.logit_step = 0;
    assert_int_equal(head->ops->sizes_on(head, &dense, &shape, NULL, &host), ZERO_OK);
    int64_t space = (int64_t)(device.workspace_bytes - host.workspace_bytes) - of_device * 4 * 7;
    assert_true(space > -64 && space < 64);
    zero_gpt2_destroy(model);
    close_far(queue);
}

static void what_is_unused_of_the_device_is_the_budget(void **state)
{
    harness_case run = {
        .stage = 2, .ranks = 2, .accumulation = 1, .batch = FAR_BATCH, .backend = "far"};
    far_report report;
    far_begin(&(far_options){.order = FAR_LAZY, .device_bytes = 2 * FAR_RUNTIME_BYTES});
    harness_refused(&run, ZERO_ERR_LIMIT, "more than its budget of 3.15 MB");
    far_end(&report);
    assert_int_equal(report.allocations, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scratch_is_that_of_the_device),
        cmocka_unit_test(logits_are_as_many_as_the_device_computes_at_once),
        cmocka_unit_test(what_is_unused_of_the_device_is_the_budget)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
