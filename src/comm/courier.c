#include "comm/courier.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "comm/settle.h"

#include <pthread.h>

#define QUEUE 64 // operations that are under way; more wait to be started

struct zr_courier {
    zr_workers *worker;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    zero_status failed; // of the first operation that failed; those after it are not tried
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

static void carry(void *argument)
{
    zr_handle *handle = argument;
    zr_courier *courier = handle->window->comm->courier;
    zero_status status = courier->failed; // only this thread writes it
    if (status == ZERO_OK)
        status = zr_comm_carry_out(handle, &courier->error);
    pthread_mutex_lock(&courier->lock);
    courier->failed = status;
    handle->status = status;
    handle->arrived = true;
    pthread_cond_broadcast(&courier->arrived);
    pthread_mutex_unlock(&courier->lock);
}

zero_status zr_courier_submit(zr_courier *courier, zr_handle *handle, zero_error *error)
{
    return zr_workers_submit(courier->worker, carry, handle, error);
}

zero_status zr_courier_await(zr_courier *courier, zr_handle *handle, zero_error *error)
{
    pthread_mutex_lock(&courier->lock);
    while (!handle->arrived)
        pthread_cond_wait(&courier->arrived, &courier->lock);
    zero_status status = handle->status;
    if (status != ZERO_OK)
        *error = courier->error;
    pthread_mutex_unlock(&courier->lock);
    return status;
}

void zr_courier_drain(zr_courier *courier)
{
    if (courier)
        zr_workers_drain(courier->worker);
}
