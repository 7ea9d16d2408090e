#include "formats/safetensors_write.h"

#include "memory/direct.h"
#include "base/dtype.h"
#include "base/file.h"
#include "formats/safetensors.h"
#include "model/architecture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK ((int64_t)1 << 18) // elements moved at a time
enum { WIDEST = 8 };             // bytes of an element

typedef struct exporting {
    zr_source *source;
    const zr_source_vector *weights;
    zr_export *export;
    char **names;      // (tensor_count); NULL if the tensor is not written
    int *shards;       // (tensor_count)
    char *in, *out;    // BLOCK elements
    float *wide;       // BLOCK
    zr_direct *direct; // the file being written
} exporting;

// Returns the dtype in the file, by its name in safetensors.
static const char *exported_dtype_of(const exporting *e, int t)
{
    const char *dtype = e->weights->tensors[t].dtype;
    return e->export->keeps_dtypes || !zr_source_is_real(dtype)
               ? dtype
               : zr_st_dtype_of(e->export->dtype)->name;
}

static int64_t export_bytes_of(const exporting *e, int t)
{
    const zr_source_tensor *tensor = &e->weights->tensors[t];
    int64_t from = zr_st_dtype_find(tensor->dtype)->bits,
            to = zr_st_dtype_find(exported_dtype_of(e, t))->bits;
    return from == to ? tensor->bytes : tensor->bytes / (from / 8) * (to / 8);
}

// Splits as transformers does: a file is full if the next tensor would not fit; a tensor that is
// too large by itself has a file of its own.
static void split_export(exporting *e)
{
    int64_t most = e->export->shard_bytes ? e->export->shard_bytes : INT64_MAX, held = 0;
    int current = -1;
    zr_export *made = e->export;
    for (int t = 0; t < e->weights->tensor_count; t++) {
        if (!e->names[t])
            continue;
        int64_t bytes = export_bytes_of(e, t);
        if (bytes > most) {
            e->shards[t] = made->files++;
        } else {
            if (current < 0 || bytes > most - held) {
                current = made->files++;
                held = 0;
            }
            e->shards[t] = current;
            held += bytes;
        }
        made->tensors++;
        made->bytes += bytes;
    }
    made->files = ZR_MAX(made->files, 1);
}

static void shard_name(const exporting *e, int shard, char out[static 64])
{
    if (e->export->files == 1)
        snprintf(out, 64, "%s", e->export->file ? e->export->file : ZR_MODEL_WEIGHTS);
    else
        snprintf(out, 64, "model-%05d-of-%05d.safetensors", shard + 1, e->export->files);
}

// Returns the elements in `in`, converted to the file's dtype.
static const char *convert_export(exporting *e, const char *from, const char *to, int64_t count)
{
    if (!strcmp(from, to))
        return e->in;
    zr_source_widen(from, e->in, count, e->wide);
    if (e->export->dtype == ZERO_F32)
        return (const char *)e->wide;
    if (e->export->dtype == ZERO_F16)
        e->export->overflowed += zr_f16_overflows(e->wide, count);
    zr_narrow(e->export->dtype, e->wide, count, e->out);
    return e->out;
}

static zero_status write_export_tensor(exporting *e, int t, int64_t begin, zero_error *error)
{
    const zr_source_tensor *tensor = &e->weights->tensors[t];
    const char *to = exported_dtype_of(e, t);
    int64_t wide = ZR_MAX(zr_st_dtype_find(tensor->dtype)->bits / 8, 1),
            narrow = ZR_MAX(zr_st_dtype_find(to)->bits / 8, 1);
    for (int64_t done = 0, n; done < tensor->bytes; done += n * wide) {
        uint32_t unused;
        n = ZR_MIN(tensor->bytes / wide - done / wide, BLOCK);
        ZERO_TRY(zr_source_read(e->source, 0, t, done, n * wide, e->in, error));
        ZERO_TRY(zr_direct_write(e->direct, 0, begin + done / wide * narrow,
                                 convert_export(e, tensor->dtype, to, n), (size_t)(n * narrow),
                                 &unused, error));
        if (e->export->progress)
            e->export->progress(e->export->user, n * wide);
    }
    return ZERO_OK;
}

static zero_status write_tensors(exporting *e, const zr_st_layout *layout, const int *of, int count,
                                 zero_error *error)
{
    for (int i = 0; i < count; i++)
        ZERO_TRY(write_export_tensor(e, of[i], layout->begin[i], error));
    return zr_direct_sync(e->direct, error);
}

static zero_status fill_shard(exporting *e, const zr_st_layout *layout, const int *of, int count,
                              int fd, char *path, zero_error *error)
{
    ZERO_TRY(zr_file_reserve(fd, layout->total, path, error));
    ZERO_TRY(zr_file_pwrite(fd, layout->header.data, layout->header.length, 0, path, error));
    ZERO_TRY(zr_direct_create(&(zr_direct_file){fd, path}, 1, &e->direct, error));
    zero_status status = write_tensors(e, layout, of, count, error);
    zr_direct_destroy(e->direct);
    return status;
}

