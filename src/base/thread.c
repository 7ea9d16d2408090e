// A queue of jobs in a ring, served by a fixed number of threads. I/O and communication use it.
//
// Invariant, under the lock: `queued` jobs wait in ring[first ...], and `running` jobs are being
// done; `idle` is signalled when both are 0, `room` when the ring is no longer full, `work` when
// there is a job or the end has come.
#define _GNU_SOURCE
#include "base/thread.h"
#include "base/alloc.h"

#include <errno.h>
#include <pthread.h>

typedef struct job_entry {
    zr_job job;
    void *argument;
} job_entry;

struct zr_workers {
    pthread_mutex_t lock;
    pthread_cond_t work, room, idle;
    job_entry *ring; // (capacity)
    int capacity, first, queued, running;
    bool ending;
    pthread_t *threads; // (thread_count)
    int thread_count;
};

static void *run_jobs(void *argument)
{
    zr_workers *workers = argument;
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        while (!workers->queued && !workers->ending)
            pthread_cond_wait(&workers->work, &workers->lock);
        if (!workers->queued)
            break;
        job_entry entry = workers->ring[workers->first];
        workers->first = (workers->first + 1) % workers->capacity;
        workers->queued--;
        workers->running++;
        pthread_cond_signal(&workers->room);
        pthread_mutex_unlock(&workers->lock);
        entry.job(entry.argument);
        pthread_mutex_lock(&workers->lock);
        if (--workers->running == 0 && !workers->queued)
            pthread_cond_broadcast(&workers->idle);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

void zr_thread_block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t others;
    sigfillset(&others);
    for (int i = 0; i < ZR_COUNT(faults); i++)
        sigdelset(&others, faults[i]);
    pthread_sigmask(SIG_SETMASK, &others, before);
}

static int start_worker(zr_workers *workers)
{
    sigset_t before;
    zr_thread_block_signals(&before);
    int reason = pthread_create(&workers->threads[workers->thread_count], NULL, run_jobs, workers);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!reason)
        workers->thread_count++;
    return reason;
}

static zr_workers *allocate_workers(int threads, int capacity, zero_error *error)
{
    zr_workers *workers = zr_alloc(sizeof *workers, error);
    if (!workers)
        return NULL;
    workers->ring = zr_alloc((size_t)capacity * sizeof *workers->ring, error);
    workers->threads =
        workers->ring ? zr_alloc((size_t)threads * sizeof *workers->threads, error) : NULL;
    if (!workers->threads) {
        zr_free(workers->ring);
        zr_free(workers);
        return NULL;
    }
    workers->capacity = capacity;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->work, NULL);
    pthread_cond_init(&workers->room, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&workers->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return workers;
}

zero_status zr_workers_create(int threads, int capacity, zr_workers **out, zero_error *error)
{
    *out = NULL;
    if (threads < 1 || capacity < 1)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "a queue of %d threads and %d jobs was requested; both must be at least 1",
                       threads, capacity);
    zr_workers *workers = allocate_workers(threads, capacity, error);
    if (!workers)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < threads; i++) {
        int reason = start_worker(workers);
        if (reason) {
            zr_workers_destroy(workers);
            return zr_fail_errno(error, ZERO_ERR_MEMORY, reason, "cannot start thread %d of %d",
                                 i + 1, threads);
        }
    }
    *out = workers;
    return ZERO_OK;
}

zero_status zr_workers_submit(zr_workers *workers, zr_job job, void *argument, zero_error *error)
{
    if (!job)
        return zr_fail(error, ZERO_ERR_INTERNAL, "a job without a function was submitted");
    pthread_mutex_lock(&workers->lock);
    while (workers->queued == workers->capacity)
        pthread_cond_wait(&workers->room, &workers->lock);
    int last = (workers->first + workers->queued++) % workers->capacity;
    workers->ring[last] = (job_entry){.job = job, .argument = argument};
    pthread_cond_signal(&workers->work);
    pthread_mutex_unlock(&workers->lock);
    return ZERO_OK;
}

void zr_workers_drain(zr_workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    while (workers->queued || workers->running)
        pthread_cond_wait(&workers->idle, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

bool zr_workers_drain_for(zr_workers *workers, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanoseconds = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += (time_t)(nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    pthread_mutex_lock(&workers->lock);
    int reason = 0;
    while ((workers->queued || workers->running) && reason != ETIMEDOUT)
        reason = pthread_cond_timedwait(&workers->idle, &workers->lock, &until);
    bool done = !workers->queued && !workers->running;
    pthread_mutex_unlock(&workers->lock);
    return done;
}

void zr_workers_destroy(zr_workers *workers)
{
    if (!workers)
        return;
    zr_workers_drain(workers);
    pthread_mutex_lock(&workers->lock);
    workers->ending = true;
    pthread_cond_broadcast(&workers->work);
    pthread_mutex_unlock(&workers->lock);
    for (int i = 0; i < workers->thread_count; i++)
        pthread_join(workers->threads[i], NULL);
    pthread_mutex_destroy(&workers->lock);
    pthread_cond_destroy(&workers->work);
    pthread_cond_destroy(&workers->room);
    pthread_cond_destroy(&workers->idle);
    zr_free(workers->threads);
    zr_free(workers->ring);
    zr_free(workers);
}
