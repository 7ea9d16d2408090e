// The comm thread: one worker with a queue, whose end of each operation the own thread awaits.
//
// Invariant, under the lock: a handle's `arrived` becomes true once its operation is done.
#include "comm/comm_thread.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "comm/operations.h"

#include <pthread.h>

#define QUEUE 64 // operations at one time; further ones wait to be started

struct zr_comm_thread {
    zr_workers *worker;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    zero_status failed; // the status of the first failure; later operations are not tried
    zero_error error;
};

zero_status zr_comm_thread_create(zr_comm_thread **out, zero_error *error)
{
    zr_comm_thread *comm_thread = zr_alloc(sizeof *comm_thread, error);
    *out = NULL;
    if (!comm_thread)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_workers_create(1, QUEUE, &comm_thread->worker, error);
    if (status != ZERO_OK) {
        zr_free(comm_thread);
        return status;
    }
    pthread_mutex_init(&comm_thread->lock, NULL);
    pthread_cond_init(&comm_thread->arrived, NULL);
    *out = comm_thread;
    return ZERO_OK;
}

void zr_comm_thread_destroy(zr_comm_thread *comm_thread)
{
    if (!comm_thread)
        return;
    zr_workers_destroy(comm_thread->worker);
    pthread_cond_destroy(&comm_thread->arrived);
    pthread_mutex_destroy(&comm_thread->lock);
    zr_free(comm_thread);
}

static void note_thread_at_work(zero_comm *comm, zr_rank_thread thread, bool at_work)
{
    if (comm->ops->note)
        comm->ops->note(comm, thread, at_work);
}

static zero_status finish(const zr_handle *handle, zr_mark mark, zero_error *error)
{
    const zr_window *window = handle->window;
    return zr_comm_finish(window->comm, mark,
                          handle->op == ZERO_COMM_all_gather ? "all_gather" : "reduce_scatter",
                          window->slot_names ? window->slot_names[handle->slot] : NULL, error);
}

static zero_status carry_out(zr_handle *handle, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    if (!zr_comm_seals_late(comm))
        return zr_comm_carry_out(handle, error);
    ZERO_TRY(finish(handle, handle->made, error));
    ZERO_TRY(comm->ops->start(handle, error));
    ZERO_TRY(zr_comm_carry_out(handle, error));
    handle->done = zr_queue_mark(comm->queue);
    return ZERO_OK;
}

// On a far device the operation has only been submitted when the own thread goes on: the peers hear
// that their operands were read once it has ended.
static void end_late_operation(const zr_handle *handle)
{
    zero_comm *comm = handle->window->comm;
    zr_comm_thread *comm_thread = comm->comm_thread;
    if (!zr_comm_seals_late(comm) || comm_thread->failed != ZERO_OK)
        return;
    comm_thread->failed = finish(handle, handle->done, &comm_thread->error);
    if (comm_thread->failed == ZERO_OK)
        comm->ops->drained(handle);
}

static void run_operation(void *argument)
{
    zr_handle *handle = argument;
    zero_comm *comm = handle->window->comm;
    zr_comm_thread *comm_thread = comm->comm_thread;
    note_thread_at_work(comm, ZR_COMM_THREAD_THREAD, true);
    zero_status status = comm_thread->failed; // only this thread writes it
    if (status == ZERO_OK)
        // The own thread may be waiting in another group; the failure reaches it as it does all
        // others.
        status = zr_comm_abort_on_failure(comm, carry_out(handle, &comm_thread->error),
                                          &comm_thread->error);
    // This comes before the own thread learns of the end, because it may then start another
    // operation.
    note_thread_at_work(comm, ZR_COMM_THREAD_THREAD, false);
    // What is needed of it afterwards, when the own thread may reuse it.
    const zr_handle ended = {.window = handle->window,
                             .op = handle->op,
                             .slot = handle->slot,
                             .sequence = handle->sequence,
                             .done = handle->done};
    pthread_mutex_lock(&comm_thread->lock);
    comm_thread->failed = status;
    handle->status = status;
    handle->arrived = true;
    pthread_cond_broadcast(&comm_thread->arrived);
    pthread_mutex_unlock(&comm_thread->lock);
    end_late_operation(&ended);
}

static zero_status submit(zero_comm *comm, zr_job job, void *argument, zero_error *error)
{
    note_thread_at_work(comm, ZR_OWN_THREAD, false); // the queue may be full
    zero_status status = zr_workers_submit(comm->comm_thread->worker, job, argument, error);
    note_thread_at_work(comm, ZR_OWN_THREAD, true);
    return status;
}

zero_status zr_comm_thread_submit(zero_comm *comm, zr_handle *handle, zero_error *error)
{
    return submit(comm, run_operation, handle, error);
}

// Once the peer has heard, the own thread may use the notice again.
static void run_notice(void *argument)
{
    const zr_notice notice = *(const zr_notice *)argument;
    zr_comm_thread *comm_thread = notice.comm->comm_thread;
    if (comm_thread->failed != ZERO_OK)
        return;
    note_thread_at_work(notice.comm, ZR_COMM_THREAD_THREAD, true);
    comm_thread->failed = zr_comm_finish(notice.comm, notice.made, "telling another stage", NULL,
                                         &comm_thread->error);
    if (comm_thread->failed == ZERO_OK)
        notice.tell(&notice);
    note_thread_at_work(notice.comm, ZR_COMM_THREAD_THREAD, false);
}

zero_status zr_comm_thread_tell(zr_notice *notice, zero_error *error)
{
    return submit(notice->comm, run_notice, notice, error);
}

zero_status zr_comm_thread_await(zr_handle *handle, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    zr_comm_thread *comm_thread = comm->comm_thread;
    note_thread_at_work(comm, ZR_OWN_THREAD, false);
    pthread_mutex_lock(&comm_thread->lock);
    while (!handle->arrived)
        pthread_cond_wait(&comm_thread->arrived, &comm_thread->lock);
    zero_status status = handle->status;
    if (status != ZERO_OK)
        *error = comm_thread->error;
    pthread_mutex_unlock(&comm_thread->lock);
    note_thread_at_work(comm, ZR_OWN_THREAD, true);
    return status;
}

void zr_comm_thread_drain(zero_comm *comm)
{
    if (!comm->comm_thread)
        return;
    note_thread_at_work(comm, ZR_OWN_THREAD, false);
    zr_workers_drain(comm->comm_thread->worker);
    note_thread_at_work(comm, ZR_OWN_THREAD, true);
}

zero_status zr_comm_check(zero_comm *comm, zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    zr_comm_thread_drain(comm);
    if (!comm->comm_thread || comm->comm_thread->failed == ZERO_OK)
        return ZERO_OK;
    *error = comm->comm_thread->error;
    return comm->comm_thread->failed;
}
