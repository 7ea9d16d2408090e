// The communicator of several machines: opens MPI, makes windows of private memory, and closes.
#include "base/alloc.h"
#include "comm/comm_ops.h"
#include "comm/communicator.h"
#include "comm/mpi_rank.h"
#include "comm/operations.h"
#include "comm/region.h"

#include <stdio.h>

static const zr_comm_ops mpi_ops;

typedef struct mpi_comm {
    zero_comm comm;
    zr_mpi mpi;
    zr_mpi_job job; // of a job's communicator; groups use that one
} mpi_comm;

static zero_status init_mpi(zr_mpi_job *job, bool *may_overlap, zero_error *error)
{
    int initialized, finalized, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "MPI was finalized by this process and cannot be opened again");
    if (initialized)
        MPI_Query_thread(&provided);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return zr_fail(error, ZERO_ERR_PEER, "MPI_Init failed");
    job->finalize = !initialized;
    *may_overlap = provided >= MPI_THREAD_SERIALIZED;
    return ZERO_OK;
}

static zero_status find_own_rank(zero_comm *comm, int expected_size, zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    if (MPI_Comm_dup(MPI_COMM_WORLD, &mpi->data) != MPI_SUCCESS ||
        MPI_Comm_dup(MPI_COMM_WORLD, &mpi->job->notes) != MPI_SUCCESS)
        return zr_fail(error, ZERO_ERR_PEER, "MPI_Comm_dup failed");
    MPI_Comm_set_errhandler(mpi->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(mpi->job->notes, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi->data, &comm->rank);
    MPI_Comm_size(mpi->data, &comm->size);
    if (comm->size > ZERO_MAX_RANKS)
        return zr_fail(error, ZERO_ERR_CONFIG, "%d ranks: at most %d are possible", comm->size,
                       ZERO_MAX_RANKS);
    if (expected_size && expected_size != comm->size)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the launcher says %d ranks, MPI %d: it belongs to another MPI than the one "
                       "that %s was built with",
                       expected_size, comm->size, ZR_MPI_MODULE);
    return ZERO_OK;
}

