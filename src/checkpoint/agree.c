#include "checkpoint/agree.h"

zero_status zr_ranks_agree(zero_comm *comm, zero_status mine, zero_error *error)
{
    int64_t failed = mine == ZERO_OK ? comm->size : comm->rank;
    zero_error shared = *error;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &failed, 1, ZERO_I64, ZR_MIN, error));
    if (failed == comm->size)
        return ZERO_OK;
    ZERO_TRY(zr_comm_broadcast(comm, &shared, sizeof shared, (int)failed, error));
    *error = shared;
    if (failed != comm->rank)
        zr_error_prefix(error, "rank %d", (int)failed);
    return shared.status;
}
