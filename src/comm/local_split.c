// Groups of the ranks of one machine. The areas of all groups of a split lie one after the other in
// a window of the job, so they are made and freed as windows are, and ranks fail at it together.
// All else is the job's: records, failure, bells, and the memfd that later windows lie in.
#include "comm/local_control.h"

#include "base/alloc.h"
#include "comm/agreement.h"
#include "comm/local_window.h"
#include "comm/operations.h"

// Returns where group `index` begins in the window, or with index = count how large that is.
static int64_t area_offset(const zr_comm_group *group, int index)
{
    int64_t bytes = 0;
    for (int g = 0; g < index; g++)
        bytes += group->sizes[g] > 1 ? zr_area_bytes(group->sizes[g]) : 0;
    return bytes;
}

// Returns a place in waiting_on that no group's comm thread has, or ZR_WAITING.
static int find_thread_place(const zr_local *job)
{
    int place = ZR_FIRST_GROUP;
    while (place < ZR_WAITING && job->groups >> place & 1)
        place++;
    return place;
}

static zero_status group_create(zero_comm *job, const zr_comm_group *group, zero_comm **out,
                                zero_error *error)
{
    zr_local *of_job = job->impl;
    int place = find_thread_place(of_job);
    if (place == ZR_WAITING)
        return zr_fail(error, ZERO_ERR_INTERNAL, "more than %d groups of rank %d are alive",
                       ZR_GROUPS, job->rank);
    zr_local_comm *made = zr_alloc(sizeof *made, error);
    if (!made)
        return ZERO_ERR_MEMORY;
    of_job->groups |= 1u << place;
    made->local = (zr_local){.control = of_job->control,
                             .record = of_job->record,
                             .rank = of_job->rank,
                             .comm_thread = place,
                             .memfd = of_job->memfd,
                             .spin = of_job->spin};
    made->comm = zr_comm_of_group(job, group);
    made->comm.ops = job->ops;
    made->comm.versions = job->versions;
    made->comm.may_overlap = job->may_overlap;
    made->comm.machine_ranks = group->size;
    made->comm.impl = &made->local;
    *out = &made->comm;
    return ZERO_OK;
}

static void group_free(zero_comm *comm)
{
    zr_local *of_job = comm->job->impl;
    of_job->groups &= ~(1u << ((zr_local *)comm->impl)->comm_thread);
    zr_free(comm);
}

zero_status zr_local_split(zero_comm *job, const zr_comm_group *group, zero_comm **out,
                           zero_error *error)
{
    zero_comm *made = NULL;
    zr_window areas = {
        .comm = job, .kind = ZR_WINDOW_SHARED, .bytes = area_offset(group, group->count)};
    zero_status status = group->size > 1 ? group_create(job, group, &made, error) : ZERO_OK;
    status = zr_comm_agree(job, status, error);
    if (status == ZERO_OK)
        status = zr_local_window_create(job, &areas, error);
    if (status != ZERO_OK)
        goto undo_create;
    if (!made) {
        zr_local_window_destroy(&areas);
        return ZERO_OK;
    }
    zr_local *local = made->impl;
    local->areas = areas;
    local->area = (zr_area *)(areas.mine + area_offset(group, group->index));
    *out = made;
    return ZERO_OK;
undo_create:
    if (made)
        group_free(made);
    return status;
}

void zr_local_leave_group(zero_comm *comm)
{
    zr_local *local = comm->impl;
    atomic_store_explicit(&local->area->ranks[comm->rank].left, 1, memory_order_release);
    zr_local_ring_own(local);
    zr_local_window_destroy(&local->areas);
    group_free(comm);
}
