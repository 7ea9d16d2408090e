// Reads whole extents of this rank's ranges, whichever ranks wrote them. The list of extents, in
// order, is made before the first one is read.
#include "checkpoint/states.h"

#include "base/dtype.h"
#include "base/file.h"
#include "comm/agreement.h"
#include "formats/name_index.h"
#include "memory/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *zr_states_path(const char *directory, const char *vector, zero_error *error)
{
    return zr_sprintf(error, "%s/%s.safetensors", directory, vector);
}

static_assert(ZR_EXTENT_BYTES <= ZR_DIRECT_EXTENT, "an extent is read at once");

typedef struct loading {
    zero_comm *comm;
    const char *directory;
    const zr_state_vector *vector;
    const zr_manifest_file *file;
    // (view->tensor_count) The file's tensors in the view's order.
    const zr_manifest_tensor **tensors;
    char *path;
    int fd, last;
    // The zr_direct_extents that are read, in order.
    zr_buffer extents;
    int64_t next; // the next of these
    zr_direct_reader *reader;
    const zr_extent *held; // the extent that was read last
    const char *stored;    // its bytes
    // ZR_EXTENT_BYTES for conversion where types differ, and as many for comparison.
    char *block;
    zr_states_difference *difference; // NULL to fill the ranges; otherwise they are compared
} loading;

static const char *name_of_file_tensor(const void *file, int t)
{
    return ((const zr_manifest_file *)file)->tensors[t].name;
}

static zero_status match_tensors(const loading *l, zero_error *error)
{
    const zr_weight_view *view = &l->vector->view;
    zr_named *index;
    ZERO_TRY(
        zr_name_index_create(name_of_file_tensor, l->file, l->file->tensor_count, &index, error));
    zero_status status = ZERO_OK;
    for (int t = 0; t < view->tensor_count && status == ZERO_OK; t++) {
        int place = zr_name_index_find(index, l->file->tensor_count, view->tensors[t]->name);
        const zr_manifest_tensor *found = l->tensors[t] =
            place < 0 ? NULL : &l->file->tensors[place];
        status = zr_view_check_shape(l->path, view->tensors[t], found ? found->dims : -1,
                                     found ? found->shape : NULL, error);
    }
    zr_free(index);
    if (status == ZERO_OK && l->file->tensor_count != view->tensor_count)
        status = zr_fail(error, ZERO_ERR_DATA, "\"%s\" has %d tensors, the model %d", l->path,
                         l->file->tensor_count, view->tensor_count);
    return status;
}

// Checks length and header, which no range covers. Rank 0 does it, once.
static zero_status check_length_and_header(const loading *l, zero_error *error)
{
    struct stat info;
    uint32_t found = 0;
    if (fstat(l->fd, &info))
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot look at \"%s\"", l->path);
    if (info.st_size != l->file->bytes)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has %lld bytes, its manifest says %lld",
                       l->path, (long long)info.st_size, (long long)l->file->bytes);
    for (int64_t done = 0, n; done < l->file->header_bytes && l->comm->rank == 0; done += n) {
        n = ZR_MIN(l->file->header_bytes - done, ZR_EXTENT_BYTES);
        ZERO_TRY(zr_file_pread(l->fd, l->block, (size_t)n, done, l->path, error));
        found = zr_crc32c(found, l->block, (size_t)n);
    }
    if (l->comm->rank == 0 && found != l->file->header_checksum)
        return zr_manifest_damaged(l->path, "the header", 0, l->file->header_bytes, found,
                                   l->file->header_checksum, error);
    return ZERO_OK;
}

typedef struct overlap { // elements that a range and an extent have in common
    const zr_manifest_tensor *tensor;
    const zr_extent *extent;
    const zr_weight_range *range;
} overlap;

static zero_status load_unless_held(loading *l, const overlap *o, zero_error *error)
{
    const zr_extent *extent = o->extent;
    const zr_direct_extent place = zr_manifest_extent_place(l->file, o->tensor, o->extent),
                           *listed =
                               (const zr_direct_extent *)(const void *)l->extents.data + l->next;
    uint32_t found;
    if (l->held == extent)
        return ZERO_OK;
    l->held = NULL;
    if ((size_t)l->next == l->extents.length / sizeof *listed ||
        memcmp(listed, &place, sizeof place) != 0)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "reading \"%s\": the ranges of tensor \"%s\" are not those of its outline",
                       l->path, o->tensor->name);
    ZERO_TRY(zr_direct_reader_next(l->reader, &l->stored, &found, error));
    l->next++;
    if (found != extent->checksum)
        return zr_manifest_damaged(l->path, o->tensor->name, place.offset,
                                   zr_direct_extent_bytes(&place), found, extent->checksum, error);
    l->held = extent;
    return ZERO_OK;
}

