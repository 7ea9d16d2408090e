#include "comm/courier.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "comm/settle.h"

#include <pthread.h>

#define QUEUE 64 // operations at one time; further ones wait to be started

struct zr_courier {
    zr_workers *worker;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    zero_status failed; // the status of the first failure; later operations are not tried
    zero_error error;
};

zero_status zr_courier_create(zr_courier **out, zero_error *error)
{
    zr_courier *courier = zr_alloc(sizeof *courier, error);
    *out = NULL;
    if (!courier)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_workers_create(1, QUEUE, &courier->worker, error);
    if (status != ZERO_OK) {
        zr_free(courier);
        return status;
    }
    pthread_mutex_init(&courier->lock, NULL);
    pthread_cond_init(&courier->arrived, NULL);
    *out = courier;
    return ZERO_OK;
}

void zr_courier_destroy(zr_courier *courier)
{
    if (!courier)
        return;
    zr_workers_destroy(courier->worker);
    pthread_cond_destroy(&courier->arrived);
    pthread_mutex_destroy(&courier->lock);
    zr_free(courier);
}

static void note(zero_comm *comm, zr_rank_thread thread, bool at_work)
{
    if (comm->ops->note)
        comm->ops->note(comm, thread, at_work);
}

static void carry(void *argument)
{
    zr_handle *handle = argument;
    zero_comm *comm = handle->window->comm;
    zr_courier *courier = comm->courier;
    note(comm, ZR_COURIER_THREAD, true);
    zero_status status = courier->failed; // only this thread writes it
    if (status == ZERO_OK)
        // The own thread may be waiting in another group, and is told together with all others.
        status = zr_comm_settle(comm, zr_comm_carry_out(handle, &courier->error), &courier->error);
    // This comes before the own thread is told, because that one may then start another operation.
    note(comm, ZR_COURIER_THREAD, false);
    pthread_mutex_lock(&courier->lock);
    courier->failed = status;
    handle->status = status;
    handle->arrived = true;
    pthread_cond_broadcast(&courier->arrived);
    pthread_mutex_unlock(&courier->lock);
}

zero_status zr_courier_submit(zero_comm *comm, zr_handle *handle, zero_error *error)
{
    note(comm, ZR_OWN_THREAD, false); // the queue may be full
    zero_status status = zr_workers_submit(comm->courier->worker, carry, handle, error);
    note(comm, ZR_OWN_THREAD, true);
    return status;
}

zero_status zr_courier_await(zr_handle *handle, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    zr_courier *courier = comm->courier;
    note(comm, ZR_OWN_THREAD, false);
    pthread_mutex_lock(&courier->lock);
    while (!handle->arrived)
        pthread_cond_wait(&courier->arrived, &courier->lock);
    zero_status status = handle->status;
    if (status != ZERO_OK)
        *error = courier->error;
    pthread_mutex_unlock(&courier->lock);
    note(comm, ZR_OWN_THREAD, true);
    return status;
}

void zr_courier_drain(zero_comm *comm)
{
    if (!comm->courier)
        return;
    note(comm, ZR_OWN_THREAD, false);
    zr_workers_drain(comm->courier->worker);
    note(comm, ZR_OWN_THREAD, true);
}