static zero_status write_export_file(exporting *e, const zr_st_layout *layout, const int *of,
                                     int count, int shard, zero_error *error)
{
    char name[64];
    shard_name(e, shard, name);
    char *path = zr_sprintf(error, "%s/%s", e->export->directory, name);
    if (!path)
        return ZERO_ERR_MEMORY;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    zero_status status =
        fd < 0 ? zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot create \"%s\"", path)
               : fill_shard(e, layout, of, count, fd, path, error);
    if (fd >= 0)
        close(fd);
    zr_free(path);
    return status;
}

static zero_status write_shard(exporting *e, int shard, zero_error *error)
{
    size_t most = (size_t)e->weights->tensor_count + 1;
    zr_st_entry *entries = zr_alloc(most * sizeof *entries, error);
    int *of = zr_alloc(most * sizeof *of, error), count = 0;
    zr_st_layout layout = {0};
    zero_status status = entries && of ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int t = 0; t < e->weights->tensor_count && status == ZERO_OK; t++) {
        const zr_source_tensor *tensor = &e->weights->tensors[t];
        if (!e->names[t] || e->shards[t] != shard)
            continue;
        entries[count] = (zr_st_entry){.name = e->names[t],
                                       .stored = exported_dtype_of(e, t),
                                       .dims = tensor->dims,
                                       .shape = tensor->shape};
        of[count++] = t;
    }
    if (status == ZERO_OK)
        status = zr_st_layout_create(entries, count, "", &layout, error);
    if (status == ZERO_OK)
        status = write_export_file(e, &layout, of, count, shard, error);
    zr_st_layout_free(&layout);
    zr_free(entries);
    zr_free(of);
    return status;
}

static int64_t count_exported_parameters(const exporting *e)
{
    int64_t count = 0;
    for (int t = 0; t < e->weights->tensor_count; t++)
        if (e->names[t])
            count += e->weights->tensors[t].bytes * 8 /
                     zr_st_dtype_find(e->weights->tensors[t].dtype)->bits;
    return count;
}

static zero_status write_index(const exporting *e, zero_error *error)
{
    char name[64];
    json_t *map = json_object(),
           *root = json_pack("{s:{s:I, s:I}, s:o}", "metadata", "total_parameters",
                             (json_int_t)count_exported_parameters(e), "total_size",
                             (json_int_t)e->export->bytes, "weight_map", map);
    for (int t = 0; t < e->weights->tensor_count; t++) {
        if (!e->names[t])
            continue;
        shard_name(e, e->shards[t], name);
        json_object_set_new(map, e->names[t], json_string(name));
    }
    zr_buffer text = {0};
    char *dumped = root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    zr_buffer_printf(&text, "%s\n", dumped ? dumped : "");
    text.failed |= !dumped;
    free(dumped);
    json_decref(root);
    return zr_file_write_text_in(e->export->directory, ZR_MODEL_INDEX, &text, error);
}

// Puts the export's prefix before all names.
static zero_status prefix_names(exporting *e, zero_error *error)
{
    const char *prefix = e->export->prefix;
    for (int t = 0; t < e->weights->tensor_count && prefix; t++) {
        if (!e->names[t])
            continue;
        char *name = zr_sprintf(error, "%.*s%s", zr_tensor_prefix_bytes(e->names[t], prefix),
                                prefix, e->names[t]);
        if (!name)
            return ZERO_ERR_MEMORY;
        zr_free(e->names[t]);
        e->names[t] = name;
    }
    return ZERO_OK;
}

static zero_status prepare_export(exporting *e, zero_error *error)
{
    e->shards = zr_alloc(((size_t)e->weights->tensor_count + 1) * sizeof *e->shards, error);
    e->in = zr_alloc((size_t)(BLOCK * WIDEST), error);
    e->out = zr_alloc((size_t)BLOCK * sizeof(uint16_t), error);
    e->wide = zr_alloc((size_t)BLOCK * sizeof *e->wide, error);
    if (!e->shards || !e->in || !e->out || !e->wide)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_tensor_names(e->source, e->weights, ZR_NAMES_HUGGING_FACE, &e->names, error));
    return prefix_names(e, error);
}

zero_status zr_export_weights(zr_source *source, zr_export *export, zero_error *error)
{
    exporting e = {.source = source, .weights = &source->vectors[0], .export = export};
    export->files = export->tensors = 0;
    export->bytes = export->overflowed = 0;
    zero_status status = prepare_export(&e, error);
    if (status == ZERO_OK)
        split_export(&e);
    for (int shard = 0; status == ZERO_OK && shard < export->files; shard++)
        status = write_shard(&e, shard, error);
    if (status == ZERO_OK && export->files > 1)
        status = write_index(&e, error);
    if (status == ZERO_OK)
        status = zr_directory_sync(export->directory, error);
    zr_tensor_names_free(e.names, e.weights->tensor_count);
    zr_free(e.shards);
    zr_free(e.in);
    zr_free(e.out);
    zr_free(e.wide);
    return status;
}