// Copies `count` elements of the held extent, from number `from` on, to `to`, in the type of the
// range.
static void copy_held_elements(const loading *l, zero_dtype dtype, int64_t from, int64_t count,
                               void *to)
{
    const char *stored = l->stored + from * (int64_t)zero_dtype_bytes(l->file->dtype);
    float *wide = (float *)(void *)l->block;
    if (dtype == l->file->dtype) {
        memcpy(to, stored, (size_t)count * zero_dtype_bytes(dtype));
        return;
    }
    zr_widen(l->file->dtype, stored, count, wide);
    zr_narrow(dtype, wide, count, to);
}

// Compares the elements that copy_held_elements would copy with those that are there.
static void compare_held_elements(const loading *l, const zr_weight_range *range, int64_t from,
                                  int64_t count, const char *is)
{
    size_t size = zero_dtype_bytes(range->dtype);
    char *saved = l->block + ZR_EXTENT_BYTES;
    zr_states_difference *d = l->difference;
    copy_held_elements(l, range->dtype, from, count, saved);
    if (!memcmp(is, saved, (size_t)count * size))
        return;
    if (!d->elements) {
        snprintf(d->vector, sizeof d->vector, "%s", l->vector->name);
        snprintf(d->tensor, sizeof d->tensor, "%s", range->tensor->name);
    }
    for (int64_t i = 0; i < count; i++) {
        float a, b;
        if (!memcmp(is + i * (int64_t)size, saved + i * (int64_t)size, size))
            continue;
        zr_widen(range->dtype, is + i * (int64_t)size, 1, &a);
        zr_widen(range->dtype, saved + i * (int64_t)size, 1, &b);
        d->largest = fmax(d->largest, fabs((double)a - (double)b));
        d->elements++;
    }
}

typedef zero_status (*overlap_use)(loading *l, const overlap *o, zero_error *error);

// Calls `use` for each extent that holds elements of the range, in order.
static zero_status for_extents_of_range(loading *l, const zr_weight_range *range, overlap_use use,
                                        zero_error *error)
{
    l->last = zr_view_find(&l->vector->view, range->tensor, l->last);
    const zr_manifest_tensor *tensor = l->tensors[l->last];
    int64_t end = zr_rectangle_end(&range->at);
    for (int e = zr_manifest_extent_from(tensor, range->at.first);
         e < tensor->extent_count && tensor->extents[e].at.first < end; e++) {
        const zr_extent *extent = &tensor->extents[e];
        if (zr_rectangles_overlap(&extent->at, &range->at))
            ZERO_TRY(use(l, &(overlap){tensor, extent, range}, error));
    }
    return ZERO_OK;
}

static zero_status list_extent(loading *l, const overlap *o, zero_error *error)
{
    const zr_direct_extent place = zr_manifest_extent_place(l->file, o->tensor, o->extent);
    if (l->held != o->extent)
        zr_buffer_append(&l->extents, &place, sizeof place);
    l->held = o->extent;
    return ZERO_OK;
}

static zero_status load_or_compare_extent(loading *l, const overlap *o, zero_error *error)
{
    const zr_weight_range *range = o->range;
    zr_common c = {0};
    ZERO_TRY(load_unless_held(l, o, error));
    while (zr_rectangles_next_common(&o->extent->at, &range->at, &c)) {
        char *data = (char *)range->data + c.in_b * (int64_t)zero_dtype_bytes(range->dtype);
        if (l->difference)
            compare_held_elements(l, range, c.in_a, c.count, data);
        else
            copy_held_elements(l, range->dtype, c.in_a, c.count, data);
    }
    zr_comm_progress(l->comm, l->comm->step);
    return ZERO_OK;
}

