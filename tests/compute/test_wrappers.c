// Backends around a queue's. One that records gives the bits of the backend inside and makes one
// record per operation; one that counts touches no operand, and has the same records and sizes of
// scratch. Any other one decides what is run. All of them leave nothing behind.
#include "base/alloc.h"
#include "compute/compute.h"
#include "op_cases.h"

#include <stdlib.h>
#include <string.h>

// Checks that the recorder, whose unit is 9, has the record of the case, and no other one.
static void check_record(const op_case *want, const zr_recorder *recorder)
{
    if (recorder->count != 1)
        fail_msg("%s: %lld records, not 1", want->name, (long long)recorder->count);
    const zr_record *got = &recorder->records[0];
    if (got->what != want->what || got->bytes != want->bytes || got->flops != want->flops)
        fail_msg("%s: recorded as %s, %lld bytes and %lld flops, not %s, %lld and %lld", want->name,
                 zr_activity_name(got->what), (long long)got->bytes, (long long)got->flops,
                 zr_activity_name(want->what), (long long)want->bytes, (long long)want->flops);
    assert_true(got->slot == -1 && got->unit == 9 && got->end >= got->begin);
}

// An operation's scratch has no record.
static void check_scratch(const op_case *c, zr_queue *queue, const zr_backend *backend,
                          const zr_op *op)
{
    zr_queue plain = *queue;
    plain.backend = backend;
    size_t bytes = zr_op_scratch(&plain, *op);
    assert_int_equal(zr_op_scratch(queue, *op), bytes);
    if (bytes > SCRATCH_BYTES)
        fail_msg("%s needs %zu bytes of scratch", c->name, bytes);
}

static void check_recording(const op_case *c, zr_queue *queue, zr_recorder *recorder)
{
    operands *plain = operands_new(), *recorded = operands_new();
    zr_wrapper *recording;
    const zr_backend *backend = queue->backend;
    const zr_op op = c->make(recorded);
    zr_run(queue, c->make(plain));
    zr_recorder_clear(recorder);
    assert_int_equal(zr_queue_record(queue, recorder, &recording, NULL), ZERO_OK);
    const zr_backend *outer = queue->backend;
    assert_ptr_not_equal(outer, backend);
    zr_run(queue, op);
    check_scratch(c, queue, backend, &op);
    assert_ptr_equal(queue->backend, outer); // it still records
    zr_queue_unwrap(queue, recording);
    assert_ptr_equal(queue->backend, backend);
    if (memcmp(plain, recorded, offsetof(operands, scratch)))
        fail_msg("%s: recorded, its results differ", c->name);
    check_record(c, recorder);
    free(plain);
    free(recorded);
}

static void check_counting(const op_case *c, zr_queue *queue, zr_recorder *recorder)
{
    operands *before = operands_new(), *counted = operands_new();
    zr_wrapper *counting, *recording;
    const zr_backend *backend = queue->backend;
    const zr_op op = c->make(counted);
    zr_recorder_clear(recorder);
    assert_int_equal(zr_queue_count(queue, &counting, NULL), ZERO_OK);
    const zr_backend *counts = queue->backend;
    assert_ptr_not_equal(counts, backend);
    assert_int_equal(zr_queue_record(queue, recorder, &recording, NULL), ZERO_OK);
    zr_run(queue, op);
    check_scratch(c, queue, backend, &op);
    zr_queue_unwrap(queue, recording);
    assert_ptr_equal(queue->backend, counts);
    zr_queue_unwrap(queue, counting);
    assert_ptr_equal(queue->backend, backend);
    if (memcmp(before, counted, sizeof *counted))
        fail_msg("%s: counted, it touches an operand", c->name);
    check_record(c, recorder);
    free(before);
    free(counted);
}

static void check_name(zr_queue *queue)
{
    zr_wrapper *recording, *counting;
    const zr_backend *backend = queue->backend;
    assert_int_equal(zr_queue_count(queue, &counting, NULL), ZERO_OK);
    assert_int_equal(zr_queue_record(queue, NULL, &recording, NULL), ZERO_OK);
    assert_string_equal(queue->backend->name, backend->name);
    assert_string_equal(queue->backend->path(), backend->path());
    zr_queue_unwrap(queue, recording);
    assert_string_equal(queue->backend->name, backend->name);
    assert_string_equal(queue->backend->path(), backend->path());
    zr_queue_unwrap(queue, counting);
}

