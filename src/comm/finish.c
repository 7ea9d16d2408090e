// Where ranks wait for their own queues.
#include "comm/operations.h"

zero_status zr_comm_finish(zero_comm *comm, zr_mark mark, const char *doing, const char *slot,
                           zero_error *error)
{
    char where[ZERO_MESSAGE_BYTES];
    error = ZR_OR_OWN_ERROR(error);
    zero_status status =
        zr_comm_abort_on_failure(comm, zr_mark_finish(mark, comm->timeout, error), error);
    if (status == ZERO_OK)
        return ZERO_OK;
    zr_comm_where(comm, doing, slot, where, sizeof where);
    zr_error_prefix(error, "%s", where);
    return status;
}
