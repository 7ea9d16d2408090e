#include "predict/operations.h"

#include "base/alloc.h"
#include "compute/compute.h"

enum { LEAST_RECORDS = 1 << 8 }; // of a call; there is room for more where they do not suffice

zr_activity zr_call_phase(zr_call call)
{
    switch (call) {
    case ZR_CALL_FORWARD: return ZR_ACTIVITY_forward;
    case ZR_CALL_WEIGHT: return ZR_ACTIVITY_weight;
    default: return ZR_ACTIVITY_backward;
    }
}

typedef struct made { // bit c: a pass makes zr_call c
    uint32_t training, evaluation;
} made;

typedef struct finding {
    const zr_plan *plan;
    zr_queue *queue;
    zr_wrapper *counting;
    zr_recorder *recorder;
    zr_plan_operations *out;
    int count, capacity;                      // of out->all
    const zr_harness_decode_question *decode; // NULL: calls of the plan's program
} finding;

static bool is_evaluation(const zr_plan *plan, int pass)
{
    bool is = pass == ZR_PASS_EVALUATION || plan->settings.inference;
    for (int c = 0; c < plan->chunk_count; c++)
        is = is || pass == (int)zr_chunk_pass(ZR_CHUNK_EVALUATION, c);
    return is;
}

// Notes which calls of each unit the plan's program makes; made: (unit_count).
static void note_calls(const zr_plan *plan, made *made)
{
    for (int p = 0; p < ZR_PASSES; p++) {
        const zr_pass *pass = &plan->program.passes[p];
        for (int i = 0; i < pass->count; i++) {
            const zr_instruction *at = &pass->at[i];
            if (at->code != ZR_CALL)
                continue;
            if (is_evaluation(plan, p))
                made[at->unit].evaluation |= 1u << at->what;
            else
                made[at->unit].training |= 1u << at->what;
        }
    }
}

static zero_status begin_records(finding *f, int64_t capacity, zero_error *error)
{
    zr_recorder_destroy(f->recorder);
    return zr_recorder_create(capacity, &f->recorder, error);
}

static zero_shape shape_of_call(const finding *f)
{
    zero_shape shape = f->plan->shape;
    if (f->decode) {
        shape.batch = 1;
        shape.seq = f->decode->step.rows;
    }
    return shape;
}

static zero_status open_harness(const finding *f, int unit, zr_harness **out, zero_error *error)
{
    const zr_harness_question question = {.plan = f->plan,
                                          .unit = unit,
                                          .shape = shape_of_call(f),
                                          .memory = ZR_HARNESS_ADDRESSES,
                                          .queue = f->queue,
                                          .recorder = f->recorder,
                                          .decode = f->decode};
    return zr_harness_open(&question, out, error);
}

// Makes a call, and leaves what it asks for in the recorder.
static zero_status record_call(finding *f, int unit, zr_call call, bool training, zero_error *error)
{
    zr_wrapper *recording = NULL;
    zr_harness *harness = NULL;
    zr_recorder_clear(f->recorder);
    ZERO_TRY(open_harness(f, unit, &harness, error));
    zero_status status = zr_queue_record(f->queue, f->recorder, &recording, error);
    if (status == ZERO_OK)
        status = f->decode ? zr_harness_decode(harness, error)
                           : zr_harness_call(harness, call, training, error);
    zr_queue_unwrap(f->queue, recording);
    zr_harness_close(harness);
    return status;
}

static zero_status append_operation(finding *f, const zr_operation *operation, zero_error *error)
{
    zr_operation *all = zr_list_grow(f->out->all, f->count, &f->capacity, sizeof *all, error);
    if (!all)
        return ZERO_ERR_MEMORY;
    f->out->all = all;
    all[f->count++] = *operation;
    return ZERO_OK;
}

// Adds a record to the list that begins at `first`.
static zero_status add_record(finding *f, int first, const zr_record *record, zero_error *error)
{
    for (int i = first; i < f->count; i++) {
        zr_operation *known = &f->out->all[i];
        if (known->what != record->what || known->bytes != record->bytes ||
            known->flops != record->flops)
            continue;
        known->calls++;
        return ZERO_OK;
    }
    return append_operation(f, &(zr_operation){record->what, record->bytes, record->flops, 1},
                            error);
}

