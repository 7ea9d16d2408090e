#include "formats/manifest.h"

#include "base/dtype.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "base/random.h"
#include "formats/rectangle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "libzero checkpoint 1"
#define FORMAT_RECTANGLES "libzero checkpoint 2"
#define MOST_BYTES ((size_t)1 << 30) // of a manifest

enum { MOST_FILES = 64 };

static void write_manifest_extent(const zr_extent *extent, zr_json_writer *w)
{
    const zr_rectangle *at = &extent->at;
    const int64_t row[] = {at->first, at->width, extent->checksum},
                  rows[] = {at->first, at->width, at->stride, at->rows, extent->checksum};
    if (at->rows > 1)
        zr_json_integers(w, NULL, rows, ZR_COUNT(rows));
    else
        zr_json_integers(w, NULL, row, ZR_COUNT(row));
}

static void write_manifest_tensor(const zr_manifest_tensor *tensor, zr_json_writer *w)
{
    zr_json_line(w, 0);
    zr_json_begin_object(w, NULL);
    zr_json_text(w, "name", tensor->name);
    zr_json_integers(w, "shape", tensor->shape, tensor->dims);
    zr_json_integer(w, "begin", tensor->begin);
    zr_json_begin_array(w, "extents");
    for (int e = 0; e < tensor->extent_count; e++)
        write_manifest_extent(&tensor->extents[e], w);
    zr_json_end(w);
    zr_json_end(w);
}

static void write_manifest_file(const zr_manifest_file *file, zr_json_writer *w)
{
    const int64_t header[] = {file->header_bytes, file->header_checksum};
    zr_json_line(w, 0);
    zr_json_begin_object(w, NULL);
    zr_json_text(w, "name", file->name);
    zr_json_text(w, "dtype", zr_dtype_name(file->dtype));
    zr_json_integer(w, "bytes", file->bytes);
    zr_json_integers(w, "header", header, 2);
    zr_json_begin_array(w, "tensors");
    for (int t = 0; t < file->tensor_count; t++)
        write_manifest_tensor(&file->tensors[t], w);
    zr_json_end(w);
    zr_json_end(w);
}

static bool has_rectangles(const zr_manifest *manifest)
{
    for (int f = 0; f < manifest->file_count; f++)
        for (int t = 0; t < manifest->files[f].tensor_count; t++)
            for (int e = 0; e < manifest->files[f].tensors[t].extent_count; e++)
                if (manifest->files[f].tensors[t].extents[e].at.rows > 1)
                    return true;
    return false;
}

// The last member: the hash of all before its comma.
static void write_hash(zr_json_writer *w, uint64_t hash)
{
    char digits[20];
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)hash);
    zr_json_text(w, "hash", digits);
    zr_json_finish(w);
}

void zr_manifest_write(const zr_manifest *manifest, zr_buffer *out)
{
    char *state = json_dumps(manifest->state, JSON_COMPACT | JSON_REAL_PRECISION(17));
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "format", has_rectangles(manifest) ? FORMAT_RECTANGLES : FORMAT);
    zr_json_line(&w, 0);
    zr_json_verbatim(&w, "state", state ? state : "");
    zr_json_line(&w, 0);
    zr_json_begin_array(&w, "files");
    for (int f = 0; f < manifest->file_count; f++)
        write_manifest_file(&manifest->files[f], &w);
    zr_json_end(&w);
    out->failed = out->failed || !state;
    free(state);
    if (!out->failed)
        write_hash(&w, zr_hash_bytes(out->data, out->length, 0));
}

typedef struct reader {
    const char *path;
    bool rectangles; // the format may have rectangles
    zero_error *error;
} reader;

static zero_status refuse_manifest(const reader *r, const char *what, const char *wanted)
{
    return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\": %s: expected %s", r->path, what, wanted);
}

static zero_status read_manifest_number(const reader *r, const json_t *value, const char *what,
                                        int64_t most, int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > most)
        return refuse_manifest(r, what, "a whole number in range");
    *out = json_integer_value(value);
    return ZERO_OK;
}

