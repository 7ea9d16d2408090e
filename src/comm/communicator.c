// What all communicators have in common: they check arguments, count and hash messages, and
// report every failure to the others.
//
// An operation on a window counts as one message of the current pass (contract 8). Small operands,
// private operands and barriers are counted only as traffic.
#include "comm/communicator.h"

#include "base/traffic.h"
#include "comm/comm_thread.h"
#include "comm/operations.h"
#include "comm/region.h"

#include <string.h>

static zero_status refuse_collective(const zr_window *window, zero_comm_op op, int slot,
                                     const char *why, zero_error *error)
{
    const char *name =
        window->slot_names && slot >= 0 && slot < window->slots ? window->slot_names[slot] : "?";
    return zr_fail(error, ZERO_ERR_INTERNAL, "%s on slot %d (%s) of a window of %lld bytes: %s",
                   op == ZERO_COMM_reduce_scatter ? "reduce_scatter" : "all_gather", slot, name,
                   (long long)window->bytes, why);
}

static bool can_sum(zero_dtype dtype)
{
    return dtype == ZERO_F32 || dtype == ZERO_BF16 || dtype == ZERO_F16;
}

// Says whether an operand lies in its window, in whole blocks where there are codes. What is
// gathered is widened there.
static bool lies_inside(const zr_handle *handle)
{
    const zr_window *window = handle->window;
    bool codes = handle->bits && handle->op == ZERO_COMM_reduce_scatter;
    int64_t unit = handle->bits ? ZR_BLOCK : 1, element = (int64_t)zero_dtype_bytes(handle->dtype);
    int64_t size = codes ? zr_operand_bytes(handle, unit) : unit * element,
            align = codes ? (int64_t)sizeof(float) : element;
    return handle->offset >= 0 && handle->offset % align == 0 && handle->shard_elems >= 0 &&
           handle->shard_elems % unit == 0 &&
           handle->shard_elems / unit <=
               (window->bytes - handle->offset) / size / window->comm->size;
}

static zero_status check_operand(const zr_handle *handle, zero_error *error)
{
    const zr_window *window = handle->window;
    bool sums = handle->op != ZERO_COMM_all_gather || handle->dtype != ZERO_U8;
    if (sums && !can_sum(handle->dtype))
        return refuse_collective(window, handle->op, handle->slot,
                                 "operands are of f32, bf16 or f16, or bytes that are gathered",
                                 error);
    if (handle->slot < 0 || handle->slot >= window->slots)
        return refuse_collective(window, handle->op, handle->slot, "there is no such slot", error);
    if (!lies_inside(handle))
        return refuse_collective(window, handle->op, handle->slot,
                                 "its operand does not lie inside", error);
    if (handle->bits && handle->op == ZERO_COMM_all_gather && window->kind != ZR_WINDOW_MACHINE)
        return refuse_collective(window, handle->op, handle->slot,
                                 "codes are gathered into machine windows", error);
    if (handle->op == ZERO_COMM_reduce_scatter && window->kind != ZR_WINDOW_SYMMETRIC)
        return refuse_collective(window, handle->op, handle->slot, "sums are of symmetric windows",
                                 error);
    return ZERO_OK;
}

zero_status zr_window_create(zero_comm *comm, zr_window_kind kind, int64_t bytes, int slots,
                             const char *const *slot_names, zr_window *out, zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    *out = (zr_window){0};
    zr_window window = {
        .comm = comm, .kind = kind, .bytes = bytes, .slots = slots, .slot_names = slot_names};
    if (bytes < 0 || slots < 0)
        return zr_comm_abort_on_failure(comm,
                                        zr_fail(error, ZERO_ERR_INTERNAL,
                                                "a window of %lld bytes and %d slots",
                                                (long long)bytes, slots),
                                        error);
    if (zr_comm_seals_late(comm) && kind != ZR_WINDOW_SYMMETRIC)
        return zr_comm_abort_on_failure(
            comm,
            zr_fail(error, ZERO_ERR_INTERNAL,
                    "a window that ranks map lies in the host's memory, not on \"%s\"",
                    comm->queue->device->ops->name),
            error);
    zr_comm_thread_drain(comm);
    ZERO_TRY(zr_comm_abort_on_failure(comm, comm->ops->window_create(comm, &window, error), error));
    *out = window;
    return ZERO_OK;
}