static void check_queue_cases(zr_queue *queue)
{
    zr_recorder *recorder;
    check_name(queue);
    check_every_kind_has_a_case();
    assert_int_equal(zr_recorder_create(16, &recorder, NULL), ZERO_OK);
    recorder->unit = 9;
    for (const op_case *c = op_case_next(NULL); c; c = op_case_next(c)) {
        check_recording(c, queue, recorder);
        check_counting(c, queue, recorder);
    }
    zr_recorder_destroy(recorder);
}

static void cpu_body(zr_queue *queue, zr_queue *single, zr_queue *ref) { check_queue_cases(queue); }

static void every_case_on_cpu(void **state) { check_each_cpu(cpu_body); }

static void every_case_on_ref(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    check_queue_cases(queue);
    check_queue_close(queue);
}

// With nothing around, counted, recorded, and both: the failure is the same.
static void products_that_nobody_computes_are_refused(void **state)
{
    const zr_product product = {.m = 1, .n = 1, .k = 1, .dtype = ZERO_I32, .out = ZERO_I32};
    zr_queue *queue = check_queue("ref", NULL, 1);
    for (int around = 0; around < 4; around++) {
        zr_wrapper *counting = NULL, *recording = NULL;
        zr_recorder *recorder;
        zero_error error = {0};
        assert_int_equal(zr_recorder_create(16, &recorder, NULL), ZERO_OK);
        if (around & 1)
            assert_int_equal(zr_queue_count(queue, &counting, NULL), ZERO_OK);
        if (around & 2)
            assert_int_equal(zr_queue_record(queue, recorder, &recording, NULL), ZERO_OK);
        assert_int_equal(check_run(queue, zr_op_product(&product, NULL, NULL, NULL, NULL), &error),
                         ZERO_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "matrix product"));
        zr_queue_unwrap(queue, recording);
        zr_queue_unwrap(queue, counting);
        zr_recorder_destroy(recorder);
    }
    check_queue_close(queue);
}

// ---- any function around ----

typedef struct seen { // what wrappers were given, in order
    int count;
    struct {
        char by; // a wrapper, or '-' at its end
        zr_op_kind kind;
    } at[16];
} seen;

typedef struct watcher {
    seen *seen;
    char name;
} watcher;

static void watch(void *user, zr_queue *queue, const zr_op *op)
{
    const watcher *w = user;
    seen *s = w->seen;
    s->at[s->count].by = w->name;
    s->at[s->count++].kind = op->kind;
    queue->backend->run(queue, op);
    s->at[s->count].by = '-';
    s->at[s->count++].kind = op->kind;
}

static void check_seen(seen *s, const char *want)
{
    assert_int_equal(s->count, strlen(want));
    for (int i = 0; i < s->count; i++)
        assert_int_equal(s->at[i].by, want[i]);
    s->count = 0;
}

static void what_is_wrapped_later_is_given_first(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    const zr_backend *backend = queue->backend;
    seen seen = {0};
    watcher a = {&seen, 'a'}, b = {&seen, 'b'};
    zr_wrapper *first, *second;
    float x[2] = {1, 2}, y[2] = {0};
    const zr_op copy = zr_op_copy(&(zr_bytes){sizeof x}, x, y);
    assert_int_equal(zr_queue_wrap(queue, watch, &a, &first, NULL), ZERO_OK);
    zr_run(queue, copy);
    check_seen(&seen, "a-");
    const zr_backend *inner = queue->backend;
    assert_int_equal(zr_queue_wrap(queue, watch, &b, &second, NULL), ZERO_OK);
    const zr_backend *outer = queue->backend;
    zr_run(queue, copy);
    assert_ptr_equal(queue->backend, outer);
    assert_int_equal(seen.at[0].kind, ZR_OP_copy);
    check_seen(&seen, "ba--");
    zr_queue_unwrap(queue, second);
    assert_ptr_equal(queue->backend, inner);
    zr_run(queue, copy);
    check_seen(&seen, "a-");
    zr_queue_unwrap(queue, first);
    assert_ptr_equal(queue->backend, backend);
    zr_run(queue, copy);
    check_seen(&seen, "");
    assert_memory_equal(x, y, sizeof x);
    zr_queue_unwrap(queue, NULL);
    check_queue_close(queue);
}

