// Regions of a symmetric window in the memory of a far device: each rank reserves its own, and the
// ranks, threads of one process, tell each other how to reach them. The last one that leaves the
// window releases all regions, because the others may still read them.
#include "comm/local_far_window.h"

#include "base/alloc.h"
#include "comm/operations.h"

#include <stdio.h>
#include <string.h>

enum { SHARE_WORDS = sizeof(zr_share) / sizeof(int64_t) };

static zr_device *device_of(const zero_comm *comm) { return comm->queue->device; }

zero_status zr_far_window_reserve(zr_window *window, zero_error *error)
{
    zero_comm *comm = window->comm;
    zr_local_window *mine = window->impl;
    if (((zr_local *)comm->impl)->memfd >= 0)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%d ranks that are processes on \"%s\": ranks reach each other's memory "
                       "there as threads of one process in this version (zero_comm_threads)",
                       comm->size, device_of(comm)->ops->name);
    if (window->kind != ZR_WINDOW_SYMMETRIC)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "a window that ranks map lies in the host's memory, not on \"%s\"",
                       device_of(comm)->ops->name);
    mine->regions = zr_alloc((size_t)comm->size * sizeof *mine->regions, error);
    if (!mine->regions)
        return ZERO_ERR_MEMORY;
    return zr_comm_region_create(comm, window->bytes, &mine->regions[comm->rank], error);
}

// Reaches what another rank has named; it may have failed and released it since.
static zero_status reach(zero_comm *comm, int rank, const zr_share *share, char **out,
                         zero_error *error)
{
    char doing[64], where[ZERO_MESSAGE_BYTES];
    void *at = NULL;
    zero_status status = device_of(comm)->ops->attach(device_of(comm), share, &at, error);
    if (status == ZERO_OK) {
        *out = at;
        return ZERO_OK;
    }
    snprintf(doing, sizeof doing, "reaching the memory of rank %d", zr_comm_job_rank(comm, rank));
    zr_comm_where(comm, doing, NULL, where, sizeof where);
    zr_error_prefix(error, "%s", where);
    return status;
}

// Collective: each rank hands the others what names its region.
zero_status zr_far_window_attach(zr_window *window, zero_error *error)
{
    zero_comm *comm = window->comm;
    zr_local_window *mine = window->impl;
    zr_device *device = device_of(comm);
    for (int r = 0; r < comm->size && window->bytes > 0; r++) {
        zr_share share = {{0}};
        int64_t words[SHARE_WORDS];
        if (r == comm->rank)
            ZERO_TRY(device->ops->share(device, mine->regions[r], &share, error));
        memcpy(words, &share, sizeof words);
        ZERO_TRY(zr_local_all_reduce_small(comm, words, SHARE_WORDS, ZERO_I64, ZR_SUM, error));
        memcpy(&share, words, sizeof words);
        if (r != comm->rank)
            ZERO_TRY(reach(comm, r, &share, &mine->regions[r], error));
    }
    mine->attached = true;
    return ZERO_OK;
}

void zr_far_window_detach(zr_window *window)
{
    zero_comm *comm = window->comm;
    const zr_local_window *mine = window->impl;
    for (int r = 0; mine->regions && r < comm->size; r++)
        if (r != comm->rank && mine->regions[r])
            device_of(comm)->ops->detach(device_of(comm), mine->regions[r]);
}

void zr_far_window_release(zr_window *window, bool last)
{
    zero_comm *comm = window->comm;
    zr_local_window *mine = window->impl;
    for (int r = 0; mine->regions && r < comm->size; r++)
        if (mine->regions[r] && (mine->attached ? last : r == comm->rank))
            zr_comm_region_destroy(comm, mine->regions[r], window->bytes);
    zr_free(mine->regions);
    mine->regions = NULL;
}
