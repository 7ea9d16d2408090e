// A set of safetensors files as one table of tensors: opens a directory or a file, finds by name,
// reads as fp32.
#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "model/lora_peft.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX ".safetensors"
#define PREFIX "transformer."

void zr_st_close(zr_st_set *set)
{
    for (int i = 0; i < set->file_count; i++) {
        close(set->fds[i]);
        zr_free(set->paths[i]);
    }
    for (int i = 0; i < set->tensor_count; i++)
        zr_free(set->tensors[i].name);
    zr_free(set->paths);
    zr_free(set->fds);
    zr_free(set->tensors);
    *set = (zr_st_set){0};
}

static zero_status append_tensors(zr_st_set *set, const zr_st_tensor *tensors, int count,
                                  const char *path, zero_error *error)
{
    if (count > INT32_MAX - set->tensor_count)
        return zr_fail(error, ZERO_ERR_DATA, "%s: too many tensors", path);
    zr_st_tensor *grown =
        zr_realloc(set->tensors, (size_t)(set->tensor_count + count) * sizeof *grown, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    set->tensors = grown;
    if (count)
        memcpy(grown + set->tensor_count, tensors, (size_t)count * sizeof *grown);
    set->tensor_count += count;
    return ZERO_OK;
}

static zero_status read_safetensors_set_file(zr_st_set *set, int file, zero_error *error)
{
    zr_st_tensor *tensors;
    int count;
    ZERO_TRY(zr_st_header_read(set->fds[file], set->paths[file], file, &tensors, &count, error));
    zero_status status = append_tensors(set, tensors, count, set->paths[file], error);
    for (int i = 0; status != ZERO_OK && i < count; i++)
        zr_free(tensors[i].name);
    zr_free(tensors);
    return status;
}

// Makes room for one more file; the caller then sets its path and descriptor together.
static zero_status grow_files(zr_st_set *set, zero_error *error)
{
    size_t count = (size_t)set->file_count + 1;
    char **paths = zr_realloc(set->paths, count * sizeof *paths, error);
    if (!paths)
        return ZERO_ERR_MEMORY;
    set->paths = paths;
    int *fds = zr_realloc(set->fds, count * sizeof *fds, error);
    if (!fds)
        return ZERO_ERR_MEMORY;
    set->fds = fds;
    return ZERO_OK;
}

static zero_status add_file(zr_st_set *set, const char *path, zero_error *error)
{
    ZERO_TRY(grow_files(set, error));
    char *copy = zr_strdup(path, error);
    if (!copy)
        return ZERO_ERR_MEMORY;
    int fd;
    zero_status status = zr_file_open(path, &fd, error);
    if (status != ZERO_OK) {
        zr_free(copy);
        return status;
    }
    int file = set->file_count++;
    set->paths[file] = copy;
    set->fds[file] = fd;
    return read_safetensors_set_file(set, file, error);
}

static int safetensors_set_by_name(const void *a, const void *b)
{
    return strcmp(((const zr_st_tensor *)a)->name, ((const zr_st_tensor *)b)->name);
}

static zero_status sort_tensors(zr_st_set *set, zero_error *error)
{
    if (set->tensor_count)
        qsort(set->tensors, (size_t)set->tensor_count, sizeof *set->tensors,
              safetensors_set_by_name);
    for (int i = 1; i < set->tensor_count; i++) {
        const zr_st_tensor *before = &set->tensors[i - 1], *tensor = &set->tensors[i];
        if (!strcmp(before->name, tensor->name))
            return zr_fail(error, ZERO_ERR_DATA, "tensor \"%s\" lies in %s and in %s", tensor->name,
                           set->paths[before->file], set->paths[tensor->file]);
    }
    return ZERO_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Opens the shard `name` next to the index, unless it is open already. Refuses a name that leads
// elsewhere.
static zero_status add_shard(zr_st_set *set, const char *directory, const char *index,
                             const char *name, zero_error *error)
{
    for (int i = 0; i < set->file_count; i++) {
        if (!strcmp(base_name(set->paths[i]), name))
            return ZERO_OK;
    }
    if (!*name || *name == '.' || strchr(name, '/'))
        return zr_fail(error, ZERO_ERR_DATA, "%s: \"%s\" is not the name of a file next to it",
                       index, name);
    char *path = zr_sprintf(error, "%s/%s", directory, name);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status = add_file(set, path, error);
    zr_free(path);
    return status;
}

static const zr_st_tensor *find_exact(const zr_st_set *set, const char *name)
{
    zr_st_tensor key = {.name = (char *)name};
    return set->tensor_count ? bsearch(&key, set->tensors, (size_t)set->tensor_count, sizeof key,
                                       safetensors_set_by_name)
                             : NULL;
}

// Index and shards must agree about every tensor.
static zero_status check_index(const zr_st_set *set, const char *index, json_t *map,
                               zero_error *error)
{
    const char *name;
    json_t *file;
    json_object_foreach(map, name, file)
    {
        const zr_st_tensor *tensor = find_exact(set, name);
        if (!tensor || strcmp(base_name(set->paths[tensor->file]), json_string_value(file)))
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s: tensor \"%s\" should lie in %s, where it does not", index, name,
                           json_string_value(file));
    }
    for (int i = 0; i < set->tensor_count; i++) {
        if (!json_object_get(map, set->tensors[i].name))
            return zr_fail(error, ZERO_ERR_DATA, "%s does not name the tensor \"%s\" of %s", index,
                           set->tensors[i].name, set->paths[set->tensors[i].file]);
    }
    return ZERO_OK;
}

static zero_status open_shards(zr_st_set *set, const char *directory, const char *index,
                               json_t *map, zero_error *error)
{
    const char *name;
    json_t *file;
    if (!json_is_object(map))
        return zr_fail(error, ZERO_ERR_DATA, "%s: no object \"weight_map\"", index);
    json_object_foreach(map, name, file)
    {
        const char *shard = json_string_value(file);
        if (!shard)
            return zr_fail(error, ZERO_ERR_DATA, "%s: the file of the tensor \"%s\" is no string",
                           index, name);
        ZERO_TRY(add_shard(set, directory, index, shard, error));
    }
    ZERO_TRY(sort_tensors(set, error));
    return check_index(set, index, map, error);
}

static zero_status open_index(zr_st_set *set, const char *directory, const char *index,
                              zero_error *error)
{
    json_t *root = NULL;
    ZERO_TRY(zr_json_load(index, ZR_ST_HEADER_LIMIT, &root, error));
    zero_status status =
        open_shards(set, directory, index, json_object_get(root, "weight_map"), error);
    json_decref(root);
    return status;
}

static zero_status open_single(zr_st_set *set, const char *path, zero_error *error)
{
    ZERO_TRY(add_file(set, path, error));
    return sort_tensors(set, error);
}

static zero_status open_safetensors_set_directory(zr_st_set *set, const char *directory,
                                                  zero_error *error)
{
    zero_status status = ZERO_ERR_MEMORY;
    char *single = zr_sprintf(error, "%s/model" SUFFIX, directory);
    char *index = single ? zr_sprintf(error, "%s/model" SUFFIX ".index.json", directory) : NULL;
    char *adapter = index ? zr_sprintf(error, "%s/adapter_model" SUFFIX, directory) : NULL;
    if (!adapter)
        goto undo_names;
    if (zr_path_exists(single))
        status = open_single(set, single, error);
    else if (zr_path_exists(index))
        status = open_index(set, directory, index, error);
    else if (zr_path_exists(adapter))
        status = open_single(set, adapter, error);
    else
        status = zr_fail(error, ZERO_ERR_IO,
                         zr_path_is_directory(directory)
                             ? "no model" SUFFIX " and no model" SUFFIX ".index.json in \"%s\""
                             : "\"%s\" is a file, and its name does not end in " SUFFIX,
                         directory);

undo_names:
    zr_free(adapter);
    zr_free(index);
    zr_free(single);
    return status;
}

zero_status zr_st_open(const char *path, zr_st_set *out, zero_error *error)
{
    size_t length = strlen(path), suffix = strlen(SUFFIX);
    bool file = length > suffix && !strcmp(path + length - suffix, SUFFIX);
    *out = (zr_st_set){0};
    zero_status status =
        file ? open_single(out, path, error) : open_safetensors_set_directory(out, path, error);
    if (status != ZERO_OK)
        zr_st_close(out);
    return status;
}

zero_status zr_st_strip_prefix(zr_st_set *set, const char *prefix, zero_error *error)
{
    for (int i = 0; i < set->tensor_count; i++) {
        char *name = set->tensors[i].name;
        bool score = !strcmp(name, ZR_ADAPTER_SCORE);
        size_t length = score ? strlen(ZR_ADAPTER_PREFIX) : strlen(prefix);
        if (strncmp(name, prefix, length) != 0)
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s\": the tensor \"%s\" does not begin with \"%s\", as those of an "
                           "adapter do",
                           set->paths[set->tensors[i].file], name, prefix);
        memmove(name, name + length, strlen(name + length) + 1);
    }
    return sort_tensors(set, error);
}

