// Saving and loading a model's weights, each rank its own ranges, with one answer for all ranks.
//
// Every phase ends in zr_comm_agree: the first rank that failed tells the others its status and message, so that all return alike
// and nobody waits for a rank that has left. The file has its name only after every rank's bytes are on the disk.
#define _GNU_SOURCE
#include "checkpoint/weights.h"
#include "base/dtype.h"
#include "base/file.h"
#include "comm/agree.h"
#include "model/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((int64_t)1 << 22) // elements moved between two signs of life
#define BLOCK ((int64_t)1 << 12) // elements converted at a time
#define CHUNKS_UNSYNCED 4        // written before they are brought to the disk, so that the last fsync is short

zero_status zr_view_visit(const zr_weight_view *view, bool changed, zr_range_use use, void *user, zero_error *error)
{
    for (int part = 0; part < view->parts; part++)
        ZERO_TRY(view->visit(view->user, part, changed, use, user, error));
    return ZERO_OK;
}

typedef struct saving {
    zero_comm *comm;
    const char *path;
    const zr_weight_view *view;
    zr_st_layout layout;
    zr_durable file; // rank 0
    int fd;          // the other ranks'
    int unsynced;    // chunks
    int last;        // tensor that was written to
} saving;

static zero_status prepare(saving *save, const char *prefix, zero_error *error)
{
    const zr_weight_view *view = save->view;
    zr_st_entry *entries = zr_alloc((size_t)view->tensor_count * sizeof *entries, error);
    if (!entries)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < view->tensor_count; i++) {
        const zero_tensor_desc *tensor = view->tensors[i];
        entries[i] =
            (zr_st_entry){.name = tensor->name, .dtype = ZERO_F32, .dims = tensor->dims, .shape = tensor->shape};
    }
    zero_status status = zr_st_layout_create(entries, view->tensor_count, prefix, &save->layout, error);
    zr_free(entries);
    return status;
}

// The ranks' ranges together must be the model: a file with holes would look whole.
static zero_status check_coverage(const saving *save, zero_error *error)
{
    int64_t held = save->view->elements, needed = 0;
    for (int i = 0; i < save->view->tensor_count; i++)
        needed += zr_tensor_desc_elements(save->view->tensors[i]);
    ZERO_TRY(zr_comm_all_reduce_small(save->comm, &held, 1, ZERO_I64, ZR_SUM, error));
    if (held != needed)
        return zr_fail(error, ZERO_ERR_INTERNAL, "writing \"%s\": the ranks hold %lld elements of a model of %lld",
                       save->path, (long long)held, (long long)needed);
    return ZERO_OK;
}

static zero_status create_file(saving *save, zero_error *error)
{
    ZERO_TRY(zr_durable_open(save->path, &save->file, error));
    ZERO_TRY(zr_file_reserve(save->file.fd, save->layout.total, save->path, error));
    return zr_file_pwrite(save->file.fd, save->layout.header.data, save->layout.header.length, 0, save->path, error);
}

// Rank 0 creates the file, the others open it by the name that rank 0 tells them.
static zero_status open_everywhere(saving *save, zero_error *error)
{
    char temporary[PATH_MAX] = {0};
    zero_status status = save->comm->rank == 0 ? create_file(save, error) : ZERO_OK;
    ZERO_TRY(zr_comm_agree(save->comm, status, error));
    if (save->comm->rank == 0)
        strncpy(temporary, save->file.temporary, sizeof temporary - 1); // it was opened: it fits
    ZERO_TRY(zr_comm_broadcast(save->comm, temporary, sizeof temporary, 0, error));
    if (save->comm->rank != 0) {
        save->fd = open(temporary, O_WRONLY | O_CLOEXEC);
        if (save->fd < 0)
            status =
                zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot open \"%s\", which rank 0 has created", temporary);
    }
    return zr_comm_agree(save->comm, status, error);
}

// Where a tensor begins in the file; ranges are of the view's own tensors.
static int64_t tensor_begin(saving *save, const zero_tensor_desc *tensor)
{
    const zr_weight_view *view = save->view;
    int i = 0;
    if (view->tensors[save->last] == tensor) // ranges of a tensor follow each other
        return save->layout.begin[save->last];
    while (i < view->tensor_count && view->tensors[i] != tensor)
        i++;
    assert(i < view->tensor_count);
    save->last = i;
    return save->layout.begin[i];
}

static char *element_of(const zr_weight_range *range, int64_t element)
{
    return (char *)range->data + element * (int64_t)zero_dtype_bytes(range->dtype);
}

// Elements [first, first+count) of the range to byte `at` of the file.
static zero_status write_elements(const saving *save, int fd, const zr_weight_range *range, int64_t first, int64_t count, int64_t at, zero_error *error)
{
    if (range->dtype == ZERO_F32)
        return zr_file_pwrite(fd, element_of(range, first), (size_t)count * sizeof(float), at, save->path, error);
    for (int64_t done = 0, n; done < count; done += n) {
        float block[BLOCK];
        n = ZR_MIN(BLOCK, count - done);
        zr_widen(range->dtype, element_of(range, first + done), n, block);
        ZERO_TRY(zr_file_pwrite(fd, block, (size_t)n * sizeof *block, at + done * (int64_t)sizeof *block, save->path, error));
    }
    return ZERO_OK;
}

