// Threads for I/O and communication only (kernels use OpenMP): a FIFO of jobs, served by a fixed
// number of threads.
#ifndef ZR_BASE_THREAD_H
#define ZR_BASE_THREAD_H

#include "base/errors.h"

#include <signal.h>

// Blocks the calling thread's signals but those of its own faults, for a thread that it starts: so
// signals go to the threads that the program made. before: for pthread_sigmask, afterwards.
void zr_thread_block_signals(sigset_t *before);

typedef struct zr_workers zr_workers;
typedef void (*zr_job)(void *argument);

zero_status zr_workers_create(int threads, int capacity, zr_workers **out, zero_error *error);
// Queues a job; waits while the queue is full.
zero_status zr_workers_submit(zr_workers *workers, zr_job job, void *argument, zero_error *error);
// Returns when all submitted jobs have ended.
void zr_workers_drain(zr_workers *workers);
// The same, but waits for at most `seconds`. Returns whether all jobs have ended.
bool zr_workers_drain_for(zr_workers *workers, double seconds);
void zr_workers_destroy(zr_workers *workers); // drains first

#endif
