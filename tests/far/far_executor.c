// Runs what far queues were given, in the order that the options say, in whichever thread submits
// or finishes. Each row has a clock: how far every queue has to be before it runs.
#define _GNU_SOURCE
#include "far_state.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static far_progress progress[FAR_MOST_QUEUES];

far_progress *far_progress_of(int queue) { return &progress[queue]; }

void far_joined(uint64_t *clock, const uint64_t *with)
{
    for (int i = 0; i < FAR_MOST_QUEUES; i++)
        clock[i] = ZR_MAX(clock[i], with[i]);
}

// Returns a row that no finish has covered, or NULL.
static far_work *work_of(const far_queue *queue, uint64_t number)
{
    uint64_t first = progress[queue->index].finished + 1;
    bool there = number >= first && number < first + (uint64_t)queue->count;
    return there ? queue->works[number - first] : NULL;
}

void far_join_mark(uint64_t *clock, const far_queue *queue, uint64_t number)
{
    const far_work *work = work_of(queue, number);
    clock[queue->index] = ZR_MAX(clock[queue->index], number);
    if (work)
        far_joined(clock, work->clock);
}

// ---- running ----

static far_work *next_of(const far_queue *queue)
{
    return work_of(queue, progress[queue->index].executed + 1);
}

// Returns the queue that the work waits for, or -1.
static int waits_for(const far_work *work, int own)
{
    for (int i = 0; i < FAR_MOST_QUEUES; i++)
        if (i != own && work->clock[i] > progress[i].executed)
            return i;
    return -1;
}

static void run_inside(far_queue *queue, far_work *work, zr_queue_failure *failure)
{
    far_work_translate(work, failure);
    if (failure->status != ZERO_OK)
        return;
    zr_queue inner = zr_queue_with_scratch(queue->inner, work->scratch, work->scratch_bytes);
    zr_run(&inner, work->op);
    failure->status = zr_queue_check(&inner, &failure->error);
}

static void run_operation(far_queue *queue, far_work *work)
{
    zr_queue_failure failure = {0};
    if (work->failure)
        failure = *work->failure;
    else if (++far_counts()->executed == far_options_now()->fail_row)
        failure.status = zr_fail(&failure.error, ZERO_ERR_INTERNAL,
                                 "operation %s, the one that runs as number %lld, fails, as the "
                                 "test asked",
                                 zr_op_kind_name(work->op.kind), (long long)far_counts()->executed);
    else
        run_inside(queue, work, &failure);
    if (queue->failed.status == ZERO_OK)
        queue->failed = failure;
}

static void run_next(far_queue *queue)
{
    far_work *work = next_of(queue);
    if (!work->waits)
        run_operation(queue, work);
    progress[queue->index].executed = work->number;
}

// Returns a queue whose next row can run and is needed before this queue's next one; NULL if that
// waits for a row that was never submitted.
static far_queue *runnable(far_queue *queue)
{
    for (int steps = 0; queue && steps <= FAR_MOST_QUEUES; steps++) {
        const far_work *work = next_of(queue);
        int other = work ? waits_for(work, queue->index) : -1;
        if (!work || other < 0)
            return work ? queue : NULL;
        queue = progress[other].queue;
    }
    return NULL;
}

static bool run_until(far_queue *queue, uint64_t number)
{
    while (progress[queue->index].executed < number) {
        far_queue *next = runnable(queue);
        if (!next)
            return false;
        run_next(next);
    }
    return true;
}

// ---- in random order ----

static far_queue *draw_queue(void)
{
    far_queue *ready[FAR_MOST_QUEUES];
    uint64_t count = 0;
    for (int i = 0; i < FAR_MOST_QUEUES; i++) {
        const far_work *work = progress[i].queue ? next_of(progress[i].queue) : NULL;
        if (work && waits_for(work, i) < 0)
            ready[count++] = progress[i].queue;
    }
    return count ? ready[far_draw(count)] : NULL;
}

void far_run_some(void)
{
    enum { MOST = 4 };
    if (far_options_now()->order != FAR_RANDOM)
        return;
    for (uint64_t rows = far_draw(MOST); rows > 0; rows--) {
        far_queue *queue = draw_queue();
        if (queue)
            run_next(queue);
    }
}