static zero_status batch_create(zr_mpi_batch *batch, int ranks, zero_error *error)
{
    batch->requests = zr_alloc(sizeof *batch->requests * 2 * (size_t)ranks, error);
    batch->peers = zr_alloc(sizeof *batch->peers * 2 * (size_t)ranks, error);
    return batch->requests && batch->peers ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status tables_create(zero_comm *comm, zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    ZERO_TRY(batch_create(&mpi->batch[0], comm->size, error));
    ZERO_TRY(batch_create(&mpi->batch[1], comm->size, error));
    ZERO_TRY(zr_mpi_machines_reserve(comm, error));
    mpi->staging_bytes = zr_staging_bytes(comm->size);
    return zr_region_create(mpi->staging_bytes, &mpi->staging, error);
}

// Creates the tables that the job's communicator has for its groups, too.
static zero_status job_tables_create(zr_mpi_job *job, int ranks, zero_error *error)
{
    job->beats = zr_alloc(sizeof *job->beats * (size_t)ranks, error);
    job->steps = zr_alloc(sizeof *job->steps * (size_t)ranks, error);
    job->works = zr_alloc(sizeof *job->works * (size_t)ranks, error);
    job->waits = zr_alloc(sizeof *job->waits * (size_t)ranks, error);
    if (!job->beats || !job->steps || !job->works || !job->waits)
        return ZERO_ERR_MEMORY;
    for (int r = 0; r < ranks; r++) {
        job->beats[r] = MPI_REQUEST_NULL;
        job->waits[r] = -1;
    }
    return ZERO_OK;
}

static void tables_destroy(zr_mpi *mpi)
{
    for (int half = 0; half < 2; half++) {
        zr_free(mpi->batch[half].requests);
        zr_free(mpi->batch[half].peers);
    }
    zr_region_destroy(mpi->staging, mpi->staging_bytes);
    zr_mpi_machines_free(mpi);
}

static void job_tables_destroy(zr_mpi_job *job)
{
    zr_free(job->beats);
    zr_free(job->steps);
    zr_free(job->works);
    zr_free(job->waits);
    pthread_mutex_destroy(&job->lock);
}

static void job_destroy(zero_comm *comm)
{
    zr_mpi *mpi = comm->impl;
    zr_mpi_beats_gone(comm);
    zr_mpi_receive_notes(mpi->job);
    if (mpi->job->finalize)
        MPI_Finalize();
    tables_destroy(mpi);
    job_tables_destroy(mpi->job);
    zr_free(comm);
}

// MPI_Comm_free is collective by name only: MPI libraries count references, and wait for nobody.
static void group_destroy(zero_comm *comm)
{
    zr_mpi *mpi = comm->impl;
    pthread_mutex_lock(&mpi->job->lock);
    if (mpi->data != MPI_COMM_NULL)
        MPI_Comm_free(&mpi->data);
    pthread_mutex_unlock(&mpi->job->lock);
    tables_destroy(mpi);
    zr_free(comm);
}

static void mpi_destroy(zero_comm *comm)
{
    // Messages may still arrive in this memory, and MPI_Finalize would wait for ranks that will not
    // come.
    if (((zr_mpi *)comm->impl)->job->failed)
        return;
    if (comm->group)
        group_destroy(comm);
    else
        job_destroy(comm);
}

static zero_status mpi_open(int expected_size, double timeout, zero_comm **out, zero_error *error)
{
    mpi_comm *made = zr_alloc(sizeof *made, error);
    if (!made)
        return ZERO_ERR_MEMORY;
    zero_comm *comm = &made->comm;
    *comm = (zero_comm){.ops = &mpi_ops, .job = comm, .timeout = timeout, .impl = &made->mpi};
    made->mpi.job = &made->job;
    pthread_mutex_init(&made->job.lock, NULL);
    zero_status status = init_mpi(&made->job, &comm->may_overlap, error);
    if (status != ZERO_OK)
        goto undo_alloc;
    status = find_own_rank(comm, expected_size, error);
    if (status != ZERO_OK)
        goto undo_alloc;
    status = tables_create(comm, error);
    if (status == ZERO_OK)
        status = job_tables_create(&made->job, comm->size, error);
    if (status != ZERO_OK)
        goto undo_tables;
    status = zr_mpi_machines_find(comm, error);
    if (status != ZERO_OK) {
        zr_mpi_abort(comm, error ? error->message : zero_status_text(status));
        // Messages may still arrive in this memory, as in mpi_destroy.
        return status;
    }
    *out = comm;
    return ZERO_OK;
undo_tables:
    tables_destroy(&made->mpi);
undo_alloc:
    job_tables_destroy(&made->job);
    zr_free(made);
    return status;
}

// This rank's own part; the MPI communicator is still missing.
static zero_status group_create(zero_comm *job, const zr_comm_group *group, zero_comm **out,
                                zero_error *error)
{
    mpi_comm *made = zr_alloc(sizeof *made, error);
    if (!made)
        return ZERO_ERR_MEMORY;
    made->mpi = (zr_mpi){.job = ((zr_mpi *)job->impl)->job, .data = MPI_COMM_NULL};
    made->comm = zr_comm_of_group(job, group);
    made->comm.ops = &mpi_ops;
    made->comm.may_overlap = job->may_overlap;
    made->comm.impl = &made->mpi;
    *out = &made->comm;
    return tables_create(&made->comm, error);
}

// Splits the messages' MPI communicator; this is collective even where a rank has no memory.
static zero_status split_data(zero_comm *job, const zr_comm_group *group, MPI_Comm *out,
                              zero_error *error)
{
    zr_mpi *mpi = job->impl;
    pthread_mutex_lock(&mpi->job->lock);
    int code = MPI_Comm_split(mpi->data, group->size > 1 ? group->colour : MPI_UNDEFINED,
                              group->rank, out);
    if (*out != MPI_COMM_NULL)
        MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    pthread_mutex_unlock(&mpi->job->lock);
    return zr_mpi_check(job, code, "splitting the job", error);
}

zero_status zr_mpi_agree(zero_comm *comm, zero_status status, const zero_error *own,
                         const char *what, zero_error *error)
{
    int64_t failed = status != ZERO_OK ? comm->size - comm->rank : 0;
    ZERO_TRY(zr_mpi_all_reduce_small(comm, &failed, 1, ZERO_I64, ZR_MAX, error));
    if (status != ZERO_OK)
        return zr_fail(error, status, "rank %d: %s", zr_comm_job_rank(comm, comm->rank),
                       own->message);
    if (failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "rank %d could not %s",
                       zr_comm_job_rank(comm, comm->size - (int)failed), what);
    return ZERO_OK;
}

static zero_status mpi_split(zero_comm *job, const zr_comm_group *group, zero_comm **out,
                             zero_error *error)
{
    zero_error own = {0};
    zero_comm *made = NULL;
    MPI_Comm data = MPI_COMM_NULL;
    zero_status status = group->size > 1 ? group_create(job, group, &made, &own) : ZERO_OK;
    zero_status split = split_data(job, group, &data, status == ZERO_OK ? &own : NULL);
    if (made)
        ((zr_mpi *)made->impl)->data = data;
    status = zr_mpi_agree(job, status == ZERO_OK ? split : status, &own, "make its part of a group",
                          error);
    if (status == ZERO_OK && made)
        status = zr_mpi_machines_find(made, error);
    if (status == ZERO_OK && made)
        *out = made;
    if (status != ZERO_OK && made)
        mpi_destroy(made);
    return status;
}

static zero_status region_create(zero_comm *comm, zr_window *window, zero_error *error)
{
    if (zr_window_is_shared_by_machine(window))
        return zr_mpi_share(comm, window->bytes, &window->mine, error);
    return zr_region_create(window->bytes, &window->mine, error);
}

static zero_status window_create(zero_comm *comm, zr_window *window, zero_error *error)
{
    if (window->kind == ZR_WINDOW_SHARED)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "MPI maps no window: ranks gather into regions of their own");
    zero_error own = {0};
    char what[64];
    snprintf(what, sizeof what, "reserve its %lld bytes", (long long)window->bytes);
    zero_status reserved = region_create(comm, window, &own);
    zero_status status = zr_mpi_agree(comm, reserved, &own, what, error);
    if (status != ZERO_OK && reserved == ZERO_OK)
        zr_region_destroy(window->mine, window->bytes);
    return status;
}

static void window_destroy(zr_window *window)
{
    const zr_mpi *mpi = window->comm->impl;
    if (!mpi->job->failed)
        zr_region_destroy(window->mine, window->bytes);
}

static const zr_comm_ops mpi_ops = {
    .name = "mpi",
    .window_create = window_create,
    .window_destroy = window_destroy,
    .start = zr_mpi_start,
    .reduce_scatter_wait = zr_mpi_reduce_scatter_wait,
    .all_gather_wait = zr_mpi_all_gather_wait,
    .quiesce = zr_mpi_quiesce,
    .all_reduce_small = zr_mpi_all_reduce_small,
    .send = zr_mpi_send,
    .recv = zr_mpi_recv,
    .barrier = zr_mpi_barrier,
    .progress = zr_mpi_progress,
    .split = mpi_split,
    .channels = &zr_mpi_channels,
    .abort = zr_mpi_abort,
    .destroy = mpi_destroy,
};

ZERO_API const zr_mpi_module zr_mpi_entry = {
    .comm_size = sizeof(zero_comm),
    .version = ZR_VERSION,
    .open = mpi_open,
};
