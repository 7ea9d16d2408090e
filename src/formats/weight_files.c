// Saves and loads a model's weights: each rank its own ranges, with the same status on all ranks.
//
// Every phase ends with zr_comm_agree: all ranks get status and message of the first rank that
// failed, so that all return the same and no rank waits for one that has left. The file gets its
// name only after every rank's bytes are on the disk.
#define _GNU_SOURCE
#include "formats/weight_files.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/random.h"
#include "comm/agreement.h"
#include "memory/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((int64_t)1 << 22) // elements read between two signs of life
#define BLOCK ((int64_t)1 << 12) // elements converted at a time

typedef struct saving {
    zero_comm *comm;
    const char *path;
    zr_view_file view;
    zr_durable file;          // rank 0 only
    char temporary[PATH_MAX]; // the file's name, on every rank
    int fd;                   // of the other ranks
    zr_direct *direct;        // writes the file
    char *block;              // ZR_VIEW_BLOCK
} saving;

static zero_status prepare_saving(saving *save, const char *prefix, const zr_weight_view *view,
                                  zero_error *error)
{
    save->block = zr_alloc((size_t)ZR_VIEW_BLOCK, error);
    return save->block ? zr_view_file_create(view, ZERO_F32, prefix, &save->view, error)
                       : ZERO_ERR_MEMORY;
}

static zero_status create_weights_file(saving *save, zero_error *error)
{
    ZERO_TRY(zr_durable_open(save->path, &save->file, error));
    return zr_view_file_begin(&save->view, save->file.fd, save->path, error);
}

static int own_descriptor(const saving *save)
{
    return save->comm->rank == 0 ? save->file.fd : save->fd;
}

static zero_status open_here(saving *save, zero_error *error)
{
    if (save->comm->rank > 0 && (save->fd = open(save->temporary, O_WRONLY | O_CLOEXEC)) < 0)
        return zr_fail_errno(error, ZERO_ERR_IO, errno,
                             "cannot open \"%s\", which rank 0 has created", save->temporary);
    return zr_direct_create(&(zr_direct_file){own_descriptor(save), save->temporary}, 1,
                            &save->direct, error);
}

// Rank 0 creates the file; the others open it by the name that rank 0 sends them.
static zero_status open_everywhere(saving *save, zero_error *error)
{
    zero_comm *comm = save->comm;
    ZERO_TRY(
        zr_comm_agree(comm, comm->rank == 0 ? create_weights_file(save, error) : ZERO_OK, error));
    // The name fits, because the file was opened by it.
    if (comm->rank == 0)
        strncpy(save->temporary, save->file.temporary, sizeof save->temporary - 1);
    ZERO_TRY(zr_comm_broadcast(comm, save->temporary, sizeof save->temporary, 0, error));
    return zr_comm_agree(comm, open_here(save, error), error);
}

static zero_status write_saved_extent(void *user, const zr_view_extent *extent, zero_error *error)
{
    const saving *save = user;
    uint32_t unused;
    ZERO_TRY(zr_direct_write_extent(save->direct, 0, &extent->place, extent->data, &unused, error));
    zr_comm_progress(save->comm, save->comm->step);
    return ZERO_OK;
}

static zero_status write_range(void *user, const zr_weight_range *range, zero_error *error)
{
    saving *save = user;
    return zr_view_file_write(&save->view, range, save->block, write_saved_extent, save, error);
}

static zero_status write_ranges(saving *save, zero_error *error)
{
    ZERO_TRY(zr_view_each(save->view.view, false, write_range, save, error));
    return zr_direct_sync(save->direct, error);
}

