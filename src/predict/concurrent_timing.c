#include "predict/concurrent_timing.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/numbers.h"
#include "comm/agreement.h"
#include "comm/communicator.h"
#include "compute/compute.h"
#include "memory/arena.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// More than a dozen rounds tell no more.
enum { MOST_ROUNDS = 12, RECORDS = 1 << 15 };
#define TIMEOUT 120.0

typedef struct crew {
    const zr_members *members;
    const zr_common_task *tasks;
    int count;
} crew;

typedef struct sample { // one operation
    zr_activity what;
    int64_t bytes, flops;
    double seconds;
} sample;

typedef struct worker { // a member's thread
    const crew *crew;
    zr_member member;
    zr_recorder *recorder;
    sample *samples; // (sample_count) of all tasks
    int sample_count, sample_room;
    zr_ledger ledger;
    zr_arena arena;
    pthread_t thread;
    bool started;
    zero_status status;
    zero_error error;
} worker;

// Waits are for members that take longer, and tell nothing of an operation.
static bool is_operation(zr_activity what)
{
    return zr_activity_track(what) != ZR_TRACK_DISK && what != ZR_ACTIVITY_wait;
}

// Adds what has been recorded to the worker's samples.
static zero_status take_samples(worker *w, zero_error *error)
{
    for (int64_t i = 0; i < w->recorder->count; i++) {
        const zr_record *r = &w->recorder->records[i];
        int64_t nanoseconds = ZR_MAX(zr_recorder_own_time(w->recorder, 0, i), 1);
        if (!is_operation(r->what))
            continue;
        sample *samples =
            zr_list_grow(w->samples, w->sample_count, &w->sample_room, sizeof *samples, error);
        if (!samples)
            return ZERO_ERR_MEMORY;
        w->samples = samples;
        samples[w->sample_count++] =
            (sample){r->what, r->bytes, r->flops, (double)nanoseconds * 1e-9};
    }
    return ZERO_OK;
}

static zero_status run_common_round(worker *w, const zr_common_task *task, void *state,
                                    zero_error *error)
{
    zero_comm *comm = w->member.comm;
    ZERO_TRY(zr_comm_barrier(comm, error));
    return zr_comm_agree(comm, task->work->round(state, error), error);
}

// The first round creates what is cached, so it counts only where there is no time for another one:
// then it is so long that this matters little. Returns how many more there are.
static zero_status first_round(worker *w, const zr_common_task *task, void *state, int *more,
                               zero_error *error)
{
    double begin = zr_clock_seconds();
    ZERO_TRY(run_common_round(w, task, state, error));
    int64_t nanoseconds = (int64_t)((zr_clock_seconds() - begin) * 1e9);
    ZERO_TRY(zr_comm_agree_on_largest(w->member.comm, &nanoseconds, error));
    double fit = task->seconds / ((double)ZR_MAX(nanoseconds, 1) * 1e-9) - 1;
    *more = fit < 1 ? 0 : fit > MOST_ROUNDS ? MOST_ROUNDS : (int)fit;
    if (*more > 0)
        zr_recorder_clear(w->recorder);
    return ZERO_OK;
}

static zero_status run_common_rounds(worker *w, const zr_common_task *task, void *state,
                                     zero_error *error)
{
    int more;
    ZERO_TRY(first_round(w, task, state, &more, error));
    for (int r = 0; r < more; r++)
        ZERO_TRY(run_common_round(w, task, state, error));
    return ZERO_OK;
}

static zero_status run_opened(worker *w, const zr_common_task *task, void *state, zero_error *error)
{
    zr_wrapper *recording = NULL;
    zr_member *m = &w->member;
    zero_status status = zr_queue_record(m->queue, w->recorder, &recording, error);
    status = zr_comm_agree(m->comm, status, error);
    zr_recorder_clear(w->recorder);
    if (task->messages)
        zr_comm_record(m->comm, w->recorder);
    if (status == ZERO_OK)
        status = run_common_rounds(w, task, state, error);
    zr_comm_record(m->comm, NULL);
    zr_queue_unwrap(m->queue, recording);
    return status == ZERO_OK ? zr_comm_agree(m->comm, take_samples(w, error), error) : status;
}

static zero_status run_task(worker *w, const zr_common_task *task, zero_error *error)
{
    void *state = NULL;
    zero_status opened = task->work->open(task->task, &w->member, &state, error);
    zero_status status = zr_comm_agree(w->member.comm, opened, error);
    if (status == ZERO_OK)
        status = run_opened(w, task, state, error);
    if (opened == ZERO_OK)
        task->work->close(state);
    return status;
}

static zero_status prepare_timing_worker(worker *w, zero_error *error)
{
    const zr_members *members = w->crew->members;
    ZERO_TRY(zr_comm_attach(w->member.comm, members->threads, error));
    ZERO_TRY(zr_recorder_create(RECORDS, &w->recorder, error));
    w->member.recorder = w->recorder;
    ZERO_TRY(zr_arena_on_host(&w->ledger, ZERO_TIER_device, ZERO_MEM_workspace, members->bytes,
                              &w->arena, error));
    w->member.memory = w->arena.base;
    return zr_queue_open(members->backend, NULL, members->threads, &w->member.queue, error);
}

