// Between comm.c, collectives.c and open.c: no failure of one rank leaves another waiting.
#ifndef ZR_COMM_SETTLE_H
#define ZR_COMM_SETTLE_H

#include "comm/comm.h"

// A caller that passes no error object still tells the other ranks why it failed.
#define ZR_OR_OWN_ERROR(error) ((error) ? (error) : &(zero_error){0})

static inline zero_status zr_comm_settle(zero_comm *comm, zero_status status, const zero_error *error)
{
    if (status != ZERO_OK)
        comm->ops->abort(comm, error->message);
    return status;
}

// Where a wait inside of an operation is recorded: nowhere under a courier, which is another thread than the recorder's.
static inline zr_recorder *zr_wait_recorder(const zero_comm *comm)
{
    return comm->courier ? NULL : comm->recorder;
}

#endif