zero_status zr_weights_save(zero_comm *comm, const char *path, const char *prefix,
                            const zr_weight_view *view, zero_error *error)
{
    zero_error local = {0};
    saving save = {.comm = comm, .path = path, .file = {.fd = -1}, .fd = -1};
    if (!error)
        error = &local;
    zero_status status = zr_comm_agree(comm, prepare_saving(&save, prefix, view, error), error);
    if (status == ZERO_OK)
        status = zr_view_check_coverage(comm, view, "weights", path, error);
    if (status == ZERO_OK)
        status = open_everywhere(&save, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(comm, write_ranges(&save, error), error);
    zr_direct_destroy(save.direct);
    if (status == ZERO_OK)
        status = zr_comm_agree(
            comm, comm->rank == 0 ? zr_durable_commit(&save.file, error) : ZERO_OK, error);
    zr_durable_discard(&save.file); // does nothing after a commit
    if (save.fd >= 0)
        close(save.fd);
    zr_view_file_free(&save.view);
    zr_free(save.block);
    return status;
}

static zero_status check_tensor(const zr_st_set *set, const char *directory,
                                const zero_tensor_desc *tensor, zero_error *error)
{
    const zr_st_tensor *found = zr_st_find(set, tensor->name);
    return zr_view_check_shape(found ? set->paths[found->file] : directory, tensor,
                               found ? found->dims : -1, found ? found->shape : NULL, error);
}

static char *address_of_element(const zr_weight_range *range, int64_t element)
{
    return (char *)range->data + element * (int64_t)zero_dtype_bytes(range->dtype);
}

// Reads elements [first, first+count) of the tensor to element `done` of the range and on.
static zero_status read_stretch(const zr_st_set *set, const zr_st_tensor *tensor, int64_t first,
                                int64_t count, const zr_weight_range *range, int64_t done,
                                zero_error *error)
{
    if (range->dtype == ZERO_F32)
        return zr_st_read(set, tensor, first, count, (float *)range->data + done, error);
    for (int64_t n; count > 0; first += n, done += n, count -= n) {
        float block[BLOCK];
        n = ZR_MIN(BLOCK, count);
        ZERO_TRY(zr_st_read(set, tensor, first, n, block, error));
        zr_narrow(range->dtype, block, n, address_of_element(range, done));
    }
    return ZERO_OK;
}

static zero_status read_rows(const zr_st_set *set, const zr_st_tensor *tensor,
                             const zr_rectangle *rows, const zr_weight_range *range, int64_t done,
                             zero_error *error)
{
    for (int64_t row = 0; row < rows->rows; row++)
        ZERO_TRY(read_stretch(set, tensor, rows->first + row * rows->stride, rows->width, range,
                              done + row * rows->width, error));
    return ZERO_OK;
}

typedef struct loading {
    zero_comm *comm;
    const zr_st_set *set;
    zr_codes *codes; // NULL if the view has no tensors of bytes
    const char *drawn;
} loading;

static bool keeps_values(const loading *load, const zero_tensor_desc *tensor)
{
    return load->drawn && !strcmp(tensor->name, load->drawn) &&
           !zr_st_find(load->set, tensor->name);
}

static zero_status read_bytes(const loading *load, const zr_weight_range *range,
                              const zr_rectangle *rows, int64_t done, zero_error *error)
{
    for (int64_t row = 0; row < rows->rows; row++)
        ZERO_TRY(zr_codes_read(load->codes, range->tensor, rows->first + row * rows->stride,
                               rows->width, (char *)range->data + done + row * rows->width, error));
    return ZERO_OK;
}

static zero_status read_range(void *user, const zr_weight_range *range, zero_error *error)
{
    const loading *load = user;
    const zr_st_tensor *tensor = zr_st_find(load->set, range->tensor->name);
    if (keeps_values(load, range->tensor))
        return ZERO_OK;
    for (int64_t done = 0, step; done < zr_rectangle_elements(&range->at); done += step) {
        zr_rectangle rows;
        step = zr_rectangle_take(&range->at, done, CHUNK, &rows);
        ZERO_TRY(range->dtype == ZERO_U8 ? read_bytes(load, range, &rows, done, error)
                                         : read_rows(load->set, tensor, &rows, range, done, error));
        zr_comm_progress(load->comm, load->comm->step);
    }
    return ZERO_OK;
}

#define LOOKED_AT ((int64_t)1 << 12) // bytes of a block
enum { BEAT = 64 };                  // blocks between two signs of life

static zero_status read_file_sizes(const zr_st_set *set, int64_t *sizes, int64_t *blocks,
                                   zero_error *error)
{
    *blocks = 0;
    for (int f = 0; f < set->file_count; f++) {
        struct stat info;
        if (fstat(set->fds[f], &info))
            return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot read the size of \"%s\"",
                                 set->paths[f]);
        sizes[f] = (int64_t)info.st_size;
        *blocks += (sizes[f] + LOOKED_AT - 1) / LOOKED_AT;
    }
    return ZERO_OK;
}

// Hashes the blocks of this file that are drawn among the blocks of all files; it begins at block
// `first` of these.
static zero_status hash_places(zero_comm *comm, const zr_st_set *set, int f, int64_t size,
                               int64_t first, int64_t all, uint64_t seed, uint64_t *hash,
                               zero_error *error)
{
    char block[LOOKED_AT];
    *hash = (uint64_t)size;
    for (int64_t i = 0; i < ZR_MIN(all, (int64_t)ZR_SAMPLED_BLOCKS); i++) {
        if (i % BEAT == 0) // a remote disk may take long
            zr_comm_progress(comm, comm->step);
        int64_t at = ((int64_t)zr_permute(seed, (uint64_t)i, (uint64_t)all) - first) * LOOKED_AT;
        if (at < 0 || at >= size)
            continue;
        size_t bytes = (size_t)ZR_MIN(LOOKED_AT, size - at);
        ZERO_TRY(zr_file_pread(set->fds[f], block, bytes, at, set->paths[f], error));
        *hash = zr_hash_bytes(block, bytes, *hash);
    }
    return ZERO_OK;
}