void zr_window_destroy(zr_window *window)
{
    if (window->comm) {
        zr_comm_end_work(window->comm);
        window->comm->ops->window_destroy(window);
    }
    *window = (zr_window){0};
}

// Returns the bytes that this rank has to fetch from the others.
static int64_t bytes_fetched(const zr_handle *handle)
{
    const zr_window *window = handle->window;
    if (window->kind == ZR_WINDOW_SHARED)
        return 0;
    int ranks =
        zr_window_is_shared_by_machine(window) ? window->comm->fetches : window->comm->size - 1;
    return ranks * zr_handle_shard_bytes(handle);
}

// Returns how many of those bytes cross the network.
static int64_t bytes_over_network(const zr_handle *handle)
{
    const zero_comm *comm = handle->window->comm;
    if (handle->bits && handle->op == ZERO_COMM_reduce_scatter)
        return zr_handle_shard_bytes(handle) *
               zr_coded_network_shards(comm->size, comm->strangers, comm->even);
    return zr_collective_network_bytes(handle->op, zr_handle_shard_bytes(handle), 1,
                                       comm->strangers, comm->fetches);
}

// On a far device the comm thread seals the operand, once it is there.
static zero_status submit_operation(zr_handle *handle, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    handle->thread = comm->comm_thread ? ZR_COMM_THREAD_THREAD : ZR_OWN_THREAD;
    if (comm->compute)
        handle->made = zr_queue_mark(comm->compute);
    if (zr_comm_seals_late(comm))
        comm->ops->number(handle);
    else
        ZERO_TRY(comm->ops->start(handle, error));
    return comm->comm_thread ? zr_comm_thread_submit(comm, handle, error) : ZERO_OK;
}

static zero_status start_collective(zr_handle *handle, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    ZERO_TRY(submit_operation(handle, error));
    handle->pending = true;
    zr_comm_count(comm, handle->op, handle->slot, handle->shard_elems, bytes_fetched(handle),
                  bytes_over_network(handle));
    return ZERO_OK;
}

zero_status zr_comm_start(zr_window *window, zero_comm_op op, int slot, int64_t offset,
                          int64_t shard_elems, zero_dtype dtype, const zr_sum_target *to,
                          zr_handle *out, zero_error *error)
{
    zero_comm *comm = window->comm;
    error = ZR_OR_OWN_ERROR(error);
    assert(op == ZERO_COMM_reduce_scatter || op == ZERO_COMM_all_gather);
    *out = (zr_handle){.window = window,
                       .op = op,
                       .slot = slot,
                       .offset = offset,
                       .shard_elems = shard_elems,
                       .dtype = dtype};
    if (to)
        out->to = *to;
    ZERO_TRY(zr_comm_abort_on_failure(comm, check_operand(out, error), error));
    if (op == ZERO_COMM_reduce_scatter && !can_sum(out->to.dtype))
        return zr_comm_abort_on_failure(
            comm,
            refuse_collective(window, op, slot, "sums are rounded to f32, bf16 or f16", error),
            error);
    if (op == ZERO_COMM_all_gather && window->kind == ZR_WINDOW_MACHINE)
        return zr_comm_abort_on_failure(
            comm,
            refuse_collective(window, op, slot, "the own shard of a machine window lies outside it",
                              error),
            error);
    return zr_comm_abort_on_failure(comm, start_collective(out, error), error);
}

zero_status zr_comm_start_blocks(zr_window *window, int slot, int64_t offset, int64_t shard_elems,
                                 int bits, const zr_sum_target *to, zr_handle *out,
                                 zero_error *error)
{
    zero_comm *comm = window->comm;
    error = ZR_OR_OWN_ERROR(error);
    *out = (zr_handle){.window = window,
                       .op = ZERO_COMM_reduce_scatter,
                       .slot = slot,
                       .offset = offset,
                       .shard_elems = shard_elems,
                       .dtype = ZERO_F32, // in which they are summed
                       .bits = bits,
                       .to = *to};
    ZERO_TRY(zr_comm_abort_on_failure(comm, check_operand(out, error), error));
    return zr_comm_abort_on_failure(comm, start_collective(out, error), error);
}