static zero_status list_range(void *user, const zr_weight_range *range, zero_error *error)
{
    return for_extents_of_range(user, range, list_extent, error);
}
static zero_status read_range(void *user, const zr_weight_range *range, zero_error *error)
{
    return for_extents_of_range(user, range, load_or_compare_extent, error);
}

static zero_status list_extents(loading *l, zero_error *error)
{
    const zr_weight_view *view = &l->vector->view;
    for (int part = 0; part < view->parts; part++)
        ZERO_TRY(view->outline(view->user, part, list_range, l, error));
    l->held = NULL;
    return l->extents.failed
               ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the extents of \"%s\"", l->path)
               : ZERO_OK;
}

static zero_status read_extents(loading *l, zero_error *error)
{
    ZERO_TRY(list_extents(l, error));
    ZERO_TRY(zr_direct_reader_create(
        l->path, (const zr_direct_extent *)(const void *)l->extents.data,
        (int64_t)(l->extents.length / sizeof(zr_direct_extent)), &l->reader, error));
    zero_status status = zr_view_each(&l->vector->view, !l->difference, read_range, l, error);
    zr_direct_reader_destroy(l->reader);
    return status;
}

static zero_status read_vector(loading *l, zero_error *error)
{
    ZERO_TRY(match_tensors(l, error));
    ZERO_TRY(zr_file_open(l->path, &l->fd, error));
    zero_status status = check_length_and_header(l, error);
    close(l->fd);
    return status == ZERO_OK ? read_extents(l, error) : status;
}

static zero_status load_state_vector(zero_comm *comm, const char *directory,
                                     const zr_manifest *manifest, const zr_state_vector *vector,
                                     zr_states_difference *difference, zero_error *error)
{
    char name[ZERO_MESSAGE_BYTES];
    snprintf(name, sizeof name, "%s.safetensors", vector->name);
    loading l = {.comm = comm,
                 .directory = directory,
                 .vector = vector,
                 .file = zr_manifest_find(manifest, name),
                 .path = zr_states_path(directory, vector->name, error),
                 .tensors =
                     zr_alloc((size_t)(vector->view.tensor_count + 1) * sizeof *l.tensors, error),
                 .block = zr_alloc((size_t)(2 * ZR_EXTENT_BYTES), error),
                 .difference = difference};
    zero_status status = l.path && l.tensors && l.block ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && !l.file)
        status =
            zr_fail(error, ZERO_ERR_DATA,
                    "the checkpoint \"%s\" has no %s, which this training keeps: it was made %s",
                    directory, vector->name,
                    strcmp(vector->name, "average") ? "with another optimizer or precision"
                                                    : "without one (--ema)");
    if (status == ZERO_OK)
        status = read_vector(&l, error);
    zr_buffer_free(&l.extents);
    zr_free(l.tensors);
    zr_free(l.block);
    zr_free(l.path);
    return status;
}

zero_status zr_states_load(zero_comm *comm, const char *directory, const zr_manifest *manifest,
                           const zr_state_vector *vectors, int count, zero_error *error)
{
    for (int v = 0; v < count; v++)
        ZERO_TRY(zr_comm_agree(
            comm, load_state_vector(comm, directory, manifest, &vectors[v], NULL, error), error));
    return ZERO_OK;
}

// Shares the sums, and the first difference's name, from the lowest rank that has found one.
static zero_status share_difference(zero_comm *comm, zr_states_difference *d, zero_error *error)
{
    int64_t first = d->elements ? comm->rank : comm->size;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &first, 1, ZERO_I64, ZR_MIN, error));
    if (first == comm->size)
        return ZERO_OK;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &d->elements, 1, ZERO_I64, ZR_SUM, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &d->largest, 1, ZERO_F64, ZR_MAX, error));
    ZERO_TRY(zr_comm_broadcast(comm, d->vector, sizeof d->vector, (int)first, error));
    return zr_comm_broadcast(comm, d->tensor, sizeof d->tensor, (int)first, error);
}

zero_status zr_states_compare(zero_comm *comm, const char *directory, const zr_manifest *manifest,
                              const zr_state_vector *vectors, int count, zr_states_difference *out,
                              zero_error *error)
{
    *out = (zr_states_difference){0};
    for (int v = 0; v < count; v++)
        ZERO_TRY(zr_comm_agree(
            comm, load_state_vector(comm, directory, manifest, &vectors[v], out, error), error));
    return share_difference(comm, out, error);
}