static zero_status look_at_files(zero_comm *comm, const zr_st_set *set, uint64_t seed,
                                 zr_fingerprints *list, zero_error *error)
{
    int64_t first = 0, all;
    int64_t *sizes = zr_alloc((size_t)set->file_count * sizeof *sizes, error);
    zero_status status = sizes ? read_file_sizes(set, sizes, &all, error) : ZERO_ERR_MEMORY;
    for (int f = 0; f < set->file_count && status == ZERO_OK; f++) {
        char value[64];
        uint64_t hash;
        status = hash_places(comm, set, f, sizes[f], first, all, seed, &hash, error);
        snprintf(value, sizeof value, "%lld bytes, hash %016llx", (long long)sizes[f],
                 (unsigned long long)hash);
        zr_fingerprints_add(list, "weights", set->paths[f], value, hash);
        first += (sizes[f] + LOOKED_AT - 1) / LOOKED_AT;
    }
    zr_free(sizes);
    return status;
}

zero_status zr_weights_hash(zero_comm *comm, const char *directory, uint64_t *out,
                            zero_error *error)
{
    zr_fingerprints list = {0};
    zr_st_set set;
    *out = 0;
    ZERO_TRY(zr_st_open(directory, &set, error));
    zero_status status = look_at_files(comm, &set, 0, &list, error);
    for (int f = 0; f < list.count && status == ZERO_OK; f++)
        *out = zr_hash_bytes(&list.at[f].hash, sizeof list.at[f].hash, *out);
    if (status == ZERO_OK && list.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the hash of \"%s\"", directory);
    zr_free(list.at);
    zr_st_close(&set);
    return status;
}

// Each rank reads its ranges from the files that it sees. Checks that all ranks see the same files,
// by their sizes and 4,096 of their blocks.
static zero_status check_same_files(zero_comm *comm, const zr_st_set *set, uint64_t seed,
                                    zero_error *error)
{
    zr_fingerprints list = {0};
    zero_status status = zr_comm_agree(
        comm, comm->size > 1 ? look_at_files(comm, set, seed, &list, error) : ZERO_OK, error);
    if (status == ZERO_OK)
        return zr_comm_compare_fingerprints(comm, &list, error);
    zr_free(list.at);
    return status;
}

// Every rank checks the whole model, so that all ranks find the same error, but reads only its own
// ranges.
static zero_status check_and_load(const loading *load, const char *directory,
                                  const zr_weight_view *view, const zr_weights_options *how,
                                  bool head_differs, zero_error *error)
{
    for (int i = 0; i < view->tensor_count; i++)
        ZERO_TRY(load->codes && view->in_codes[i]
                     ? zr_codes_check(load->codes, directory, view->tensors[i], error)
                 : keeps_values(load, view->tensors[i])
                     ? ZERO_OK
                     : check_tensor(load->set, directory, view->tensors[i], error));
    ZERO_TRY(zr_weights_check_unused(load->set, view, how, load->codes, head_differs, error));
    return zr_view_each(view, true, read_range, (void *)load, error);
}

static zero_status load_ranges(zero_comm *comm, const char *directory, const zr_st_set *set,
                               const zr_weight_view *view, const zr_weights_options *how,
                               bool head_differs, zero_error *error)
{
    loading load = {comm, set, NULL, how->drawn};
    if (how->format)
        ZERO_TRY(zr_codes_open(set, how->format, &load.codes, error));
    zero_status status = check_and_load(&load, directory, view, how, head_differs, error);
    zr_codes_close(load.codes);
    return status;
}

zero_status zr_weights_load(zero_comm *comm, const char *directory, const zr_weight_view *view,
                            const zr_weights_options *how, zero_error *error)
{
    zero_error local = {0};
    zr_st_set set;
    bool head_differs;
    if (!error)
        error = &local;
    zero_status opened = zr_st_open(directory, &set, error), status = opened;
    if (status == ZERO_OK && how->prefix)
        status = zr_st_strip_prefix(&set, how->prefix, error);
    status = zr_comm_agree(comm, status, error);
    if (status == ZERO_OK)
        status = check_same_files(comm, &set, how->seed, error);
    if (status == ZERO_OK)
        status = zr_weights_compare_head(comm, &set, view, how, &head_differs, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(
            comm, load_ranges(comm, directory, &set, view, how, head_differs, error), error);
    if (opened == ZERO_OK)
        zr_st_close(&set);
    return status;
}
