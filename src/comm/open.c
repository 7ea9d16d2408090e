// The functions of include/zero/comm.h that open communicators, for a process or its threads.
#include "base/alloc.h"
#include "base/errors.h"
#include "comm/comm_ops.h"
#include "comm/comm_thread.h"
#include "comm/operations.h"

#include <string.h>

#define DEFAULT_TIMEOUT 60.0

// Copies the options and fills in the defaults; options may be NULL.
static zero_status take_options(const zero_comm_options *options, zero_comm_options *out,
                                zero_error *error)
{
    *out = (zero_comm_options){.struct_size = sizeof *out};
    if (options)
        ZERO_TRY(zr_struct_take("zero_comm_options", options,
                                ZR_STRUCT_UPTO(zero_comm_options, kind), out, sizeof *out, error));
    if (!(out->timeout_seconds > 0))
        out->timeout_seconds = DEFAULT_TIMEOUT;
    if (!out->kind)
        out->kind = "auto";
    return ZERO_OK;
}

zero_status zero_comm_self(zero_comm **out, zero_error *error)
{
    ZR_NEED(error, out);
    return zr_self_open(out, error);
}

zero_status zero_comm_threads(int ranks, const zero_comm_options *options, zero_comm **comms,
                              zero_error *error)
{
    zero_comm_options taken;
    ZR_NEED(error, comms);
    ZERO_TRY(take_options(options, &taken, error));
    if (ranks < 1 || ranks > ZERO_MAX_RANKS)
        return zr_fail(error, ZERO_ERR_USAGE, "%d ranks: from 1 to %d are possible", ranks,
                       ZERO_MAX_RANKS);
    return zr_local_threads_open(ranks, taken.timeout_seconds, comms, error);
}

// Opens MPI, which knows its ranks itself. The launcher's variables, if they are usable, must not
// contradict it.
static zero_status open_mpi(double timeout, zero_comm **out, zero_error *error)
{
    const zr_mpi_module *module;
    zr_launch launch;
    bool launched = zr_launch_read_process(&launch, NULL) == ZERO_OK && launch.family;
    ZERO_TRY(zr_mpi_load(&module, error));
    ZERO_TRY(module->open(launched ? launch.size : 0, timeout, out, error));
    (*out)->backend = zr_backend_portable(); // which the module does not have
    return ZERO_OK;
}

// One rank waits for nobody, but for a device.
static zero_status open_self(double timeout, zero_comm **out, zero_error *error)
{
    ZERO_TRY(zr_self_open(out, error));
    (*out)->timeout = timeout;
    return ZERO_OK;
}

static zero_status open_launched(bool is_local, double timeout, zero_comm **out, zero_error *error)
{
    zr_launch launch;
    ZERO_TRY(zr_launch_read_process(&launch, error));
    if (launch.size == 1)
        return open_self(timeout, out, error);
    if (launch.local_size == launch.size)
        return zr_local_open(&launch, timeout, out, error);
    if (is_local)
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "%d of %d ranks are on this machine, as %s says: \"local\" needs all of them",
            launch.local_size, launch.size, launch.family);
    return open_mpi(timeout, out, error);
}

zero_status zero_comm_open(const zero_comm_options *options, zero_comm **out, zero_error *error)
{
    zero_comm_options taken;
    ZR_NEED(error, out);
    ZERO_TRY(take_options(options, &taken, error));
    const char *kind = taken.kind;
    double timeout = taken.timeout_seconds;
    bool is_local = !strcmp(kind, "local");
    if (!strcmp(kind, "self"))
        return open_self(timeout, out, error);
    if (!strcmp(kind, "mpi"))
        return open_mpi(timeout, out, error);
    if (is_local || !strcmp(kind, "auto"))
        return open_launched(is_local, timeout, out, error);
    return zr_fail(error, ZERO_ERR_USAGE,
                   "there is no communicator \"%s\": auto, self, local and mpi are", kind);
}

int zero_comm_rank(const zero_comm *comm) { return comm ? comm->rank : 0; }

int zero_comm_size(const zero_comm *comm) { return comm ? comm->size : 0; }

const char *zero_comm_name(const zero_comm *comm) { return comm ? comm->ops->name : NULL; }

zero_status zero_comm_barrier(zero_comm *comm, zero_error *error)
{
    ZR_NEED(error, comm);
    return zr_comm_barrier(comm, error);
}

void zero_comm_abort(zero_comm *comm, const char *message)
{
    if (comm)
        comm->job->ops->abort(comm->job, message ? message : "no reason given");
}

void zero_comm_destroy(zero_comm *comm)
{
    if (!comm)
        return;
    zr_comm_thread_drain(comm);
    zr_comm_thread_destroy(comm->comm_thread);
    comm->comm_thread = NULL;
    zr_comm_leave_queue(comm);
    int *members = (int *)comm->members;
    comm->ops->destroy(comm);
    zr_free(members);
}
