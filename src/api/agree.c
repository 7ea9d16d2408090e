// Called by the jobs of api/ at the end of every phase that is not collective.
#include "api/agree.h"

#include <string.h>

zero_status zr_agree(zero_comm *comm, zero_status status, zero_error *error)
{
    if (comm->size == 1)
        return status;
    zero_error local = {0};
    if (!error)
        error = &local;
    error->status = status;
    int64_t first = status == ZERO_OK ? comm->size : comm->rank;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &first, 1, ZERO_I64, ZR_MIN, error));
    if (first == comm->size)
        return ZERO_OK;
    ZERO_TRY(zr_comm_broadcast(comm, error, sizeof *error, (int)first, error));
    zr_comm_barrier(comm, NULL); // whoever leaves may abort the communicator: not before all have the message
    return error->status;
}

zero_status zr_agree_on_largest(zero_comm *comm, int64_t *value, zero_error *error)
{
    return comm->size == 1 ? ZERO_OK : zr_comm_all_reduce_small(comm, value, 1, ZERO_I64, ZR_MAX, error);
}
