// Parses the arguments of --data and expands patterns. Nothing here reads more of a file than its
// first bytes.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "data/data_source.h"
#include "data/parquet.h"
#include "data/token_file.h"
#include "data/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    zr_data_kind kind;
    zr_token_format format;
} kinds[] = {
    {"text", ZR_DATA_TEXT, ZR_TOKENS_DETECT},
    {"jsonl", ZR_DATA_JSONL, ZR_TOKENS_DETECT},
    {"json", ZR_DATA_JSONL, ZR_TOKENS_DETECT},
    {"parquet", ZR_DATA_JSONL, ZR_TOKENS_DETECT},
    {"tokens", ZR_DATA_TOKENS, ZR_TOKENS_DETECT},
    {"llmc", ZR_DATA_TOKENS, ZR_TOKENS_LLMC},
    {"nanogpt", ZR_DATA_TOKENS, ZR_TOKENS_NANOGPT},
    {"megatron", ZR_DATA_TOKENS, ZR_TOKENS_MEGATRON},
};

static bool begins_with_magic(const char *path)
{
    int32_t word = 0;
    int fd;
    bool found = zr_file_open(path, &fd, NULL) == ZERO_OK &&
                 pread(fd, &word, sizeof word, 0) == sizeof word &&
                 (word == ZR_LLMC_MAGIC_16 || word == ZR_LLMC_MAGIC_32);
    if (fd >= 0)
        close(fd);
    return found;
}

static bool begins_as_parquet(const char *path)
{
    char head[5];
    return zr_parquet_begins(head, zr_file_head(path, head, sizeof head));
}

zr_data_kind zr_data_source_kind_of(const zr_data_source *source, const char *path)
{
    if (source->named)
        return source->kind;
    if (zr_packed_path_ends(path, ".jsonl") || zr_packed_path_ends(path, ".ndjson") ||
        zr_packed_path_ends(path, ".json") || begins_as_parquet(path))
        return ZR_DATA_JSONL;
    return zr_token_file_is_name(path) || begins_with_magic(path) ? ZR_DATA_TOKENS : ZR_DATA_TEXT;
}

// Removes "KIND:" and returns what follows.
static const char *take_kind(const char *at, zr_data_source *out)
{
    for (int i = 0; i < ZR_COUNT(kinds); i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(at, kinds[i].name, length) || at[length] != ':')
            continue;
        out->named = true;
        out->kind = kinds[i].kind;
        out->format = kinds[i].format;
        return at + length + 1;
    }
    return at;
}

// Removes ":WEIGHT" from the end of `path`.
static zero_status take_weight(char *path, zr_data_source *out, zero_error *error)
{
    char *colon = strrchr(path, ':'), *end;
    if (!colon || !colon[1] || strchr(" \t\n+", colon[1]))
        return ZERO_OK;
    double weight = strtod(colon + 1, &end);
    if (*end)
        return ZERO_OK; // it is part of a name
    if (!(weight > 0) || !isfinite(weight))
        return zr_fail(error, ZERO_ERR_USAGE, "\"%s\": the weight %s must be a number above 0",
                       out->written, colon + 1);
    out->weight = weight;
    *colon = 0;
    return ZERO_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static zero_status add_path(zr_data_source *out, const char *path, zero_error *error)
{
    out->paths[out->path_count] = zr_strdup(path, error);
    if (!out->paths[out->path_count])
        return ZERO_ERR_MEMORY;
    out->path_count++;
    return ZERO_OK;
}

static zero_status expand_pattern(zr_data_source *out, const char *path, zero_error *error)
{
    glob_t found = {0};
    bool pattern = strpbrk(path, "*?[") && !zr_path_exists(path);
    // The files are sorted here, because glob's own order depends on the locale.
    int result = pattern ? glob(path, GLOB_NOSORT, NULL, &found) : 0;
    size_t count = pattern ? found.gl_pathc : 1;
    zero_status status = ZERO_OK;
    if (result == GLOB_NOSPACE)
        status = zr_fail(error, ZERO_ERR_MEMORY, "\"%s\": no memory for the files that it matches",
                         out->written);
    else if (result || !count)
        status = zr_fail(error, ZERO_ERR_USAGE, "\"%s\" matches no file", path);
    else if (!(out->paths = zr_alloc(count * sizeof *out->paths, error)))
        status = ZERO_ERR_MEMORY;
    for (size_t i = 0; i < count && status == ZERO_OK; i++)
        status = add_path(out, pattern ? found.gl_pathv[i] : path, error);
    if (status == ZERO_OK)
        qsort(out->paths, count, sizeof *out->paths, by_bytes);
    globfree(&found);
    return status;
}

static zero_status parse_written_source(zr_data_source *out, zero_error *error)
{
    if (zr_path_exists(out->written))
        return expand_pattern(out, out->written, error);
    const char *rest = take_kind(out->written, out);
    if (!*rest)
        return zr_fail(error, ZERO_ERR_USAGE, "\"%s\" names no file", out->written);
    char *path = zr_strdup(rest, error);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_path_exists(path) ? ZERO_OK : take_weight(path, out, error);
    if (status == ZERO_OK)
        status = expand_pattern(out, path, error);
    zr_free(path);
    return status;
}

zero_status zr_data_source_parse(const char *written, zr_data_source *out, zero_error *error)
{
    *out = (zr_data_source){.written = zr_strdup(written, error)};
    zero_status status = out->written ? parse_written_source(out, error) : ZERO_ERR_MEMORY;
    if (status != ZERO_OK)
        zr_data_source_free(out);
    return status;
}

void zr_data_source_free(zr_data_source *source)
{
    for (int i = 0; i < source->path_count; i++)
        zr_free(source->paths[i]);
    zr_free(source->paths);
    zr_free(source->written);
    *source = (zr_data_source){0};
}

// A Megatron file may be named without its end; it is checked when it is opened.
static zero_status check_files_exist(const zr_data_source *source, zero_error *error)
{
    struct stat info;
    bool opened = source->named && source->kind == ZR_DATA_TOKENS;
    for (int p = 0; p < source->path_count && !opened; p++)
        if (stat(source->paths[p], &info) && errno == ENOENT)
            return zr_fail_errno(error, ZERO_ERR_IO, ENOENT, "cannot open \"%s\"",
                                 source->paths[p]);
    return ZERO_OK;
}

zero_status zr_data_sources_are_there(const char *const *arguments, int count, zero_error *error)
{
    zero_status status = ZERO_OK;
    for (int i = 0; i < count && status == ZERO_OK; i++) {
        zr_data_source source = {0};
        status = zr_data_source_parse(arguments[i], &source, error);
        if (status != ZERO_OK)
            break;
        status = check_files_exist(&source, error);
        zr_data_source_free(&source);
    }
    return status;
}