// Checks that the object has these members and no others.
static zero_status check_members(const reader *r, const json_t *object, const char *what,
                                 const char *const *names, size_t count)
{
    if (!json_is_object(object) || json_object_size(object) != count)
        return refuse_manifest(r, what, "an object of the members that the format has");
    for (size_t i = 0; i < count; i++)
        if (!json_object_get(object, names[i]))
            return refuse_manifest(r, what, names[i]);
    return ZERO_OK;
}

static zero_status read_name(const reader *r, const json_t *value, const char *what, char **out)
{
    if (!json_is_string(value) || !json_string_length(value) ||
        strlen(json_string_value(value)) != json_string_length(value))
        return refuse_manifest(r, what, "a name");
    *out = zr_strdup(json_string_value(value), r->error);
    return *out ? ZERO_OK : ZERO_ERR_MEMORY;
}

static int64_t count_tensor_elements(const zr_manifest_tensor *tensor)
{
    int64_t elements = 1;
    for (int d = 0; d < tensor->dims; d++)
        if (__builtin_mul_overflow(elements, tensor->shape[d], &elements))
            return -1;
    return elements;
}

// Reads [first, count, checksum], or [first, width, stride, rows, checksum]; whether the extent
// lies in its tensor is checked afterwards.
static zero_status read_extent(const reader *r, const json_t *list, const char *tensor,
                               int64_t most, zr_extent *out)
{
    int64_t checksum = 0;
    size_t numbers = json_array_size(list);
    bool rectangle = r->rectangles && numbers == 5;
    if (numbers != 3 && !rectangle)
        return refuse_manifest(r, tensor,
                               r->rectangles ? "extents of three numbers or of five"
                                             : "extents of three numbers");
    ZERO_TRY(read_manifest_number(r, json_array_get(list, 0), tensor, INT64_MAX, &out->at.first));
    ZERO_TRY(read_manifest_number(r, json_array_get(list, 1), tensor, most, &out->at.width));
    ZERO_TRY(
        read_manifest_number(r, json_array_get(list, numbers - 1), tensor, UINT32_MAX, &checksum));
    out->at.stride = out->at.width;
    out->at.rows = 1;
    out->checksum = (uint32_t)checksum;
    if (!rectangle)
        return ZERO_OK;
    ZERO_TRY(read_manifest_number(r, json_array_get(list, 2), tensor, INT64_MAX, &out->at.stride));
    ZERO_TRY(read_manifest_number(r, json_array_get(list, 3), tensor, most, &out->at.rows));
    return out->at.rows > 1 ? ZERO_OK : refuse_manifest(r, tensor, "rectangles of several rows");
}

// Checks a stretch: it follows the one before, or, among rectangles, lies in the tensor.
static zero_status check_stretch(const reader *r, const zr_rectangle *at, const char *tensor,
                                 bool follows, int64_t end, int64_t elements)
{
    bool next = at->first == end && at->width >= 1 && at->width <= elements - end;
    if (follows)
        return next ? ZERO_OK : refuse_manifest(r, tensor, "extents that follow each other");
    return at->width >= 1 && at->width <= elements && at->first <= elements - at->width
               ? ZERO_OK
               : refuse_manifest(r, tensor, "extents inside of the tensor");
}

static zero_status check_rectangle(const reader *r, const zr_rectangle *at, const char *tensor,
                                   int64_t stride, int64_t most, int64_t elements)
{
    if (at->width < 1 || at->width > most / at->rows || at->width >= at->stride)
        return refuse_manifest(r, tensor,
                               "rectangles of rows with gaps between them, of at most 1 MiB");
    if (at->stride != stride || elements % stride || at->first % stride > stride - at->width)
        return refuse_manifest(r, tensor, "rectangles of one stride, each inside of its columns");
    return at->first / stride <= elements / stride - at->rows
               ? ZERO_OK
               : refuse_manifest(r, tensor, "extents inside of the tensor");
}