static zero_status write_range(void *user, const zr_weight_range *range, zero_error *error)
{
    saving *save = user;
    int fd = save->comm->rank == 0 ? save->file.fd : save->fd;
    assert(range->first >= 0 && range->count >= 0 && range->first <= zr_tensor_desc_elements(range->tensor) - range->count);
    int64_t begin = tensor_begin(save, range->tensor) + range->first * (int64_t)sizeof(float);
    for (int64_t done = 0, step; done < range->count; done += step) {
        step = ZR_MIN(range->count - done, CHUNK);
        int64_t at = begin + done * (int64_t)sizeof(float);
        ZERO_TRY(write_elements(save, fd, range, done, step, at, error));
        save->unsynced += step == CHUNK;
        if (save->unsynced == CHUNKS_UNSYNCED && fdatasync(fd))
            return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot bring \"%s\" to the disk", save->path);
        save->unsynced %= CHUNKS_UNSYNCED;
        zr_comm_progress(save->comm, save->comm->step);
    }
    return ZERO_OK;
}

static zero_status write_ranges(saving *save, zero_error *error)
{
    ZERO_TRY(zr_view_visit(save->view, false, write_range, save, error));
    if (fsync(save->comm->rank == 0 ? save->file.fd : save->fd))
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot bring \"%s\" to the disk", save->path);
    return ZERO_OK;
}

zero_status zr_weights_save(zero_comm *comm, const char *path, const char *prefix, const zr_weight_view *view,
                            zero_error *error)
{
    zero_error local = {0};
    saving save = {.comm = comm, .path = path, .view = view, .file = {.fd = -1}, .fd = -1};
    if (!error)
        error = &local;
    zero_status status = zr_comm_agree(comm, prepare(&save, prefix, error), error);
    if (status == ZERO_OK)
        status = check_coverage(&save, error);
    if (status == ZERO_OK)
        status = open_everywhere(&save, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(comm, write_ranges(&save, error), error);
    if (status == ZERO_OK)
        status = zr_comm_agree(comm, comm->rank == 0 ? zr_durable_commit(&save.file, error) : ZERO_OK, error);
    zr_durable_discard(&save.file); // after a commit there is nothing left of it
    if (save.fd >= 0)
        close(save.fd);
    zr_st_layout_free(&save.layout);
    return status;
}

// "50257 x 768"; "scalar" where there are no dimensions.
static void format_shape(const int64_t *shape, int dims, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, dims ? "" : "scalar");
    for (int i = 0; i < dims && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, i ? " x %lld" : "%lld", (long long)shape[i]);
}

static zero_status check_tensor(const zr_st_set *set, const char *directory, const zero_tensor_desc *tensor,
                                zero_error *error)
{
    char found_shape[192], expected_shape[96];
    const zr_st_tensor *found = zr_st_find(set, tensor->name);
    format_shape(tensor->shape, tensor->dims, expected_shape, sizeof expected_shape);
    if (!found)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has no tensor \"%s\" (%s), which the model needs", directory,
                       tensor->name, expected_shape);
    if (found->dims == tensor->dims &&
        !memcmp(found->shape, tensor->shape, (size_t)tensor->dims * sizeof *tensor->shape))
        return ZERO_OK;
    format_shape(found->shape, found->dims, found_shape, sizeof found_shape);
    return zr_fail(error, ZERO_ERR_DATA, "%s: tensor \"%s\" is %s, where the model has %s", set->paths[found->file],
                   found->name, found_shape, expected_shape);
}

static zero_status read_elements(const zr_st_set *set, const zr_st_tensor *tensor, const zr_weight_range *range, int64_t first, int64_t count, zero_error *error)
{
    if (range->dtype == ZERO_F32)
        return zr_st_read(set, tensor, range->first + first, count, (float *)range->data + first, error);
    for (int64_t done = 0, n; done < count; done += n) {
        float block[BLOCK];
        n = ZR_MIN(BLOCK, count - done);
        ZERO_TRY(zr_st_read(set, tensor, range->first + first + done, n, block, error));
        zr_narrow(range->dtype, block, n, element_of(range, first + done));
    }
    return ZERO_OK;
}

typedef struct loading {
    zero_comm *comm;
    const zr_st_set *set;
} loading;

static zero_status read_range(void *user, const zr_weight_range *range, zero_error *error)
{
    const loading *load = user;
    const zr_st_tensor *tensor = zr_st_find(load->set, range->tensor->name);
    for (int64_t done = 0, step; done < range->count; done += step) {
        step = ZR_MIN(range->count - done, CHUNK);
        ZERO_TRY(read_elements(load->set, tensor, range, done, step, error));
        zr_comm_progress(load->comm, load->comm->step);
    }
    return ZERO_OK;
}

// Every rank checks the whole model, so that all find the same fault; it reads only its own ranges.
static zero_status load_ranges(zero_comm *comm, const char *directory, const zr_weight_view *view, zero_error *error)
{
    zr_st_set set;
    zero_status status = ZERO_OK;
    ZERO_TRY(zr_st_open(directory, &set, error));
    for (int i = 0; i < view->tensor_count && status == ZERO_OK; i++)
        status = check_tensor(&set, directory, view->tensors[i], error);
    loading load = {comm, &set};
    if (status == ZERO_OK)
        status = zr_view_visit(view, true, read_range, &load, error);
    zr_st_close(&set);
    return status;
}

zero_status zr_weights_load(zero_comm *comm, const char *directory, const zr_weight_view *view, zero_error *error)
{
    zero_error local = {0};
    if (!error)
        error = &local;
    return zr_comm_agree(comm, load_ranges(comm, directory, view, error), error);
}
