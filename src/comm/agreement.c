#include "comm/agreement.h"

#include <stdio.h>
#include <string.h>

static bool begins_with_its_rank(const zero_error *error, int rank)
{
    char name[24];
    snprintf(name, sizeof name, "rank %d ", rank);
    return strncmp(error->message, name, strlen(name)) == 0;
}

// Gives the failure of rank `first` to all ranks.
static zero_status share_agreement(zero_comm *comm, int first, zero_error *shared,
                                   zero_error *error)
{
    ZERO_TRY(zr_comm_broadcast(comm, shared, sizeof *shared, first, error));
    // A rank that leaves may abort the communicator, so every rank stays until all have the
    // message.
    zr_comm_barrier(comm, NULL);
    return ZERO_OK;
}

zero_status zr_comm_agree(zero_comm *comm, zero_status mine, zero_error *error)
{
    if (comm->size == 1)
        return mine;
    zero_error local = {0};
    if (!error)
        error = &local;
    error->status = mine;
    const zero_error own = *error;
    zero_error shared = own;
    int64_t first = mine == ZERO_OK ? comm->size : comm->rank;
    zero_status status = zr_comm_all_reduce_small(comm, &first, 1, ZERO_I64, ZR_MIN, error);
    if (status == ZERO_OK && first == comm->size)
        return ZERO_OK;
    if (status == ZERO_OK)
        status = share_agreement(comm, (int)first, &shared, error);
    if (status != ZERO_OK && mine == ZERO_OK)
        return status;
    // Where the ranks are out of reach, this rank's earlier failure is the reason.
    *error = status == ZERO_OK ? shared : own;
    if (mine != ZERO_OK)
        return error->status;
    int failed = zr_comm_job_rank(comm, (int)first);
    if (!begins_with_its_rank(error, failed))
        zr_error_prefix(error, "rank %d", failed);
    return error->status;
}

zero_status zr_comm_agree_on_largest(zero_comm *comm, int64_t *value, zero_error *error)
{
    return comm->size == 1 ? ZERO_OK
                           : zr_comm_all_reduce_small(comm, value, 1, ZERO_I64, ZR_MAX, error);
}
