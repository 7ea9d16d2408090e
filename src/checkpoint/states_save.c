// Saves the vectors of a training. Every phase in which one rank can fail ends with zr_comm_agree.
// The directory gets its name only after every rank's bytes are on the disk.
#include "checkpoint/states.h"

#include "base/file.h"
#include "comm/agreement.h"
#include "memory/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(ZR_VIEW_EXTENT <= ZR_EXTENT_BYTES, "what is written at once is an extent");

// A rank's report to rank 0 of an extent that it wrote.
typedef struct written {
    int32_t vector, tensor;
    zr_extent extent;
} written;

struct zr_states_saving {
    zero_comm *comm;
    char *directory, *temporary;
    const zr_state_vector *vectors;
    json_t *state;
    int count, vector;     // vector: the one being written
    zr_view_file *views;   // (count)
    zr_direct_file *files; // (count), fd is -1 if not open
    zr_direct *direct;     // writes all of them
    char *block;           // ZR_VIEW_BLOCK
    zr_buffer extents;     // array of `written`
    _Atomic int64_t moved; // extents written so far
    atomic_bool cancelled;
    void (*beat)(void *user); // called after every extent; may be NULL
    void *beat_user;
};
typedef zr_states_saving saving;

static zero_status allocate_saving(saving *s, const char *directory, zero_error *error)
{
    s->directory = zr_strdup(directory, error);
    s->temporary = zr_directory_hidden(directory, error);
    s->views = zr_alloc((size_t)s->count * sizeof *s->views, error);
    s->files = zr_alloc((size_t)s->count * sizeof *s->files, error);
    for (int v = 0; v < s->count && s->files; v++)
        s->files[v].fd = -1;
    s->block = zr_alloc((size_t)ZR_VIEW_BLOCK, error);
    if (!s->directory || !s->temporary || !s->views || !s->files || !s->block)
        return ZERO_ERR_MEMORY;
    for (int v = 0; v < s->count; v++)
        ZERO_TRY(
            zr_view_file_create(&s->vectors[v].view, s->vectors[v].dtype, "", &s->views[v], error));
    return ZERO_OK;
}

static zero_status check_coverage(const saving *s, zero_error *error)
{
    for (int v = 0; v < s->count; v++)
        ZERO_TRY(zr_view_check_coverage(s->comm, &s->vectors[v].view, s->vectors[v].name,
                                        s->directory, error));
    return ZERO_OK;
}

static zero_status open_file(const saving *s, int v, zero_error *error)
{
    bool first = s->comm->rank == 0;
    zr_direct_file *file = &s->files[v];
    file->path = zr_states_path(s->temporary, s->vectors[v].name, error);
    if (!file->path)
        return ZERO_ERR_MEMORY;
    assert(zr_is_checkpoint_file(strrchr(file->path, '/') + 1));
    file->fd = open(file->path, O_WRONLY | O_CLOEXEC | (first ? O_CREAT | O_EXCL : 0), 0666);
    if (file->fd < 0)
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot %s \"%s\"",
                             first ? "create" : "open", file->path);
    return first ? zr_view_file_begin(&s->views[v], file->fd, file->path, error) : ZERO_OK;
}

static zero_status open_files(saving *s, zero_error *error)
{
    for (int v = 0; v < s->count; v++)
        ZERO_TRY(open_file(s, v, error));
    return zr_direct_create(s->files, s->count, &s->direct, error);
}

// Only an earlier checkpoint may be replaced; anything else at that path is refused.
static zero_status check_place(const saving *s, zero_error *error)
{
    char others[1024];
    if (!zr_path_exists(s->directory))
        return ZERO_OK;
    if (!zr_path_is_directory(s->directory))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "cannot save in \"%s\": it exists, and is not a checkpoint", s->directory);
    if (zr_directory_others(s->directory, zr_is_checkpoint_file, others, sizeof others))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "cannot save in \"%s\": it holds files that no checkpoint has (%s), and "
                       "would be replaced with them",
                       s->directory, others);
    return ZERO_OK;
}

static zero_status create_files(saving *s, zero_error *error)
{
    ZERO_TRY(check_place(s, error));
    // A killed save may have left a temporary directory.
    ZERO_TRY(zr_directory_remove(s->temporary, error));
    ZERO_TRY(zr_directory_create(s->temporary, error));
    return open_files(s, error);
}

static zero_status write_extent_of_state(void *user, const zr_view_extent *extent,
                                         zero_error *error)
{
    saving *s = user;
    if (s->cancelled)
        return zr_fail(error, ZERO_ERR_CANCELLED, "the save of \"%s\" was given up", s->directory);
    written one = {s->vector, extent->tensor, {.at = extent->at}};
    ZERO_TRY(zr_direct_write_extent(s->direct, s->vector, &extent->place, extent->data,
                                    &one.extent.checksum, error));
    zr_buffer_append(&s->extents, &one, sizeof one);
    s->moved++;
    if (s->beat)
        s->beat(s->beat_user);
    return ZERO_OK;
}