static zero_status find_call(finding *f, int unit, zr_call call, bool training, zero_error *error)
{
    int first = f->count;
    ZERO_TRY(record_call(f, unit, call, training, error));
    while (f->recorder->dropped > 0) {
        ZERO_TRY(begin_records(f, f->recorder->capacity + f->recorder->dropped, error));
        ZERO_TRY(record_call(f, unit, call, training, error));
    }
    for (int64_t i = 0; i < f->recorder->count; i++)
        ZERO_TRY(add_record(f, first, &f->recorder->records[i], error));
    f->out->units[unit].calls[call].count = f->count - first;
    return ZERO_OK;
}

static zero_status find_unit(finding *f, int unit, const made *made, zero_error *error)
{
    for (int c = 0; c < ZR_OPERATION_CALLS; c++)
        if ((made->training | made->evaluation) >> c & 1)
            ZERO_TRY(find_call(f, unit, (zr_call)c, made->training >> c & 1, error));
    return ZERO_OK;
}

static zero_status find_decode(finding *f, zero_error *error)
{
    for (int u = 0; u < f->plan->unit_count; u++)
        ZERO_TRY(find_call(f, u, ZR_CALL_FORWARD, false, error));
    return ZERO_OK;
}

static zero_status find_units(finding *f, zero_error *error)
{
    int units = f->plan->unit_count;
    zero_status status = ZERO_OK;
    made *made = zr_alloc(sizeof *made * (size_t)units, error);
    if (!made)
        return ZERO_ERR_MEMORY;
    note_calls(f->plan, made);
    for (int u = 0; u < units && status == ZERO_OK; u++)
        status = find_unit(f, u, &made[u], error);
    zr_free(made);
    return status;
}

// The lists follow one another in the order in which they were found.
static void point_lists(zr_plan_operations *operations)
{
    const zr_operation *at = operations->all;
    for (int u = 0; u < operations->unit_count; u++)
        for (int c = 0; c < ZR_OPERATION_CALLS; c++) {
            zr_operation_list *list = &operations->units[u].calls[c];
            list->at = at;
            at += list->count;
        }
}

static zero_status list_unit_operations(finding *f, zero_error *error)
{
    f->out->units = zr_alloc(sizeof *f->out->units * (size_t)f->plan->unit_count, error);
    if (!f->out->units)
        return ZERO_ERR_MEMORY;
    f->out->unit_count = f->plan->unit_count;
    ZERO_TRY(begin_records(f, LEAST_RECORDS, error));
    ZERO_TRY(zr_queue_count(f->queue, &f->counting, error));
    ZERO_TRY(f->decode ? find_decode(f, error) : find_units(f, error));
    point_lists(f->out);
    return ZERO_OK;
}

static zero_status find_with_backend(finding *f, const char *backend, zero_error *error)
{
    int threads = ZR_MAX(f->plan->shape.threads, 1);
    *f->out = (zr_plan_operations){0};
    ZERO_TRY(zr_queue_open(backend, NULL, threads, &f->queue, error));
    zero_status status = list_unit_operations(f, error);
    zr_queue_unwrap(f->queue, f->counting);
    zr_recorder_destroy(f->recorder);
    zr_queue_close(f->queue);
    return status;
}

zero_status zr_plan_operations_find(const zr_plan *plan, const char *backend,
                                    zr_plan_operations *out, zero_error *error)
{
    return find_with_backend(&(finding){.plan = plan, .out = out}, backend, error);
}

zero_status zr_plan_operations_decode(const zr_plan *plan, const char *backend,
                                      const zr_harness_decode_question *decode,
                                      zr_plan_operations *out, zero_error *error)
{
    return find_with_backend(&(finding){.plan = plan, .out = out, .decode = decode}, backend,
                             error);
}

void zr_plan_operations_free(zr_plan_operations *operations)
{
    zr_free(operations->units);
    zr_free(operations->all);
    *operations = (zr_plan_operations){0};
}