zero_status zr_comm_start_gather(zr_window *window, int slot, int64_t offset, int64_t shard_elems,
                                 zero_dtype dtype, int bits, const void *own, zr_handle *out,
                                 zero_error *error)
{
    zero_comm *comm = window->comm;
    error = ZR_OR_OWN_ERROR(error);
    *out = (zr_handle){.window = window,
                       .op = ZERO_COMM_all_gather,
                       .slot = slot,
                       .offset = offset,
                       .shard_elems = shard_elems,
                       .dtype = dtype,
                       .bits = bits,
                       .own = own};
    ZERO_TRY(zr_comm_abort_on_failure(comm, check_operand(out, error), error));
    int64_t bytes = zr_handle_stride(out);
    char *place = window->mine + offset + comm->rank * bytes;
    if (window->kind != ZR_WINDOW_MACHINE && bytes > 0 && own != place)
        zr_comm_put_own(comm, place, own, bytes);
    if (window->kind != ZR_WINDOW_MACHINE || own == place)
        out->own = NULL;
    return zr_comm_abort_on_failure(comm, start_collective(out, error), error);
}

static zero_status await_comm_thread(zr_handle *handle, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    int64_t begin = zr_recorder_begin(comm->recorder);
    zero_status status = zr_comm_thread_await(handle, error);
    zr_recorder_add(comm->recorder, ZR_ACTIVITY_wait, begin, 0, 0, handle->slot);
    return status;
}

// What the rank computes from now on comes after the operation.
static zero_status await_operation(zr_handle *handle, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    ZERO_TRY(comm->comm_thread ? await_comm_thread(handle, error)
                               : zr_comm_carry_out(handle, error));
    if (comm->compute)
        zr_queue_after(comm->compute, handle->done);
    return ZERO_OK;
}

zero_status zr_comm_wait(zr_handle *handle, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    zr_activity what =
        handle->op == ZERO_COMM_all_gather ? ZR_ACTIVITY_all_gather : ZR_ACTIVITY_reduce_scatter;
    error = ZR_OR_OWN_ERROR(error);
    assert(handle->pending);
    handle->pending = false;
    int64_t begin = zr_recorder_begin(comm->recorder);
    zero_status status = await_operation(handle, error);
    zr_recorder_add(comm->recorder, what, begin, bytes_fetched(handle), 0, handle->slot);
    return zr_comm_abort_on_failure(comm, status, error);
}

zero_status zr_comm_overlap(zero_comm *comm, zero_error *error)
{
    if (comm->comm_thread || !comm->may_overlap)
        return ZERO_OK;
    ZERO_TRY(zr_comm_thread_create(&comm->comm_thread, error));
    comm->threads = 1;
    return ZERO_OK;
}

zero_status zr_comm_quiesce(zr_window *window, int slot, zero_error *error)
{
    zero_comm *comm = window->comm;
    error = ZR_OR_OWN_ERROR(error);
    return zr_comm_abort_on_failure(comm, comm->ops->quiesce(window, slot, error), error);
}

// Carries an operation out at once: on a far device by the comm thread, which has nothing else to
// do.
static zero_status run_operation(zr_handle *handle, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    handle->sequence = 0; // it is another one each time
    if (zr_comm_seals_late(comm)) {
        handle->arrived = false;
        ZERO_TRY(submit_operation(handle, error));
        return await_operation(handle, error);
    }
    ZERO_TRY(comm->ops->start(handle, error));
    return zr_comm_carry_out(handle, error);
}

static zero_status all_reduce(zr_window *window, int slot, int64_t offset, int64_t shard_elems,
                              zero_error *error)
{
    const zr_comm_ops *ops = window->comm->ops;
    zr_handle handle = {.window = window,
                        .op = ZERO_COMM_reduce_scatter,
                        .slot = slot,
                        .offset = offset,
                        .shard_elems = shard_elems,
                        .dtype = ZERO_F32};
    ZERO_TRY(check_operand(&handle, error));
    const zr_sum_target own = {.data = (float *)(window->mine + offset) +
                                       window->comm->rank * shard_elems,
                               .dtype = ZERO_F32};
    handle.to = own;
    ZERO_TRY(run_operation(&handle, error));
    handle.op = ZERO_COMM_all_gather;
    ZERO_TRY(run_operation(&handle, error));
    return ops->quiesce(window, slot, error);
}