static int by_prefixed_name(const void *key, const void *element)
{
    const char *stored = ((const zr_st_tensor *)element)->name;
    int order = strncmp(PREFIX, stored, strlen(PREFIX));
    return order ? order : strcmp(key, stored + strlen(PREFIX));
}

const zr_st_tensor *zr_st_find(const zr_st_set *set, const char *name)
{
    const zr_st_tensor *tensor = find_exact(set, name);
    if (!tensor && !strncmp(name, PREFIX, strlen(PREFIX)))
        tensor = find_exact(set, name + strlen(PREFIX));
    if (!tensor && set->tensor_count)
        tensor = bsearch(name, set->tensors, (size_t)set->tensor_count, sizeof *tensor,
                         by_prefixed_name);
    if (!tensor && !strcmp(name, "embed_out.weight")) // transformers 5 has renamed GPT-NeoX's head
        tensor = find_exact(set, "lm_head.weight");
    return tensor;
}

static void convert_f32(const void *in, int64_t count, float *out)
{
    memcpy(out, in, (size_t)count * sizeof *out);
}

static void convert_f64(const void *in, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)((const double *)in)[i];
}

static void convert_f16(const void *in, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = zr_f16_to_f32(((const uint16_t *)in)[i]);
}

static void convert_bf16(const void *in, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = zr_bf16_to_f32(((const uint16_t *)in)[i]);
}

