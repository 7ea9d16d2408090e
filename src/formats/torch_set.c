// The tensors of pytorch_model.bin, or of all shards that its index names, sorted by name.
#include "formats/source_torch.h"

#include "base/file.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static const char *file_name_of(const zr_torch_set *set, int file)
{
    const char *path = set->files[file].zip.path, *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static zero_status add_file(zr_torch_set *set, const char *path, zero_error *error)
{
    zr_torch_file *grown =
        zr_realloc(set->files, ((size_t)set->file_count + 1) * sizeof *grown, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    set->files = grown;
    ZERO_TRY(zr_torch_open(path, &grown[set->file_count], error));
    set->file_count++;
    return ZERO_OK;
}

// Opens the shard `name` next to the index, unless it is open already. Refuses a name that leads
// elsewhere.
static zero_status add_shard(zr_torch_set *set, const char *directory, const char *name,
                             zero_error *error)
{
    for (int f = 0; f < set->file_count; f++)
        if (!strcmp(file_name_of(set, f), name))
            return ZERO_OK;
    if (!*name || *name == '.' || strchr(name, '/'))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s/" ZR_TORCH_INDEX "\": \"%s\" is not the name of a file next to it",
                       directory, name);
    char *path = zr_sprintf(error, "%s/%s", directory, name);
    zero_status status = path ? add_file(set, path, error) : ZERO_ERR_MEMORY;
    zr_free(path);
    return status;
}

static zero_status add_shards(zr_torch_set *set, const char *directory, json_t *map,
                              zero_error *error)
{
    const char *name;
    json_t *file;
    if (!json_is_object(map))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s/" ZR_TORCH_INDEX "\" has no \"weight_map\"",
                       directory);
    json_object_foreach(map, name, file)
    {
        if (!json_is_string(file))
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s/" ZR_TORCH_INDEX "\": the file of the tensor \"%s\" is no text",
                           directory, name);
        ZERO_TRY(add_shard(set, directory, json_string_value(file), error));
    }
    return ZERO_OK;
}

static int entries_by_name(const void *a, const void *b)
{
    return strcmp(((const zr_torch_entry *)a)->name, ((const zr_torch_entry *)b)->name);
}

static zero_status add_entry(zr_torch_set *set, int file, const zr_pickle_value *key,
                             const zr_pickle_value *value, zero_error *error)
{
    const char *name = zr_pickle_text(key), *path = set->files[file].zip.path;
    if (!name || !*name)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has an entry whose name is no text", path);
    if (!zr_pickle_is(value, ZR_PICKLE_TENSOR))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": \"%s\" is no tensor; a file of a model holds tensors under their "
                       "names alone",
                       path, name);
    set->entries[set->entry_count++] =
        (zr_torch_entry){.name = name, .tensor = &value->tensor, .file = file};
    return ZERO_OK;
}

static zero_status add_entries(zr_torch_set *set, int file, zero_error *error)
{
    const zr_pickle_value *root = set->files[file].pickle.root;
    if (!zr_pickle_is(root, ZR_PICKLE_DICT))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" holds no dict of tensors",
                       set->files[file].zip.path);
    size_t count = (size_t)set->entry_count + root->items.count / 2 + 1;
    zr_torch_entry *grown = zr_realloc(set->entries, count * sizeof *grown, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    set->entries = grown;
    for (size_t i = 0; i + 1 < root->items.count; i += 2)
        ZERO_TRY(add_entry(set, file, root->items.at[i], root->items.at[i + 1], error));
    return ZERO_OK;
}

static zero_status list_entries(zr_torch_set *set, zero_error *error)
{
    for (int f = 0; f < set->file_count; f++)
        ZERO_TRY(add_entries(set, f, error));
    if (set->entry_count)
        qsort(set->entries, (size_t)set->entry_count, sizeof *set->entries, entries_by_name);
    for (int i = 1; i < set->entry_count; i++)
        if (!strcmp(set->entries[i - 1].name, set->entries[i].name))
            return zr_fail(error, ZERO_ERR_DATA, "the tensor \"%s\" is in \"%s\" and in \"%s\"",
                           set->entries[i].name, set->files[set->entries[i - 1].file].zip.path,
                           set->files[set->entries[i].file].zip.path);
    return ZERO_OK;
}

// Index and shards must agree about every tensor.
static zero_status check_index(const zr_torch_set *set, const char *directory, json_t *map,
                               zero_error *error)
{
    const char *name;
    json_t *file;
    json_object_foreach(map, name, file)
    {
        const zr_torch_entry key = {.name = name};
        const zr_torch_entry *found =
            set->entry_count
                ? bsearch(&key, set->entries, (size_t)set->entry_count, sizeof key, entries_by_name)
                : NULL;
        if (!found || strcmp(file_name_of(set, found->file), json_string_value(file)) != 0)
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s/" ZR_TORCH_INDEX
                           "\": the tensor \"%s\" should be in \"%s\", where it is not",
                           directory, name, json_string_value(file));
    }
    for (int i = 0; i < set->entry_count; i++)
        if (!json_object_get(map, set->entries[i].name))
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s/" ZR_TORCH_INDEX "\" does not name the tensor \"%s\" of \"%s\"",
                           directory, set->entries[i].name,
                           set->files[set->entries[i].file].zip.path);
    return ZERO_OK;
}

static zero_status open_shards(zr_torch_set *set, const char *directory, const char *index,
                               zero_error *error)
{
    json_t *root = NULL;
    ZERO_TRY(zr_json_load(index, ZR_ST_HEADER_LIMIT, &root, error));
    json_t *map = json_object_get(root, "weight_map");
    zero_status status = add_shards(set, directory, map, error);
    if (status == ZERO_OK)
        status = list_entries(set, error);
    if (status == ZERO_OK)
        status = check_index(set, directory, map, error);
    json_decref(root);
    return status;
}

static zero_status open_torch_directory(zr_torch_set *set, const char *directory, zero_error *error)
{
    bool single = zr_path_has(directory, ZR_TORCH_WEIGHTS);
    char *path = zr_sprintf(error, "%s/%s", directory, single ? ZR_TORCH_WEIGHTS : ZR_TORCH_INDEX);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status =
        single ? add_file(set, path, error) : open_shards(set, directory, path, error);
    if (status == ZERO_OK && single)
        status = list_entries(set, error);
    zr_free(path);
    return status;
}

static zero_status open_torch_file(zr_torch_set *set, const char *path, zero_error *error)
{
    ZERO_TRY(add_file(set, path, error));
    return zr_nanogpt_is(set->files[0].pickle.root) ? ZERO_OK : list_entries(set, error);
}

zero_status zr_torch_set_open(const char *path, zr_torch_set *out, zero_error *error)
{
    *out = (zr_torch_set){0};
    zero_status status = zr_path_is_directory(path) ? open_torch_directory(out, path, error)
                                                    : open_torch_file(out, path, error);
    if (status != ZERO_OK)
        zr_torch_set_close(out);
    return status;
}

void zr_torch_set_close(zr_torch_set *set)
{
    for (int f = 0; f < set->file_count; f++)
        zr_torch_close(&set->files[f]);
    zr_free(set->files);
    zr_free(set->entries);
    *set = (zr_torch_set){0};
}