// Adds to what is set to zero, and leaves copies out.
static void replace(void *user, zr_queue *queue, const zr_op *op)
{
    int *given = user;
    ++*given;
    if (op->kind == ZR_OP_fill) {
        float *to = op->at.fill.to;
        const zr_sum one = {.n = 1};
        zr_run(queue, zr_op_add(&one, to, to, to)); // on the backend inside: it is not given again
        zr_run(queue, zr_op_add(&one, to, to, to));
    } else if (op->kind != ZR_OP_copy) {
        queue->backend->run(queue, op);
    }
}

static void a_wrapper_decides_what_is_run(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    zr_wrapper *wrapper;
    int given = 0;
    float x = 3, y = 5, z = 0;
    assert_int_equal(zr_queue_wrap(queue, replace, &given, &wrapper, NULL), ZERO_OK);
    zr_run(queue, zr_op_fill(&(zr_bytes){sizeof x}, &x));
    zr_run(queue, zr_op_copy(&(zr_bytes){sizeof x}, &x, &y));
    zr_run(queue, zr_op_add(&(zr_sum){.n = 1}, &x, &y, &z));
    zr_queue_unwrap(queue, wrapper);
    assert_true(x == 12 && y == 5 && z == 17);
    assert_int_equal(given, 3);
    zr_run(queue, zr_op_fill(&(zr_bytes){sizeof x}, &x));
    assert_true(x == 0);
    check_queue_close(queue);
}

// A queue with other scratch is wrapped as the one it comes from.
static void a_wrapped_queue_may_have_other_scratch(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    seen seen = {0};
    watcher a = {&seen, 'a'};
    zr_wrapper *wrapper;
    float x = 3;
    assert_int_equal(zr_queue_wrap(queue, watch, &a, &wrapper, NULL), ZERO_OK);
    zr_queue other = zr_queue_with_scratch(queue, NULL, 0);
    zr_run(&other, zr_op_fill(&(zr_bytes){sizeof x}, &x));
    zr_run(&other, zr_op_fill(&(zr_bytes){sizeof x}, &x));
    check_seen(&seen, "a-a-");
    assert_ptr_equal(other.backend, queue->backend);
    zr_queue_unwrap(queue, wrapper);
    check_queue_close(queue);
}

// An operand has to lie in one piece of reserved memory; else the operation is not run, and the
// message names it, the operand and the unit.
static void operands_lie_in_what_is_reserved(void **state)
{
    static const struct {
        int from, to;      // bytes
        const char *words; // of the message; NULL: it runs
    } cases[] = {
        {0, 128, NULL},
        {64, 160, NULL},
        {192, 0,
         "operation copy: its operand from, 64 bytes from byte 64 of its workspace, ends 32"},
        {0, 176, "operation copy: its operand to, 64 bytes from byte 48 of its workspace, ends 16"},
        {0, 256, "unit \"h.3\", operation copy: its operand to, 64 bytes, lies in no memory"},
    };
    zr_queue *queue = check_queue("ref", NULL, 1);
    char memory[512] = {0};
    zr_bounds bounds = {
        .unit = "h.3",
        .count = 3,
        .reserved = {{"saved buffer", memory, 128},
                     {"workspace", memory + 128, 96},
                     {"none", NULL, 0}},
    };
    zr_wrapper *wrapper;
    assert_int_equal(zr_queue_bound(queue, &bounds, &wrapper, NULL), ZERO_OK);
    for (int i = 0; i < ZR_COUNT(cases); i++)
        for (int checked = 1; checked >= 0; checked--) {
            zero_error error = {0};
            bounds.unit = checked ? "h.3" : NULL;
            memory[cases[i].from] = 7;
            memory[cases[i].to] = 1;
            zr_run(queue,
                   zr_op_copy(&(zr_bytes){64}, memory + cases[i].from, memory + cases[i].to));
            bool refused = checked && cases[i].words;
            assert_int_equal(zr_queue_check(queue, &error), refused ? ZERO_ERR_INTERNAL : ZERO_OK);
            assert_int_equal(memory[cases[i].to], refused ? 1 : 7);
            if (refused && !strstr(error.message, cases[i].words))
                fail_msg("%s", error.message);
        }
    zr_queue_unwrap(queue, wrapper);
    check_queue_close(queue);
}

