// One engine a communicator at a time.
#include "comm/attach.h"

static int attach_threads_of(const zero_comm *comm, int wanted)
{
    return comm->comm_thread ? 1 : wanted;
}

zero_status zr_comm_attach(zero_comm *comm, int threads, zero_error *error)
{
    if (comm->attached)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "rank %d: this communicator has an engine already, and can have one at a time: "
            "zero_destroy that one first, or open another communicator",
            zr_comm_job_rank(comm, comm->rank));
    comm->attached = true;
    comm->threads = attach_threads_of(comm, threads);
    return ZERO_OK;
}

void zr_comm_detach(zero_comm *comm)
{
    comm->attached = false;
    comm->threads = attach_threads_of(comm, 0);
    comm->work = 0;
    comm->recorder = NULL;
}

void zr_comm_record(zero_comm *comm, zr_recorder *recorder) { comm->recorder = recorder; }