static zero_status write_range(void *user, const zr_weight_range *range, zero_error *error)
{
    saving *s = user;
    return zr_view_file_write(&s->views[s->vector], range, s->block, write_extent_of_state, s,
                              error);
}

zero_status zr_states_save_part(saving *s, int part, zero_error *error)
{
    for (s->vector = 0; s->vector < s->count; s->vector++) {
        const zr_weight_view *view = &s->vectors[s->vector].view;
        ZERO_TRY(view->each(view->user, part, false, write_range, s, error));
    }
    return ZERO_OK;
}

zero_status zr_states_save_sync(saving *s, zero_error *error)
{
    if (s->extents.failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for the checksums of \"%s\"",
                       s->directory);
    return zr_direct_sync(s->direct, error);
}

int64_t zr_states_save_moved(const saving *s) { return s->moved; }

void zr_states_save_cancel(saving *s) { s->cancelled = true; }

// Collects every rank's extents on rank 0.
static zero_status gather_extents(saving *s, zr_buffer *all, zero_error *error)
{
    for (int r = 0; r < s->comm->size; r++) {
        int64_t bytes = r == s->comm->rank ? (int64_t)s->extents.length : 0;
        ZERO_TRY(zr_comm_broadcast(s->comm, &bytes, sizeof bytes, r, error));
        char *data = r == s->comm->rank ? s->extents.data : zr_alloc((size_t)bytes + 1, error);
        zero_status status =
            zr_comm_agree(s->comm, data || !bytes ? ZERO_OK : ZERO_ERR_MEMORY, error);
        if (status == ZERO_OK && bytes)
            status = zr_comm_broadcast(s->comm, data, bytes, r, error);
        if (status == ZERO_OK && s->comm->rank == 0 && bytes)
            zr_buffer_append(all, data, (size_t)bytes);
        if (r != s->comm->rank)
            zr_free(data);
        ZERO_TRY(status);
    }
    return ZERO_OK;
}

static int by_place(const void *a, const void *b)
{
    const written *x = a, *y = b;
    if (x->vector != y->vector)
        return x->vector < y->vector ? -1 : 1;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return x->extent.at.first < y->extent.at.first ? -1 : x->extent.at.first > y->extent.at.first;
}

// `all` is sorted; *at moves past the extents of this tensor.
static zero_status describe_tensor(const zero_tensor_desc *tensor, int64_t begin,
                                   const written *all, int64_t count, int v, int t, int64_t *at,
                                   zr_manifest_tensor *out, zero_error *error)
{
    int64_t end = *at;
    while (end < count && all[end].vector == v && all[end].tensor == t)
        end++;
    *out = (zr_manifest_tensor){.name = zr_strdup(tensor->name, error),
                                .dims = tensor->dims,
                                .begin = begin,
                                .extent_count = (int)(end - *at)};
    out->extents = zr_alloc((size_t)(out->extent_count + 1) * sizeof *out->extents, error);
    if (!out->name || !out->extents)
        return ZERO_ERR_MEMORY;
    memcpy(out->shape, tensor->shape, sizeof out->shape);
    for (int e = 0; e < out->extent_count; e++)
        out->extents[e] = all[(*at)++].extent;
    return ZERO_OK;
}

static zero_status describe_file(const saving *s, int v, const written *all, int64_t count,
                                 int64_t *at, zr_manifest_file *out, zero_error *error)
{
    const zr_weight_view *view = &s->vectors[v].view;
    const zr_st_layout *layout = &s->views[v].layout;
    *out = (zr_manifest_file){
        .name = zr_sprintf(error, "%s.safetensors", s->vectors[v].name),
        .dtype = s->vectors[v].dtype,
        .bytes = layout->total,
        .header_bytes = (int64_t)layout->header.length,
        .header_checksum = zr_crc32c(0, layout->header.data, layout->header.length),
        .tensors = zr_alloc((size_t)(view->tensor_count + 1) * sizeof *out->tensors, error)};
    if (!out->name || !out->tensors)
        return ZERO_ERR_MEMORY;
    // Counted before it is filled, so that a tensor that fails is freed with the others.
    for (int t = 0; t < view->tensor_count; t++)
        ZERO_TRY(describe_tensor(view->tensors[t], layout->begin[t], all, count, v, t, at,
                                 &out->tensors[out->tensor_count++], error));
    return ZERO_OK;
}