// Returns the stride of the tensor's first rectangle; 0 if it has no rectangle.
static int64_t stride_of_first_rectangle(const zr_manifest_tensor *tensor)
{
    for (int e = 0; e < tensor->extent_count; e++)
        if (tensor->extents[e].at.rows > 1)
            return tensor->extents[e].at.stride;
    return 0;
}

static zero_status check_extents(const reader *r, int64_t most, int64_t elements,
                                 zr_manifest_tensor *tensor)
{
    int64_t reach = 0, stride = stride_of_first_rectangle(tensor);
    for (int e = 0; e < tensor->extent_count; e++) {
        zr_extent *extent = &tensor->extents[e];
        if (extent->at.rows == 1)
            ZERO_TRY(check_stretch(r, &extent->at, tensor->name, stride == 0, reach, elements));
        else
            ZERO_TRY(check_rectangle(r, &extent->at, tensor->name, stride, most, elements));
        if (e > 0 && extent->at.first < tensor->extents[e - 1].at.first)
            return refuse_manifest(r, tensor->name, "extents in the order of their first elements");
        reach = extent->reach = ZR_MAX(reach, zr_rectangle_end(&extent->at));
    }
    if (stride)
        return zr_extents_check_cover(r->path, tensor->name, tensor->extents, tensor->extent_count,
                                      elements, r->error);
    return reach == elements ? ZERO_OK
                             : refuse_manifest(r, tensor->name, "extents up to the last element");
}

static zero_status read_extents(const reader *r, const json_t *list, zero_dtype dtype,
                                zr_manifest_tensor *out)
{
    int64_t elements = count_tensor_elements(out),
            most = ZR_EXTENT_BYTES / (int64_t)zero_dtype_bytes(dtype);
    if (!json_is_array(list) || elements < 0)
        return refuse_manifest(r, out->name, "a list of extents");
    out->extent_count = (int)json_array_size(list);
    out->extents = zr_alloc((size_t)(out->extent_count + 1) * sizeof *out->extents, r->error);
    if (!out->extents)
        return ZERO_ERR_MEMORY;
    for (int e = 0; e < out->extent_count; e++)
        ZERO_TRY(
            read_extent(r, json_array_get(list, (size_t)e), out->name, most, &out->extents[e]));
    return check_extents(r, most, elements, out);
}

static zero_status read_manifest_shape(const reader *r, const json_t *shape,
                                       zr_manifest_tensor *out)
{
    if (!json_is_array(shape) || json_array_size(shape) > ZERO_MAX_DIMS)
        return refuse_manifest(r, out->name, "a shape");
    out->dims = (int)json_array_size(shape);
    for (int d = 0; d < out->dims; d++)
        ZERO_TRY(read_manifest_number(r, json_array_get(shape, (size_t)d), out->name, INT64_MAX,
                                      &out->shape[d]));
    return ZERO_OK;
}

static zero_status read_manifest_tensor(const reader *r, const json_t *object,
                                        const zr_manifest_file *file, zr_manifest_tensor *out)
{
    static const char *const names[] = {"name", "shape", "begin", "extents"};
    ZERO_TRY(check_members(r, object, file->name, names, ZR_COUNT(names)));
    ZERO_TRY(read_name(r, json_object_get(object, "name"), file->name, &out->name));
    ZERO_TRY(read_manifest_shape(r, json_object_get(object, "shape"), out));
    ZERO_TRY(read_manifest_number(r, json_object_get(object, "begin"), out->name, file->bytes,
                                  &out->begin));
    ZERO_TRY(read_extents(r, json_object_get(object, "extents"), file->dtype, out));
    if (count_tensor_elements(out) >
        (file->bytes - out->begin) / (int64_t)zero_dtype_bytes(file->dtype))
        return refuse_manifest(r, out->name, "a tensor inside of its file");
    return ZERO_OK;
}

static bool is_plain(const char *name) { return name[0] != '.' && !strchr(name, '/'); }