typedef struct conversion {
    const char *dtype;
    int64_t bytes; // of an element
    void (*convert)(const void *in, int64_t count, float *out);
} conversion;

static const conversion conversions[] = {
    {.dtype = "F32", .bytes = 4, .convert = convert_f32},
    {.dtype = "F64", .bytes = 8, .convert = convert_f64},
    {.dtype = "F16", .bytes = 2, .convert = convert_f16},
    {.dtype = "BF16", .bytes = 2, .convert = convert_bf16},
};

zero_status zr_st_read(const zr_st_set *set, const zr_st_tensor *tensor, int64_t first,
                       int64_t count, float *out, zero_error *error)
{
    _Alignas(8) char block[16384];
    const char *path = set->paths[tensor->file];
    const conversion *how = NULL;
    for (int i = 0; i < ZR_COUNT(conversions); i++) {
        if (!strcmp(conversions[i].dtype, tensor->dtype))
            how = &conversions[i];
    }
    if (!how)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s: tensor \"%s\" has dtype %s, where F32, F16, BF16 or F64 is needed",
                       path, tensor->name, tensor->dtype);
    assert(first >= 0 && count >= 0 && first <= (tensor->end - tensor->begin) / how->bytes - count);
    int64_t at = tensor->begin + first * how->bytes;
    if (how->convert == convert_f32)
        return zr_file_pread(set->fds[tensor->file], out, (size_t)(count * how->bytes), at, path,
                             error);
    for (int64_t done = 0, step; done < count; done += step) {
        step = ZR_MIN(count - done, (int64_t)sizeof block / how->bytes);
        ZERO_TRY(zr_file_pread(set->fds[tensor->file], block, (size_t)(step * how->bytes),
                               at + done * how->bytes, path, error));
        how->convert(block, step, out + done);
    }
    return ZERO_OK;
}
