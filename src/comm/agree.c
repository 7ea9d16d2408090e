#include "comm/agree.h"

zero_status zr_comm_agree(zero_comm *comm, zero_status mine, zero_error *error)
{
    if (comm->size == 1)
        return mine;
    zero_error own = {0};
    if (!error)
        error = &own;
    error->status = mine;
    int64_t first = mine == ZERO_OK ? comm->size : comm->rank;
    zero_error shared = *error;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &first, 1, ZERO_I64, ZR_MIN, error));
    if (first == comm->size)
        return ZERO_OK;
    ZERO_TRY(zr_comm_broadcast(comm, &shared, sizeof shared, (int)first, error));
    zr_comm_barrier(comm, NULL); // whoever leaves may abort the communicator: not before all have the message
    *error = shared;
    if (mine == ZERO_OK)
        zr_error_prefix(error, "rank %d", (int)first);
    return shared.status;
}

zero_status zr_comm_agree_on_largest(zero_comm *comm, int64_t *value, zero_error *error)
{
    return comm->size == 1 ? ZERO_OK : zr_comm_all_reduce_small(comm, value, 1, ZERO_I64, ZR_MAX, error);
}