static zero_status read_dtype(const reader *r, const char *name, const char *text, zero_dtype *out)
{
    static const zero_dtype stored[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    for (int i = 0; i < ZR_COUNT(stored); i++)
        if (text && !strcmp(text, zr_dtype_name(stored[i]))) {
            *out = stored[i];
            return ZERO_OK;
        }
    return refuse_manifest(r, name, "a dtype of f32, bf16 or f16");
}

// Reads [bytes, checksum].
static zero_status read_header_checksum(const reader *r, const json_t *pair, zr_manifest_file *out)
{
    int64_t checksum = 0;
    ZERO_TRY(read_manifest_number(r, json_array_get(pair, 0), out->name, out->bytes,
                                  &out->header_bytes));
    ZERO_TRY(read_manifest_number(r, json_array_get(pair, 1), out->name, UINT32_MAX, &checksum));
    out->header_checksum = (uint32_t)checksum;
    return ZERO_OK;
}

static zero_status read_tensors(const reader *r, const json_t *list, zr_manifest_file *out)
{
    size_t count = json_array_size(list);
    out->tensors = zr_alloc((count + 1) * sizeof *out->tensors, r->error);
    if (!out->tensors)
        return ZERO_ERR_MEMORY;
    for (size_t t = 0; t < count; t++) {
        out->tensor_count++;
        ZERO_TRY(read_manifest_tensor(r, json_array_get(list, t), out, &out->tensors[t]));
    }
    return ZERO_OK;
}

static zero_status read_manifest_file(const reader *r, const json_t *object, zr_manifest_file *out)
{
    static const char *const names[] = {"name", "dtype", "bytes", "header", "tensors"};
    const json_t *tensors = json_object_get(object, "tensors");
    ZERO_TRY(check_members(r, object, "a file", names, ZR_COUNT(names)));
    ZERO_TRY(read_name(r, json_object_get(object, "name"), "a file", &out->name));
    if (!is_plain(out->name) || !json_is_array(tensors))
        return refuse_manifest(r, out->name, "a file of this directory, with tensors");
    ZERO_TRY(
        read_dtype(r, out->name, json_string_value(json_object_get(object, "dtype")), &out->dtype));
    ZERO_TRY(read_manifest_number(r, json_object_get(object, "bytes"), out->name, INT64_MAX,
                                  &out->bytes));
    ZERO_TRY(read_header_checksum(r, json_object_get(object, "header"), out));
    return read_tensors(r, tensors, out);
}

static zero_status read_format(reader *r, const json_t *format)
{
    const char *name = json_is_string(format) ? json_string_value(format) : "";
    r->rectangles = !strcmp(name, FORMAT_RECTANGLES);
    return r->rectangles || !strcmp(name, FORMAT)
               ? ZERO_OK
               : refuse_manifest(r, "format", "\"" FORMAT "\" or \"" FORMAT_RECTANGLES "\"");
}

static zero_status read_root(reader *r, const json_t *root, zr_manifest *out)
{
    static const char *const names[] = {"format", "state", "files", "hash"};
    const json_t *files = json_object_get(root, "files");
    ZERO_TRY(check_members(r, root, "the manifest", names, ZR_COUNT(names)));
    ZERO_TRY(read_format(r, json_object_get(root, "format")));
    if (!json_is_object(json_object_get(root, "state")) || !json_is_array(files) ||
        json_array_size(files) > MOST_FILES)
        return refuse_manifest(r, "state and files", "an object, and a list of files");
    out->state = json_incref(json_object_get(root, "state"));
    out->files = zr_alloc((json_array_size(files) + 1) * sizeof *out->files, r->error);
    if (!out->files)
        return ZERO_ERR_MEMORY;
    for (size_t f = 0; f < json_array_size(files); f++) {
        out->file_count++;
        ZERO_TRY(read_manifest_file(r, json_array_get(files, f), &out->files[f]));
        if (zr_manifest_find(out, out->files[f].name) != &out->files[f])
            return refuse_manifest(r, out->files[f].name, "each file once");
    }
    return ZERO_OK;
}

// Checks that the text ends with its hash, with nothing after it.
static zero_status check_hash(const reader *r, const char *text, size_t length)
{
    static const char before[] = ",\"hash\":\"", after[] = "\"}\n";
    char digits[20];
    const size_t tail = strlen(before) + 16 + strlen(after);
    if (length <= tail)
        return refuse_manifest(r, "its end", "the hash of all before it");
    const char *at = text + length - tail;
    snprintf(digits, sizeof digits, "%016llx",
             (unsigned long long)zr_hash_bytes(text, length - tail, 0));
    return !memcmp(at, before, strlen(before)) && !memcmp(at + strlen(before), digits, 16) &&
                   !memcmp(text + length - strlen(after), after, strlen(after))
               ? ZERO_OK
               : refuse_manifest(
                     r, "its end",
                     "the hash of all before it: the file is damaged, or was cut short");
}

static zero_status parse_manifest(reader *r, const char *text, size_t length, zr_manifest *out)
{
    json_t *root;
    ZERO_TRY(check_hash(r, text, length));
    ZERO_TRY(zr_json_parse(text, length, r->path, &root, r->error));
    zero_status status = read_root(r, root, out);
    json_decref(root);
    return status;
}

zero_status zr_manifest_read(const char *directory, zr_manifest *out, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/" ZR_MANIFEST, directory), *text = NULL;
    size_t length;
    *out = (zr_manifest){0};
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_file_read(path, MOST_BYTES, &text, &length, error);
    if (status == ZERO_OK)
        status = parse_manifest(&(reader){.path = path, .error = error}, text, length, out);
    if (status != ZERO_OK)
        zr_manifest_free(out);
    zr_free(text);
    zr_free(path);
    return status;
}

void zr_manifest_free(zr_manifest *manifest)
{
    for (int f = 0; f < manifest->file_count; f++) {
        zr_manifest_file *file = &manifest->files[f];
        for (int t = 0; t < file->tensor_count; t++) {
            zr_free(file->tensors[t].name);
            zr_free(file->tensors[t].extents);
        }
        zr_free(file->tensors);
        zr_free(file->name);
    }
    zr_free(manifest->files);
    json_decref(manifest->state);
    *manifest = (zr_manifest){0};
}

const zr_manifest_file *zr_manifest_find(const zr_manifest *manifest, const char *name)
{
    for (int f = 0; f < manifest->file_count; f++)
        if (!strcmp(manifest->files[f].name, name))
            return &manifest->files[f];
    return NULL;
}

zr_direct_extent zr_manifest_extent_place(const zr_manifest_file *file,
                                          const zr_manifest_tensor *tensor, const zr_extent *extent)
{
    const zr_rectangle bytes =
        zr_rectangle_scaled(&extent->at, (int64_t)zero_dtype_bytes(file->dtype));
    return (zr_direct_extent){.offset = tensor->begin + bytes.first,
                              .width = bytes.width,
                              .stride = bytes.stride,
                              .rows = bytes.rows};
}

int zr_manifest_extent_from(const zr_manifest_tensor *tensor, int64_t element)
{
    int low = 0, high = tensor->extent_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (tensor->extents[middle].reach <= element)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The files of any optimizer. Saving checks every vector's name against this list.
static bool is_of_a_checkpoint(const char *name)
{
    static const char *const names[] = {
        ZR_MANIFEST,           "weights.safetensors",    "parameters.safetensors",
        "exp_avg.safetensors", "exp_avg_sq.safetensors", "momentum_buffer.safetensors",
        "sum.safetensors",     "average.safetensors",    "row_var.safetensors",
        "col_var.safetensors"};
    for (int i = 0; i < ZR_COUNT(names); i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

bool zr_is_checkpoint_file(const char *name)
{
    return is_of_a_checkpoint(name) || zr_durable_is_left_over(name, is_of_a_checkpoint);
}
