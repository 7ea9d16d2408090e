// The communicator of one rank. Nothing waits, and an operation that would wait for ever fails.
#include "base/alloc.h"
#include "comm/comm_ops.h"
#include "comm/operations.h"
#include "comm/region.h"
#include "comm/window.h"

#include <string.h>

typedef struct self_words {
    uint64_t published, released;
} self_words;

typedef struct self_window {
    char *region;
    self_words words[]; // (slots)
} self_window;

static const zr_comm_ops self_ops;
static const zr_version_ops self_versions;

zero_status zr_self_open(zero_comm **out, zero_error *error)
{
    zero_comm *comm = zr_alloc(sizeof *comm, error);
    if (!comm)
        return ZERO_ERR_MEMORY;
    *comm = (zero_comm){.ops = &self_ops,
                        .versions = &self_versions,
                        .size = 1,
                        .job = comm,
                        .backend = zr_backend_portable()};
    *out = comm;
    return ZERO_OK;
}

zero_status zr_self_split(zero_comm *job, const zr_comm_group *group, zero_comm **out,
                          zero_error *error)
{
    zero_comm *comm = zr_alloc(sizeof *comm, error);
    if (!comm)
        return ZERO_ERR_MEMORY;
    *comm = zr_comm_of_group(job, group);
    comm->ops = &self_ops;
    comm->versions = &self_versions;
    *out = comm;
    return ZERO_OK;
}

static zero_status window_create(zero_comm *comm, zr_window *window, zero_error *error)
{
    self_window *mine =
        zr_alloc(sizeof *mine + sizeof mine->words[0] * (size_t)window->slots, error);
    if (!mine)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_comm_region_create(comm, window->bytes, &mine->region, error);
    if (status != ZERO_OK) {
        zr_free(mine);
        return status;
    }
    window->mine = mine->region;
    window->impl = mine;
    return ZERO_OK;
}

static void window_destroy(zr_window *window)
{
    zr_comm_region_destroy(window->comm, window->mine, window->bytes);
    zr_free(window->impl);
}

static zero_status start(zr_handle *handle, zero_error *error) { return ZERO_OK; }

static zero_status reduce_scatter_wait(zr_handle *handle, const zr_sum_target *to,
                                       zero_error *error)
{
    const void *source = handle->window->mine + handle->offset;
    if (to->data != source || to->adds)
        zr_handle_sum(handle, to, &source, 1, handle->shard_elems);
    return ZERO_OK;
}

static zero_status all_gather_wait(zr_handle *handle, zero_error *error)
{
    if (handle->own)
        zr_handle_put(handle, handle->window->mine + handle->offset, handle->own);
    return ZERO_OK;
}

static zero_status quiesce(zr_window *window, int slot, zero_error *error) { return ZERO_OK; }

static zero_status all_reduce_small(zero_comm *comm, void *data, int64_t count, zero_dtype dtype,
                                    zr_reduction how, zero_error *error)
{
    return ZERO_OK;
}

static zero_status send_self(zero_comm *comm, const void *data, int64_t bytes, int to,
                             zero_error *error)
{
    return zr_fail(error, ZERO_ERR_INTERNAL, "one rank alone cannot send");
}

static zero_status recv(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_INTERNAL, "one rank alone cannot receive");
}

static zero_status barrier(zero_comm *comm, zero_error *error) { return ZERO_OK; }

static void abort_job(zero_comm *comm, const char *message) {}

static void destroy_self(zero_comm *comm) { zr_free(comm); }

static self_words *words_of_slot(zr_window *window, int slot)
{
    return &((self_window *)window->impl)->words[slot];
}

static zero_status publish_version(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    words_of_slot(window, slot)->published = version;
    return ZERO_OK;
}

static zero_status release_version(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    words_of_slot(window, slot)->released = version;
    return ZERO_OK;
}

static zero_status expect_version(const zr_window *window, int slot, const char *what,
                                  uint64_t found, uint64_t version, zero_error *error)
{
    if (found >= version)
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_TIMEOUT, "rank %d waits for itself: %s has %s version %llu, not %llu",
        zr_comm_job_rank(window->comm, 0), window->slot_names ? window->slot_names[slot] : "a slot",
        what, (unsigned long long)found, (unsigned long long)version);
}

static zero_status await_published(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    return expect_version(window, slot, "published", words_of_slot(window, slot)->published,
                          version, error);
}

static zero_status await_released(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    return expect_version(window, slot, "released", words_of_slot(window, slot)->released, version,
                          error);
}

static const zr_comm_ops self_ops = {
    .name = "self",
    .window_create = window_create,
    .window_destroy = window_destroy,
    .start = start,
    .reduce_scatter_wait = reduce_scatter_wait,
    .all_gather_wait = all_gather_wait,
    .quiesce = quiesce,
    .all_reduce_small = all_reduce_small,
    .send = send_self,
    .recv = recv,
    .barrier = barrier,
    .abort = abort_job,
    .destroy = destroy_self,
};

static const zr_version_ops self_versions = {
    .publish = publish_version,
    .await_published = await_published,
    .release = release_version,
    .await_released = await_released,
};
