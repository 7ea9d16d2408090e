// One unit's calls, on memory of its own.
#include "predict/rate_tasks.h"

#include "base/alloc.h"
#include "predict/meter.h"
#include "memory/arena.h"
#include "predict/operations.h"
#include "predict/harness.h"

typedef struct state {
    const zr_unit_task *task;
    const zr_member *member;
    zr_harness *harness;
} state;

int64_t zr_unit_task_bytes(const zr_unit_task *task)
{
    int64_t bytes = zr_harness_bytes(task->plan, task->unit, &task->shape);
    return bytes ? ZR_ROUND_UP(bytes, ZR_ALIGN) + task->elsewhere : 0;
}

static zero_status open_unit(const void *task, const zr_member *member, void **out,
                             zero_error *error)
{
    const zr_unit_task *of = task;
    const zr_harness_question question = {.plan = of->plan,
                                          .unit = of->unit,
                                          .shape = of->shape,
                                          .memory = member->counts ? ZR_HARNESS_ADDRESSES
                                                                   : ZR_HARNESS_FILLED,
                                          .base = member->memory,
                                          .queue = member->queue};
    state *s = zr_alloc(sizeof *s, error);
    if (!s)
        return ZERO_ERR_MEMORY;
    s->task = of;
    s->member = member;
    zero_status status = zr_harness_open(&question, &s->harness, error);
    if (status != ZERO_OK) {
        zr_free(s);
        return status;
    }
    *out = s;
    return ZERO_OK;
}

// Touches what lies behind the harness's memory, as other units touch theirs between two calls of
// one.
static void touch_elsewhere(const state *s)
{
    const zr_unit_task *task = s->task;
    int64_t third = task->elsewhere / 3 / (int64_t)sizeof(float);
    if (s->member->counts || third == 0)
        return;
    float *a = (float *)(void *)(s->member->memory + zr_unit_task_bytes(task) - task->elsewhere);
    zr_memory_triad(a, a + third, a + 2 * third, third, s->member->queue->threads);
}

// Makes a call, and records the time that its operations leave unexplained: that of the unit
// itself, between them.
static zero_status call_once(const state *s, zr_call call, zero_error *error)
{
    zr_recorder *recorder = s->member->recorder;
    touch_elsewhere(s);
    zr_harness_refill(s->harness);
    int64_t first = recorder->count, begin = zr_recorder_begin(recorder);
    ZERO_TRY(zr_harness_call(s->harness, call, s->task->training >> call & 1, error));
    int64_t count = recorder->count - first;
    for (int64_t i = first; i < recorder->count; i++)
        begin += recorder->records[i].end - recorder->records[i].begin;
    zr_recorder_add(recorder, zr_call_phase(call), begin, count, 0, -1);
    return ZERO_OK;
}

// Forward saves what backward reads. It does not run again, because that is the same once more.
static zero_status call_in_each_way(void *opened, zero_error *error)
{
    static const zr_call order[] = {ZR_CALL_FORWARD, ZR_CALL_BACKWARD, ZR_CALL_BOTH, ZR_CALL_INPUT,
                                    ZR_CALL_WEIGHT};
    const state *s = opened;
    uint32_t made = s->task->training | s->task->evaluation;
    for (int i = 0; i < ZR_COUNT(order); i++)
        if (made >> order[i] & 1)
            ZERO_TRY(call_once(s, order[i], error));
    return ZERO_OK;
}

static void close_unit(void *opened)
{
    state *s = opened;
    zr_harness_close(s->harness);
    zr_free(s);
}

const zr_common_work zr_unit_work = {
    .open = open_unit, .round = call_in_each_way, .close = close_unit};