// Scratch is as long as the backend says.
static void scratch_lies_in_what_is_reserved(void **state)
{
    const zr_matrix matrix = {.dtype = ZERO_F32, .rows = 40, .width = 4};
    zr_queue *queue = check_queue("cpu", "portable", 1);
    static float x[160], out[4], scratch[64];
    zr_bounds bounds = {.unit = "h.3", .count = 3};
    zr_wrapper *wrapper;
    zero_error error = {0};
    size_t needed = zr_op_scratch(queue, zr_op_column_sum(&matrix, NULL, NULL, NULL));
    assert_true(needed > 0 && needed <= sizeof scratch);
    bounds.reserved[0].at = x, bounds.reserved[0].bytes = sizeof x;
    bounds.reserved[1].at = out, bounds.reserved[1].bytes = sizeof out;
    bounds.reserved[2].at = scratch, bounds.reserved[2].name = "workspace";
    assert_int_equal(zr_queue_bound(queue, &bounds, &wrapper, NULL), ZERO_OK);
    for (int short_by = 0; short_by < 2; short_by++) {
        bounds.reserved[2].bytes = needed - (size_t)short_by;
        zr_run(queue, zr_op_column_sum(&matrix, x, out, scratch));
        assert_int_equal(zr_queue_check(queue, &error), short_by ? ZERO_ERR_INTERNAL : ZERO_OK);
    }
    assert_non_null(strstr(error.message, "operation column_sum: its operand scratch"));
    zr_queue_unwrap(queue, wrapper);
    check_queue_close(queue);
}

// What a program lends lies where no plan has reserved anything.
static void what_is_lent_lies_anywhere(void **state)
{
    const zr_neighbours of = {.dtype = ZERO_F32, .rows = 1, .columns = 1, .edges = 1, .width = 1};
    static const int64_t starts[] = {0, 1};
    static const int32_t neighbours[] = {0};
    static const float weights[] = {3};
    float x = 2, out = 0, elsewhere = 2;
    zr_queue *queue = check_queue("ref", NULL, 1);
    zr_bounds bounds = {
        .unit = "h.3", .count = 2, .reserved = {{"in", &x, sizeof x}, {"out", &out, sizeof out}}};
    zr_wrapper *wrapper;
    assert_int_equal(zr_queue_bound(queue, &bounds, &wrapper, NULL), ZERO_OK);
    zr_run(queue, zr_op_neighbour_sum(&of, starts, neighbours, weights, &x, &out));
    assert_int_equal(zr_queue_check(queue, NULL), ZERO_OK);
    assert_true(out == 6);
    zr_run(queue, zr_op_neighbour_sum(&of, starts, neighbours, weights, &elsewhere, &out));
    assert_int_equal(zr_queue_check(queue, NULL), ZERO_ERR_INTERNAL);
    zr_queue_unwrap(queue, wrapper);
    check_queue_close(queue);
}

static zero_status wrap_as(int way, zr_queue *queue, zr_wrapper **out, zero_error *error)
{
    return way == 0   ? zr_queue_record(queue, NULL, out, error)
           : way == 1 ? zr_queue_count(queue, out, error)
                      : zr_queue_wrap(queue, watch, NULL, out, error);
}

static void no_memory_changes_nothing(void **state)
{
    zr_queue *queue = check_queue("ref", NULL, 1);
    const zr_backend *before = queue->backend;
    for (int way = 0; way < 3; way++) {
        zr_wrapper *wrapper = (zr_wrapper *)queue;
        zr_alloc_fail_at(1);
        assert_int_equal(wrap_as(way, queue, &wrapper, NULL), ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
        assert_null(wrapper);
        zr_queue_unwrap(queue, wrapper);
        assert_ptr_equal(queue->backend, before);
    }
    check_queue_close(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_on_cpu),
        cmocka_unit_test(every_case_on_ref),
        cmocka_unit_test(products_that_nobody_computes_are_refused),
        cmocka_unit_test(what_is_wrapped_later_is_given_first),
        cmocka_unit_test(a_wrapper_decides_what_is_run),
        cmocka_unit_test(a_wrapped_queue_may_have_other_scratch),
        cmocka_unit_test(operands_lie_in_what_is_reserved),
        cmocka_unit_test(scratch_lies_in_what_is_reserved),
        cmocka_unit_test(what_is_lent_lies_anywhere),
        cmocka_unit_test(no_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
