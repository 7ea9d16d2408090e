// Ranks of one machine, as processes that share a memfd or as threads that share a mapping:
// opening, aborting, leaving.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/cpu.h"
#include "comm/comm_ops.h"
#include "comm/local_window.h"
#include "compute/compute.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static const zr_comm_ops process_ops, thread_ops;

static zero_comm *comm_create(const zr_comm_ops *ops, zr_control *control, int rank, int memfd,
                              double timeout, zero_error *error)
{
    zr_local_comm *made = zr_alloc(sizeof *made, error);
    if (!made)
        return NULL;
    made->local = (zr_local){.control = control,
                             .record = &control->records[rank],
                             .area = zr_local_job_area(control),
                             .rank = rank,
                             .comm_thread = ZR_COMM_THREAD_THREAD,
                             .memfd = memfd};
    made->comm = (zero_comm){.ops = ops,
                             .versions = &zr_local_versions,
                             .may_overlap = true,
                             .backend = zr_backend_portable(),
                             .rank = rank,
                             .size = control->ranks,
                             .job = &made->comm,
                             .machine_ranks = control->ranks,
                             .timeout = timeout,
                             .impl = &made->local};
    return &made->comm;
}

// Returns whether there is a core for every rank, among those that the ranks are bound to together
// or, unbound, those that the process is allowed.
static bool has_core_for_each(const zr_control *control)
{
    cpu_set_t all, own;
    CPU_ZERO(&all);
    CPU_ZERO(&own);
    sched_getaffinity(0, sizeof own, &own);
    for (int r = 0; r < control->ranks; r++)
        CPU_OR(&all, &all, &control->records[r].cpus);
    bool bound = !CPU_EQUAL(&all, &own);
    return control->ranks <= (bound ? CPU_COUNT(&all) : zr_cpu_budget_get().allowed);
}

// Makes a rank die with the parent that supervises it, however that ends.
static void bind_to_parent(const zr_control *control)
{
    if (control->parent.pid == 0 || getppid() != control->parent.pid)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != control->parent.pid)
        raise(SIGKILL);
}

static zero_status take_record(zr_control *control, const zr_launch *launch, zero_error *error)
{
    zr_rank_record *record = &control->records[launch->rank];
    if (control->ranks != launch->size)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the environment says %d ranks, but their shared memory was made for %d",
                       launch->size, control->ranks);
    if (atomic_load(&record->state) != ZR_RANK_ABSENT)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "rank %d has opened its communicator before: a job has one a rank",
                       launch->rank);
    record->process = zr_process_self();
    sched_getaffinity(0, sizeof record->cpus, &record->cpus);
    atomic_store_explicit(&record->state, ZR_RANK_JOINED, memory_order_release);
    return ZERO_OK;
}

// Adopts a copy of the descriptor that was handed on. That one stays as it is, so that a second
// attempt to open is recognised.
static zero_status adopt_memfd(const zr_launch *launch, int *memfd, zr_control **control,
                               zero_error *error)
{
    fcntl(launch->memfd, F_SETFD, FD_CLOEXEC);
    *memfd = fcntl(launch->memfd, F_DUPFD_CLOEXEC, 0);
    if (*memfd < 0)
        return zr_fail_errno(error, ZERO_ERR_CONFIG, errno,
                             "%s names descriptor %d, which this process was not handed",
                             ZR_MEMFD_VARIABLE, launch->memfd);
    zero_status status = zr_local_control_map(*memfd, control, error);
    if (status != ZERO_OK)
        close(*memfd);
    return status;
}

static zero_status find_control(const zr_launch *launch, double timeout, int *memfd,
                                zr_control **control, zero_error *error)
{
    return launch->memfd >= 0 ? adopt_memfd(launch, memfd, control, error)
                              : zr_local_hand_over(launch, timeout, memfd, control, error);
}

// Waits until all ranks have come; a rank that cannot come fails the job.
static zero_status join_local(const zr_launch *launch, double timeout, int memfd,
                              zr_control *control, zero_comm **out, zero_error *error)
{
    ZERO_TRY(take_record(control, launch, error));
    bind_to_parent(control);
    zero_comm *comm = comm_create(&process_ops, control, launch->rank, memfd, timeout, error);
    if (!comm) {
        zr_local_failure failure = {.rank = launch->rank,
                                    .status = ZERO_ERR_PEER,
                                    .message = "a rank had no memory to join"};
        zr_local_fail(control, &failure);
        return ZERO_ERR_MEMORY;
    }
    zero_status status = zr_local_barrier(comm, error);
    if (status != ZERO_OK) {
        zr_free(comm);
        return status;
    }
    ((zr_local *)comm->impl)->spin = has_core_for_each(control);
    *out = comm;
    return ZERO_OK;
}

