// A recording backend gives the bits of the backend that it records, makes one record per call with
// its bytes and FLOPs, and leaves nothing behind. The rows are the slots of the backend's tables,
// so that a slot that no case calls fails by name.
#include "recorded_calls.h"
#include "compute_check.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static void check_case(const expected *want, zr_queue *queue, zr_recorder *recorder,
                       slot_coverage *covered)
{
    operands *plain = operands_new(), *recorded = operands_new();
    zr_wrapper *recording;
    const zr_backend *backend = queue->backend;
    want->run(queue, plain);
    zr_recorder_clear(recorder);
    assert_int_equal(zr_queue_record(queue, recorder, &recording, NULL), ZERO_OK);
    const zr_backend *outer = queue->backend;
    assert_ptr_not_equal(outer, backend);
    want->run(queue, recorded);
    assert_ptr_equal(queue->backend, outer); // still recording after the call
    zr_queue_unwrap(queue, recording);
    assert_ptr_equal(queue->backend, backend);
    if (memcmp(plain, recorded, offsetof(operands, scratch)))
        fail_msg("%s: recorded, its results differ", want->name);
    assert_true(recorded->asked <= SCRATCH_BYTES);
    check_record(want, recorder);
    slot_covered(covered, &recorded->called);
    free(plain);
    free(recorded);
}

static void check_recording(zr_queue *queue)
{
    zr_wrapper *recording;
    const zr_backend *backend = queue->backend;
    assert_int_equal(zr_queue_record(queue, NULL, &recording, NULL), ZERO_OK);
    check_every_slot_wrapped(backend, queue->backend);
    assert_string_equal(queue->backend->name, backend->name);
    assert_string_equal(queue->backend->path(), backend->path());
    zr_queue_unwrap(queue, recording);
}

static void check_queue_cases(zr_queue *queue)
{
    slot_coverage covered = {0};
    zr_recorder *recorder;
    check_recording(queue);
    assert_int_equal(zr_recorder_create(16, &recorder, NULL), ZERO_OK);
    recorder->unit = 9;
    for (int i = 0; i < recorded_call_count; i++)
        check_case(&recorded_calls[i], queue, recorder, &covered);
    check_every_slot_covered(&covered);
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

static void no_memory_changes_nothing(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    const zr_backend *before = queue->backend;
    zr_wrapper *recording;
    zr_alloc_fail_at(1);
    assert_int_equal(zr_queue_record(queue, NULL, &recording, NULL), ZERO_ERR_MEMORY);
    zr_alloc_fail_at(0);
    zr_queue_unwrap(queue, recording);
    assert_ptr_equal(queue->backend, before);
    check_queue_close(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_on_cpu),
        cmocka_unit_test(every_call_on_ref),
        cmocka_unit_test(no_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