zero_status zr_comm_all_reduce(zr_window *window, int slot, int64_t offset, int64_t shard_elems,
                               zero_error *error)
{
    zero_comm *comm = window->comm;
    error = ZR_OR_OWN_ERROR(error);
    zr_comm_thread_drain(comm);
    ZERO_TRY(zr_comm_abort_on_failure(comm, all_reduce(window, slot, offset, shard_elems, error),
                                      error));
    int64_t shard = shard_elems * (int64_t)sizeof(float);
    zr_comm_count(comm, ZERO_COMM_all_reduce, slot, shard_elems, 2 * (comm->size - 1) * shard,
                  zr_collective_network_bytes(ZERO_COMM_all_reduce, shard, 1, comm->strangers,
                                              comm->fetches));
    return ZERO_OK;
}

void zr_comm_progress(zero_comm *comm, int64_t step)
{
    zero_comm *job = comm->job;
    job->step = step;
    if (job->ops->progress)
        job->ops->progress(job);
}

void zr_comm_report_need(zero_comm *comm, int64_t bytes)
{
    comm->job->need = bytes;
    zr_comm_progress(comm, comm->job->step);
}

void zr_comm_report_multiple(zero_comm *comm, int ranks)
{
    comm->job->multiple = ranks;
    zr_comm_progress(comm, comm->job->step);
}

void zr_comm_report_work(zero_comm *comm, const zr_work *work)
{
    uint64_t word = work ? zr_work_pack(work) : 0;
    atomic_store_explicit(&comm->job->work, word, memory_order_relaxed);
}

void zr_comm_count_mapped(zero_comm *comm, int slot, int64_t shard_elems)
{
    zr_comm_count(comm, ZERO_COMM_all_gather, slot, shard_elems, 0, 0);
}

void zr_comm_hash_reset(zero_comm *comm)
{
    comm->message_hash = ZR_MESSAGE_SEED;
    comm->message_count = 0;
}

int64_t zr_comm_staging_bytes(const zero_comm *comm)
{
    return comm->versions ? 0 : zr_staging_bytes(comm->size);
}

static int threads_to_attach(const zero_comm *comm, int wanted)
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
    comm->threads = threads_to_attach(comm, threads);
    return ZERO_OK;
}

zero_status zr_comm_use_queue(zero_comm *comm, zr_queue *compute, zero_error *error)
{
    comm->compute = compute;
    if (comm->size == 1) {
        comm->queue = compute;
        return ZERO_OK;
    }
    if (!comm->ops->drained)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "communicator \"%s\" reaches the memory of the host, and not that of \"%s\"",
                       comm->ops->name, compute->device->ops->name);
    ZERO_TRY(
        zr_queue_open(compute->backend->name, compute->backend->path(), 1, &comm->queue, error));
    return zr_comm_overlap(comm, error);
}

static void end_queue(const zero_comm *comm, zr_queue *queue)
{
    zero_error told_before = {0};
    (void)zr_mark_finish(zr_queue_mark(queue), comm->timeout, &told_before);
}

void zr_comm_end_work(zero_comm *comm)
{
    zr_comm_thread_drain(comm);
    if (comm->queue)
        end_queue(comm, comm->queue);
    if (comm->compute && comm->compute != comm->queue)
        end_queue(comm, comm->compute);
}

void zr_comm_leave_queue(zero_comm *comm)
{
    if (comm->queue != comm->compute)
        zr_queue_close(comm->queue);
    comm->queue = comm->compute = NULL;
}

zero_status zr_comm_region_create(zero_comm *comm, int64_t bytes, char **out, zero_error *error)
{
    zr_device *device = comm->queue ? comm->queue->device : NULL;
    if (!device || bytes == 0)
        return zr_region_create(bytes, out, error);
    zero_status status =
        device->ops->reserve(device, ZR_MEMORY_DEVICE, (size_t)bytes, (void **)out, error);
    if (status != ZERO_OK)
        zr_error_prefix(error, "cannot reserve %lld bytes of device memory for communication",
                        (long long)bytes);
    return status;
}

void zr_comm_region_destroy(zero_comm *comm, char *at, int64_t bytes)
{
    zr_device *device = comm->queue ? comm->queue->device : NULL;
    if (device && bytes > 0)
        device->ops->release(device, ZR_MEMORY_DEVICE, at, (size_t)bytes);
    else
        zr_region_destroy(at, bytes);
}

void zr_comm_detach(zero_comm *comm)
{
    zr_comm_leave_queue(comm);
    comm->attached = false;
    comm->threads = threads_to_attach(comm, 0);
    comm->work = 0;
    comm->recorder = NULL;
}

void zr_comm_record(zero_comm *comm, zr_recorder *recorder) { comm->recorder = recorder; }
