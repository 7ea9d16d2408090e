// The parent's side of the shared memory (local.h). The parent never waits for a rank, and no rank
// waits for the parent.
#define _GNU_SOURCE
#include "comm/local_control.h"

#include <sys/wait.h>
#include <unistd.h>

zero_status zr_local_host_create(int ranks, zr_local_host *out, zero_error *error)
{
    *out = (zr_local_host){.memfd = -1};
    if (ranks < 1 || ranks > ZERO_MAX_RANKS)
        return zr_fail(error, ZERO_ERR_USAGE, "%d ranks: from 1 to %d are possible", ranks,
                       ZERO_MAX_RANKS);
    ZERO_TRY(zr_local_memfd_create(ranks, &out->memfd, &out->control, error));
    out->control->parent = zr_process_self();
    out->ranks = ranks;
    return ZERO_OK;
}

void zr_local_host_destroy(zr_local_host *host)
{
    if (!host->control)
        return;
    zr_local_control_unmap(host->control);
    close(host->memfd);
    *host = (zr_local_host){.memfd = -1};
}

void zr_local_host_note_death(zr_local_host *host, int rank, int wait_status)
{
    zr_local_failure failure;
    zr_rank_record *record = &host->control->records[rank];
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        atomic_store_explicit(&record->state, ZR_RANK_LEFT, memory_order_release);
    if (atomic_load(&record->state) == ZR_RANK_LEFT) {
        zr_local_ring_all(host->control);
        return;
    }
    zr_local_failure_of_end(host->control, rank, wait_status, &failure);
    zr_local_fail(host->control, &failure);
}

zr_local_status zr_local_host_status(const zr_local_host *host, int rank)
{
    const zr_rank_record *record = &host->control->records[rank];
    int state = atomic_load_explicit(&record->state, memory_order_acquire);
    return (zr_local_status){.joined = state != ZR_RANK_ABSENT,
                             .left = state == ZR_RANK_LEFT,
                             .step = atomic_load(&record->step),
                             .need = atomic_load(&record->need),
                             .multiple = atomic_load(&record->multiple)};
}

bool zr_local_host_failure(const zr_local_host *host, zr_local_failure *out)
{
    return zr_local_failure_read(host->control, out);
}