static zero_status build_manifest(const saving *s, zr_buffer *all, zr_manifest *out,
                                  zero_error *error)
{
    written *extents = (written *)(void *)all->data;
    int64_t count = (int64_t)(all->length / sizeof *extents), at = 0;
    if (all->failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for the checksums of \"%s\"",
                       s->directory);
    if (count)
        qsort(extents, (size_t)count, sizeof *extents, by_place);
    *out = (zr_manifest){.state = json_incref(s->state),
                         .files = zr_alloc((size_t)s->count * sizeof *out->files, error)};
    if (!out->files)
        return ZERO_ERR_MEMORY;
    for (int v = 0; v < s->count; v++)
        ZERO_TRY(describe_file(s, v, extents, count, &at, &out->files[out->file_count++], error));
    return ZERO_OK;
}

static zero_status write_manifest(const saving *s, const zr_manifest *manifest, zero_error *error)
{
    zr_buffer text = {0};
    zr_manifest_write(manifest, &text);
    zero_status status =
        text.failed
            ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the manifest of \"%s\"", s->directory)
            : zr_file_write_in(s->temporary, ZR_MANIFEST, text.data, text.length, error);
    zr_buffer_free(&text);
    return status;
}

static zero_status publish_saved_states(const saving *s, zr_buffer *all, zero_error *error)
{
    zr_manifest manifest = {0};
    zero_status status = build_manifest(s, all, &manifest, error);
    if (status == ZERO_OK)
        status = write_manifest(s, &manifest, error);
    if (status == ZERO_OK)
        status = zr_directory_sync(s->temporary, error);
    if (status == ZERO_OK)
        status = zr_directory_publish(s->temporary, s->directory, error);
    zr_manifest_free(&manifest);
    return status;
}

static void free_states_saving(saving *s)
{
    zr_direct_destroy(s->direct);
    for (int v = 0; v < s->count; v++) {
        if (s->files && s->files[v].fd >= 0)
            close(s->files[v].fd);
        if (s->files)
            zr_free(s->files[v].path);
        if (s->views)
            zr_view_file_free(&s->views[v]);
    }
    zr_buffer_free(&s->extents);
    json_decref(s->state);
    zr_free(s->directory);
    zr_free(s->temporary);
    zr_free(s->views);
    zr_free(s->block);
    zr_free(s->files);
    zr_free(s);
}

void zr_states_save_abandon(saving *s)
{
    if (s->comm->rank == 0)
        zr_directory_remove(s->temporary, NULL);
    free_states_saving(s);
}

static zero_status create_state_files(saving *s, const char *directory, zero_error *error)
{
    zero_comm *comm = s->comm;
    ZERO_TRY(zr_comm_agree(comm, allocate_saving(s, directory, error), error));
    ZERO_TRY(check_coverage(s, error));
    zero_status status =
        zr_comm_agree(comm, comm->rank == 0 ? create_files(s, error) : ZERO_OK, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(comm, comm->rank == 0 ? ZERO_OK : open_files(s, error), error);
    if (status != ZERO_OK && comm->rank == 0)
        zr_directory_remove(s->temporary, NULL);
    return status;
}

zero_status zr_states_save_begin(zero_comm *comm, const char *directory,
                                 const zr_state_vector *vectors, int count, json_t *state,
                                 saving **out, zero_error *error)
{
    *out = NULL;
    saving *s = zr_alloc(sizeof *s, error);
    ZERO_TRY(zr_comm_agree(comm, s ? ZERO_OK : ZERO_ERR_MEMORY, error));
    *s = (saving){.comm = comm, .vectors = vectors, .count = count, .state = json_incref(state)};
    zero_status status = create_state_files(s, directory, error);
    if (status == ZERO_OK)
        *out = s;
    else
        free_states_saving(s);
    return status;
}

zero_status zr_states_save_end(saving *s, zero_status mine, zero_error *error)
{
    zero_comm *comm = s->comm;
    zr_buffer all = {0};
    zero_status status = zr_comm_agree(comm, mine, error);
    if (status == ZERO_OK)
        status = gather_extents(s, &all, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(
            comm, comm->rank == 0 ? publish_saved_states(s, &all, error) : ZERO_OK, error);
    if (status != ZERO_OK && comm->rank == 0)
        zr_directory_remove(s->temporary, NULL);
    zr_buffer_free(&all);
    free_states_saving(s);
    return status;
}

static void beat_in_comm(void *comm) { zr_comm_progress(comm, ((zero_comm *)comm)->step); }

zero_status zr_states_save(zero_comm *comm, const char *directory, const zr_state_vector *vectors,
                           int count, json_t *state, zero_error *error)
{
    saving *s;
    ZERO_TRY(zr_states_save_begin(comm, directory, vectors, count, state, &s, error));
    s->beat = beat_in_comm;
    s->beat_user = comm;
    zero_status status = ZERO_OK;
    for (int part = 0; part < vectors->view.parts && status == ZERO_OK; part++)
        status = zr_states_save_part(s, part, error);
    if (status == ZERO_OK)
        status = zr_states_save_sync(s, error);
    return zr_states_save_end(s, status, error);
}