zero_status zr_local_open(const zr_launch *launch, double timeout, zero_comm **out,
                          zero_error *error)
{
    int memfd;
    zr_control *control;
    ZERO_TRY(find_control(launch, timeout, &memfd, &control, error));
    zero_status status = join_local(launch, timeout, memfd, control, out, error);
    if (status != ZERO_OK) {
        zr_local_control_unmap(control);
        close(memfd);
    }
    return status;
}

zero_status zr_local_threads_open(int ranks, double timeout, zero_comm **comms, zero_error *error)
{
    size_t bytes = (size_t)zr_local_control_bytes(ranks);
    zr_control *control =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (control == MAP_FAILED)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno, "mapping %zu bytes for %d ranks", bytes,
                             ranks);
    zr_local_control_init(control, ranks, true);
    bool spin = ranks <= zr_cpu_budget_get().allowed;
    for (int r = 0; r < ranks; r++)
        comms[r] = NULL;
    for (int r = 0; r < ranks; r++) {
        comms[r] = comm_create(&thread_ops, control, r, -1, timeout, error);
        if (!comms[r])
            goto undo_comms;
        ((zr_local *)comms[r]->impl)->spin = spin;
        atomic_store(&control->records[r].state, ZR_RANK_JOINED);
    }
    return ZERO_OK;
undo_comms:
    for (int r = 0; r < ranks; r++) {
        zr_free(comms[r]);
        comms[r] = NULL;
    }
    munmap(control, bytes);
    return ZERO_ERR_MEMORY;
}

static void progress(zero_comm *comm)
{
    zr_rank_record *record = ((zr_local *)comm->impl)->record;
    uint64_t beats = atomic_load_explicit(&record->heartbeat, memory_order_relaxed);
    atomic_store_explicit(&record->step, comm->step, memory_order_relaxed);
    atomic_store_explicit(&record->work, comm->work, memory_order_relaxed);
    atomic_store_explicit(&record->need, comm->need, memory_order_relaxed);
    atomic_store_explicit(&record->multiple, comm->multiple, memory_order_relaxed);
    atomic_store_explicit(&record->heartbeat, beats + 1, memory_order_relaxed);
}

static void note_local(zero_comm *comm, zr_rank_thread thread, bool at_work)
{
    atomic_store_explicit(zr_local_waiting_on(comm->impl, thread),
                          at_work ? ZR_AT_WORK : ZR_WITHOUT_WORK, memory_order_relaxed);
}

static void abort_job(zero_comm *comm, const char *message)
{
    zr_local_failure failure = {.rank = comm->rank, .status = ZERO_ERR_PEER, .step = comm->step};
    char work[ZR_WORK_TEXT];
    zr_work_text(comm->work, work);
    snprintf(failure.message, sizeof failure.message, "rank %d gave up at step %lld%s: %s",
             comm->rank, (long long)comm->step, work, message);
    zr_local_fail(((zr_local *)comm->impl)->control, &failure);
}

static void destroy_local(zero_comm *comm)
{
    zr_local *local = comm->impl;
    if (comm->group) {
        zr_local_leave_group(comm);
        return;
    }
    atomic_store_explicit(&local->record->state, ZR_RANK_LEFT, memory_order_release);
    zr_local_ring_own(local);
    if (local->memfd >= 0 || atomic_fetch_sub(&local->control->users, 1) == 1)
        zr_local_control_unmap(local->control);
    if (local->memfd >= 0)
        close(local->memfd);
    zr_free(comm);
}

// Processes and threads differ only in how they map their memory.
#define LOCAL_OPS(implementation)                                                                  \
    {                                                                                              \
        .name = implementation, .window_create = zr_local_window_create,                           \
        .window_destroy = zr_local_window_destroy, .start = zr_local_start,                        \
        .reduce_scatter_wait = zr_local_reduce_scatter_wait,                                       \
        .all_gather_wait = zr_local_all_gather_wait, .quiesce = zr_local_quiesce,                  \
        .number = zr_local_number, .drained = zr_local_drained,                                    \
        .all_reduce_small = zr_local_all_reduce_small, .send = zr_local_send,                      \
        .recv = zr_local_recv, .barrier = zr_local_barrier, .progress = progress,                  \
        .note = note_local, .split = zr_local_split, .channels = &zr_local_channels,               \
        .abort = abort_job, .destroy = destroy_local,                                              \
    }

static const zr_comm_ops process_ops = LOCAL_OPS("local processes");
static const zr_comm_ops thread_ops = LOCAL_OPS("local threads");