static void *run_timing_worker(void *argument)
{
    worker *w = argument;
    w->status = zr_comm_agree(w->member.comm, prepare_timing_worker(w, &w->error), &w->error);
    for (int t = 0; t < w->crew->count && w->status == ZERO_OK; t++)
        w->status = run_task(w, &w->crew->tasks[t], &w->error);
    zr_queue_close(w->member.queue);
    zr_comm_detach(w->member.comm);
    zr_arena_destroy(&w->arena);
    return NULL;
}

static int by_number(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int by_operation(const sample *a, const sample *b)
{
    int what = by_number(a->what, b->what), bytes = by_number(a->bytes, b->bytes);
    return what ? what : bytes ? bytes : by_number(a->flops, b->flops);
}

static int compare_samples(const void *a, const void *b) { return by_operation(a, b); }

// Adds the usual time of each operation; times: room for as many.
static void add_usual_times(sample *samples, int count, double *times, zr_rates *rates)
{
    qsort(samples, (size_t)count, sizeof *samples, compare_samples);
    for (int first = 0, end; first < count; first = end) {
        const sample *s = &samples[first];
        for (end = first; end < count && by_operation(s, &samples[end]) == 0; end++)
            times[end - first] = samples[end].seconds;
        zr_rates_add(rates, s->what, s->bytes, s->flops, zr_usual_mean(times, end - first),
                     end - first);
    }
}

static zero_status keep_samples(const worker *workers, int count, zr_rates *rates,
                                zero_error *error)
{
    int all = 0, taken = 0;
    for (int i = 0; i < count; i++)
        all += workers[i].sample_count;
    sample *samples = zr_alloc(sizeof *samples * (size_t)ZR_MAX(all, 1), error);
    double *times = zr_alloc(sizeof *times * (size_t)ZR_MAX(all, 1), error);
    zero_status status = samples && times ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int i = 0; i < count && status == ZERO_OK; taken += workers[i++].sample_count)
        if (workers[i].sample_count > 0)
            memcpy(samples + taken, workers[i].samples,
                   sizeof *samples * (size_t)workers[i].sample_count);
    if (status == ZERO_OK)
        add_usual_times(samples, all, times, rates);
    zr_free(times);
    zr_free(samples);
    return status;
}

// Starts the members and waits for them. Where a thread cannot be made, those that there are are
// told to end.
static zero_status run_workers(worker *workers, int count, zero_error *error)
{
    int failed = 0;
    for (int i = 0; i < count && !failed; i++) {
        failed = pthread_create(&workers[i].thread, NULL, run_timing_worker, &workers[i]);
        workers[i].started = !failed;
        if (failed)
            zero_comm_abort(workers[i].member.comm, "a thread could not be made");
    }
    for (int i = 0; i < count; i++)
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    if (failed)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, failed,
                             "measuring: cannot make a thread for each of %d ranks", count);
    if (workers[0].status != ZERO_OK && error)
        *error = workers[0].error;
    return workers[0].status; // all members have agreed on it
}

static zero_status make_workers(const crew *crew, worker **out, zero_error *error)
{
    int count = crew->members->count;
    zero_comm *comms[ZERO_MAX_RANKS];
    const zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = TIMEOUT};
    worker *workers = zr_alloc(sizeof *workers * (size_t)count, error);
    if (!workers)
        return ZERO_ERR_MEMORY;
    zero_status status = zero_comm_threads(count, &options, comms, error);
    if (status != ZERO_OK) {
        zr_free(workers);
        return status;
    }
    for (int i = 0; i < count; i++)
        workers[i] = (worker){.crew = crew, .member = {.number = i, .comm = comms[i]}};
    *out = workers;
    return ZERO_OK;
}

zero_status zr_concurrent_run(const zr_members *members, const zr_common_task *tasks, int count,
                              zr_rates *rates, zero_error *error)
{
    const crew crew = {members, tasks, count};
    worker *workers;
    ZERO_TRY(make_workers(&crew, &workers, error));
    zero_status status = run_workers(workers, members->count, error);
    if (status == ZERO_OK)
        status = keep_samples(workers, members->count, rates, error);
    for (int i = 0; i < members->count; i++) {
        zr_free(workers[i].samples);
        zr_recorder_destroy(workers[i].recorder);
        zero_comm_destroy(workers[i].member.comm);
    }
    zr_free(workers);
    return status;
}

static zero_status count_operations_of_round(const zr_common_task *task, const zr_member *member,
                                             zero_error *error)
{
    zr_wrapper *counting = NULL;
    zr_wrapper *recording = NULL;
    void *state = NULL;
    zr_queue *queue = member->queue;
    zero_status status = zr_queue_count(queue, &counting, error);
    if (status == ZERO_OK)
        status = zr_queue_record(queue, member->recorder, &recording, error);
    if (status == ZERO_OK)
        status = task->work->open(task->task, member, &state, error);
    if (status == ZERO_OK) {
        status = task->work->round(state, error);
        task->work->close(state);
    }
    zr_queue_unwrap(queue, recording);
    zr_queue_unwrap(queue, counting);
    return status;
}

zero_status zr_concurrent_count(const zr_members *members, const zr_common_task *task,
                                zr_recorder *recorder, zero_error *error)
{
    zr_member member = {.recorder = recorder, .counts = true};
    ZERO_TRY(zr_queue_open(members->backend, NULL, members->threads, &member.queue, error));
    zero_status status = count_operations_of_round(task, &member, error);
    zr_queue_close(member.queue);
    return status;
}