// ---- submitting and finishing ----

static void keep(far_queue *queue, far_work *work)
{
    if (queue->count == queue->capacity) {
        int capacity = ZR_MAX(64, 2 * queue->capacity);
        far_work **works = far_alloc((size_t)capacity * sizeof(far_work *));
        if (queue->count)
            memcpy(works, queue->works, (size_t)queue->count * sizeof(far_work *));
        free(queue->works);
        queue->works = works;
        queue->capacity = capacity;
    }
    queue->works[queue->count++] = work;
}

static void record_operation(const far_queue *queue, const far_work *work)
{
    far_record(&(far_row){.kind = FAR_OPERATION,
                          .host = work->host,
                          .queue = queue->index,
                          .number = work->number,
                          .op = work->op.kind},
               work->pieces, work->piece_count);
}

void far_work_give(far_queue *queue, far_work *work)
{
    work->number = ++progress[queue->index].given;
    memcpy(work->clock, queue->clock, sizeof work->clock);
    keep(queue, work);
    for (int i = 0; i < work->piece_count; i++)
        far_memory_watch(&work->pieces[i]);
    if (!work->waits)
        record_operation(queue, work);
    if (far_options_now()->order == FAR_EAGER)
        run_until(queue, work->number);
    far_run_some();
}

// Names the first row that has not run on the way to the queue's next one.
static zero_status time_out(far_queue *queue, double seconds, zero_error *error)
{
    const far_work *work = next_of(queue);
    if (!work)
        return zr_fail(error, ZERO_ERR_TIMEOUT,
                       "queue %d has not ended within %g s: the mark is of a row that was never "
                       "submitted, the last is number %llu",
                       queue->index, seconds, (unsigned long long)progress[queue->index].given);
    int other = waits_for(work, queue->index);
    return zr_fail(error, ZERO_ERR_TIMEOUT,
                   "operation %s, number %llu of queue %d, has not ended within %g s: it waits for "
                   "number %llu of queue %d, which was given %llu",
                   work->waits ? "after" : zr_op_kind_name(work->op.kind),
                   (unsigned long long)work->number, queue->index, seconds,
                   (unsigned long long)work->clock[other], other,
                   (unsigned long long)progress[other].given);
}

zero_status far_reach(far_queue *queue, uint64_t number, double seconds, zero_error *error)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + seconds;
    while (!run_until(queue, number)) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)now.tv_sec + (double)now.tv_nsec * 1e-9 >= end)
            return time_out(queue, seconds, error);
        far_unlock(); // another thread may submit it
        usleep(1000);
        far_lock();
    }
    return ZERO_OK;
}

static void drop(far_queue *queue, uint64_t number)
{
    far_progress *own = &progress[queue->index];
    int covered = number > own->finished ? (int)(number - own->finished) : 0;
    covered = ZR_MIN(covered, queue->count);
    for (int i = 0; i < covered; i++) {
        for (int k = 0; k < queue->works[i]->piece_count; k++)
            far_memory_unwatch(&queue->works[i]->pieces[k]);
        far_work_destroy(queue->works[i]);
    }
    queue->count -= covered;
    own->finished += (uint64_t)covered;
    if (queue->count && covered)
        memmove(queue->works, queue->works + covered, (size_t)queue->count * sizeof(far_work *));
}

void far_cover(far_queue *queue, uint64_t number)
{
    uint64_t clock[FAR_MOST_QUEUES] = {0};
    far_join_mark(clock, queue, number);
    for (int i = 0; i < FAR_MOST_QUEUES; i++)
        if (progress[i].queue)
            drop(progress[i].queue, clock[i]);
}

bool far_is_under_way(const void *at, bool *writes)
{
    bool found = false;
    for (int i = 0; i < FAR_MOST_QUEUES; i++) {
        const far_queue *queue = progress[i].queue;
        for (int k = 0; queue && k < queue->count; k++)
            for (int p = 0; p < queue->works[k]->piece_count; p++) {
                const far_piece *piece = &queue->works[k]->pieces[p];
                bool here = (const unsigned char *)at >= piece->at &&
                            (const unsigned char *)at < piece->at + piece->bytes;
                found |= here;
                *writes |= here && piece->writes;
            }
    }
    return found;
}
