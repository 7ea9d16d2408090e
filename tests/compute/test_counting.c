// A backend that counts touches no operand and asks for the same scratch; a recording of it makes
// the records that one of the backend makes that it stands for.
#include "compute/compute.h"

#include "base/alloc.h"
#include "compute_check.h"
#include "recorded_calls.h"

#include <stdlib.h>
#include <string.h>

static void expect_untouched(const expected *want, const operands *got)
{
    operands *before = operands_new();
    size_t begin = offsetof(operands, a), end = offsetof(operands, called);
    if (memcmp((char *)before + begin, (const char *)got + begin, end - begin))
        fail_msg("%s: counted, it touches an operand", want->name);
    free(before);
}

static void check_case(const expected *want, zr_queue *queue, zr_recorder *recorder)
{
    operands *computed = operands_new(), *counted = operands_new();
    zr_wrapper *counting;
    zr_wrapper *recording;
    const zr_backend *backend = queue->backend;
    want->run(queue, computed);
    zr_recorder_clear(recorder);
    assert_int_equal(zr_queue_count(queue, &counting, NULL), ZERO_OK);
    const zr_backend *counts = queue->backend;
    assert_int_equal(zr_queue_record(queue, recorder, &recording, NULL), ZERO_OK);
    want->run(queue, counted);
    zr_queue_unwrap(queue, recording);
    assert_ptr_equal(queue->backend, counts);
    zr_queue_unwrap(queue, counting);
    assert_ptr_equal(queue->backend, backend);
    expect_untouched(want, counted);
    assert_int_equal(counted->asked, computed->asked);
    check_record(want, recorder);
    free(computed);
    free(counted);
}

static void check_queue_cases(zr_queue *queue)
{
    zr_wrapper *counting;
    zr_recorder *recorder;
    const zr_backend *backend = queue->backend;
    assert_int_equal(zr_queue_count(queue, &counting, NULL), ZERO_OK);
    check_every_slot_wrapped(backend, queue->backend);
    assert_string_equal(queue->backend->path(), backend->path());
    zr_queue_unwrap(queue, counting);
    assert_int_equal(zr_recorder_create(16, &recorder, NULL), ZERO_OK);
    recorder->unit = 9;
    for (int i = 0; i < recorded_call_count; i++)
        check_case(&recorded_calls[i], queue, recorder);
    zr_recorder_destroy(recorder);
}

static void cpu_body(zr_queue *queue, zr_queue *single, zr_queue *ref) { check_queue_cases(queue); }

static void every_call_on_cpu(void **state) { check_each_cpu(cpu_body); }

static void every_call_on_ref(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    check_queue_cases(queue);
    check_queue_close(queue);
}

static void products_that_nobody_computes_are_refused(void **state)
{
    const zr_product product = {.m = 1, .n = 1, .k = 1, .dtype = ZERO_I32, .out = ZERO_I32};
    zr_queue *queue = check_queue("ref", NULL, 1);
    zr_wrapper *counting;
    assert_int_equal(zr_queue_count(queue, &counting, NULL), ZERO_OK);
    assert_int_equal(queue->backend->product->run(queue, &product, NULL, NULL, NULL, NULL, NULL),
                     ZERO_ERR_UNSUPPORTED);
    zr_queue_unwrap(queue, counting);
    check_queue_close(queue);
}

static void no_memory_changes_nothing(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    const zr_backend *before = queue->backend;
    zr_wrapper *counting;
    zr_alloc_fail_at(1);
    assert_int_equal(zr_queue_count(queue, &counting, NULL), ZERO_ERR_MEMORY);
    zr_alloc_fail_at(0);
    zr_queue_unwrap(queue, counting);
    assert_ptr_equal(queue->backend, before);
    check_queue_close(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_on_cpu),
        cmocka_unit_test(every_call_on_ref),
        cmocka_unit_test(products_that_nobody_computes_are_refused),
        cmocka_unit_test(no_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
