#include "checkpoint/ownership.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/data_source.h"

#include <dirent.h>
#include <string.h>

zero_status zr_input_paths_add(zr_input_paths *reads, const char *path, const char *option,
                               zero_error *error)
{
    if (!path || !zr_path_exists(path))
        return ZERO_OK;
    zr_input_path *at = zr_list_grow(reads->at, reads->count, &reads->capacity, sizeof *at, error);
    if (!at)
        return ZERO_ERR_MEMORY;
    reads->at = at;
    char *copy = zr_strdup(path, error);
    if (!copy)
        return ZERO_ERR_MEMORY;
    reads->at[reads->count++] = (zr_input_path){copy, option};
    return ZERO_OK;
}

zero_status zr_input_paths_add_data(zr_input_paths *reads, const char *const *written, int count,
                                    const char *option, zero_error *error)
{
    zero_status status = ZERO_OK;
    for (int i = 0; i < count && status == ZERO_OK; i++) {
        zr_data_source source;
        if (zr_data_source_parse(written[i], &source, NULL) != ZERO_OK)
            continue;
        for (int p = 0; p < source.path_count && status == ZERO_OK; p++)
            status = zr_input_paths_add(reads, source.paths[p], option, error);
        zr_data_source_free(&source);
    }
    return status;
}

void zr_input_paths_free(zr_input_paths *reads)
{
    for (int i = 0; i < reads->count; i++)
        zr_free(reads->at[i].path);
    zr_free(reads->at);
    *reads = (zr_input_paths){0};
}

// On some file systems only lstat can tell what an entry is (DT_UNKNOWN).
static bool is_link(const char *path, unsigned char type)
{
    return type == DT_LNK || (type == DT_UNKNOWN && zr_path_is_link(path));
}

// A directory of links, like those in Hugging Face's cache, is read where they lead.
static bool has_a_link_into(const char *directory, const char *place)
{
    DIR *entries = opendir(directory);
    bool found = false;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        char *path = zr_sprintf(NULL, "%s/%s", directory, entry->d_name);
        found = path && is_link(path, entry->d_type) && zr_path_lies_in(path, place);
        zr_free(path);
    }
    if (entries)
        closedir(entries);
    return found;
}

zero_status zr_input_paths_protect(const zr_input_paths *reads, const char *doomed,
                                   zero_error *error)
{
    for (int i = 0; reads && zr_path_exists(doomed) && i < reads->count; i++) {
        const zr_input_path *read = &reads->at[i];
        if (zr_path_lies_in(read->path, doomed) || has_a_link_into(read->path, doomed))
            return zr_fail(error, ZERO_ERR_USAGE,
                           "\"%s\" is read by this command (%s %s): it is not replaced; choose "
                           "another place for what is written",
                           doomed, read->option, read->path);
    }
    return ZERO_OK;
}
