// Each rank reserves its own region, and the ranks, threads of one process, tell each other how to
// reach them. The last one that leaves the window releases all regions, also those of a rank that
// gave up, because the others may still read them, or be about to reach them.
#include "comm/local_far_window.h"

#include "base/alloc.h"
#include "comm/operations.h"

#include <stdio.h>
#include <string.h>

enum { SHARE_WORDS = sizeof(zr_share) / sizeof(int64_t) };

static zr_device *device_of(const zero_comm *comm) { return comm->queue->device; }

static zero_status reserve_own(zero_comm *comm, zr_window_entry *entry, int64_t bytes, char **out,
                               zero_error *error)
{
    zr_far_region *own = zr_alloc(sizeof *own, error);
    if (!own)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_comm_region_create(comm, bytes, &own->at, error);
    if (status != ZERO_OK) {
        zr_free(own);
        return status;
    }
    own->bytes = bytes;
    own->next = atomic_load(&entry->regions);
    while (!atomic_compare_exchange_weak(&entry->regions, &own->next, own))
        ;
    *out = own->at;
    return ZERO_OK;
}

zero_status zr_far_regions_reserve(zero_comm *comm, zr_window_entry *entry, const int64_t *bytes,
                                   zr_far_regions **out, zero_error *error)
{
    zr_far_regions *regions;
    if (((zr_local *)comm->impl)->memfd >= 0)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%d ranks that are processes on \"%s\": ranks reach each other's memory "
                       "there as threads of one process in this version (zero_comm_threads)",
                       comm->size, device_of(comm)->ops->name);
    *out = regions = zr_alloc(sizeof *regions + (size_t)comm->size * sizeof regions->of[0], error);
    if (!regions)
        return ZERO_ERR_MEMORY;
    regions->comm = comm;
    for (int r = 0; r < comm->size; r++)
        regions->of[r].bytes = bytes[r];
    return reserve_own(comm, entry, bytes[comm->rank], &regions->of[comm->rank].at, error);
}

// Reaches what another rank has named.
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

// Each rank hands the others what names its region.
zero_status zr_far_regions_attach(zr_far_regions *regions, zero_error *error)
{
    zero_comm *comm = regions->comm;
    zr_device *device = device_of(comm);
    for (int r = 0; r < comm->size; r++) {
        zr_share share = {{0}};
        int64_t words[SHARE_WORDS];
        if (regions->of[r].bytes == 0)
            continue;
        if (r == comm->rank)
            ZERO_TRY(device->ops->share(device, regions->of[r].at, &share, error));
        memcpy(words, &share, sizeof words);
        ZERO_TRY(zr_local_all_reduce_small(comm, words, SHARE_WORDS, ZERO_I64, ZR_SUM, error));
        memcpy(&share, words, sizeof words);
        if (r != comm->rank)
            ZERO_TRY(reach(comm, r, &share, &regions->of[r].at, error));
    }
    return ZERO_OK;
}

void zr_far_regions_detach(const zr_far_regions *regions)
{
    for (int r = 0; regions && r < regions->comm->size; r++)
        if (r != regions->comm->rank && regions->of[r].at)
            device_of(regions->comm)->ops->detach(device_of(regions->comm), regions->of[r].at);
}

void zr_far_regions_release(zero_comm *comm, zr_far_region *all)
{
    while (all) {
        zr_far_region *next = all->next;
        zr_comm_region_destroy(comm, all->at, all->bytes);
        zr_free(all);
        all = next;
    }
}
