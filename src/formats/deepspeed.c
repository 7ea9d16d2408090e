#include "formats/deepspeed.h"

#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIM "_optim_states.pt"
#define MODEL "_model_states.pt"
#define MOST_RANKS 65536

const char *const zr_ds_states[ZR_DS_VECTORS - 1] = {"exp_avg", "exp_avg_sq", "sum",
                                                     "momentum_buffer"};

static bool name_ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length >= tail && !strcmp(name + length - tail, end);
}

// Returns the folder that `latest` names, or the path itself if it is such a folder; otherwise
// NULL.
static char *find_folder(const char *path, zero_error *error)
{
    char *latest = zr_sprintf(error, "%s/latest", path), *tag = NULL, *folder = NULL;
    size_t length = 0;
    if (latest && zr_path_exists(latest) &&
        zr_file_read(latest, 4096, &tag, &length, error) == ZERO_OK) {
        tag[strcspn(tag, "\r\n")] = 0;
        bool inside = *tag && *tag != '.' && !strchr(tag, '/');
        folder = inside ? zr_sprintf(error, "%s/%s", path, tag) : NULL;
        if (folder && !zr_path_exists(folder)) {
            zr_free(folder);
            folder = NULL;
        }
    } else if (latest && !zr_path_exists(latest)) {
        folder = zr_strdup(path, error);
    }
    zr_free(tag);
    zr_free(latest);
    return folder;
}

typedef struct listing {
    int optim, optim_most, model3, model3_most;
    bool whole_model, parallel, experts, layers;
} listing;

// Parses "[bf16_]zero_pp_rank_R_mp_rank_M", followed by `end`.
static bool parse_rank(const char *name, const char *end, int *rank, int *parallel)
{
    char again[64];
    const char *from = strstr(name, "zero_pp_rank_");
    if (!from || sscanf(from, "zero_pp_rank_%d_mp_rank_%d", rank, parallel) != 2 || *rank < 0 ||
        *rank >= MOST_RANKS)
        return false;
    snprintf(again, sizeof again, "zero_pp_rank_%d_mp_rank_%02d%s", *rank, *parallel, end);
    return !strcmp(again, from);
}

static void list_name(const char *name, listing *l)
{
    int rank, parallel = 0;
    if (parse_rank(name, OPTIM, &rank, &parallel)) {
        l->optim++;
        l->optim_most = ZR_MAX(l->optim_most, rank + 1);
    } else if (parse_rank(name, MODEL, &rank, &parallel)) {
        l->model3++;
        l->model3_most = ZR_MAX(l->model3_most, rank + 1);
    } else if (name_ends_with(name, MODEL)) {
        l->whole_model = l->whole_model || !strcmp(name, "mp_rank_00" MODEL);
        l->parallel = l->parallel || (sscanf(name, "mp_rank_%d", &parallel) == 1 && parallel);
        l->layers = l->layers || !strncmp(name, "layer_", 6);
        l->experts = l->experts || strstr(name, "expert");
    }
    l->parallel = l->parallel || parallel;
    l->experts = l->experts || !strncmp(name, "expp_rank_", 10);
}

static bool list_folder(const char *folder, listing *l)
{
    DIR *directory = opendir(folder);
    *l = (listing){0};
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        list_name(entry->d_name, l);
    if (directory)
        closedir(directory);
    return directory != NULL;
}

bool zr_deepspeed_is(const char *path)
{
    listing l = {0};
    char *folder = find_folder(path, NULL);
    bool is = folder && list_folder(folder, &l) && (l.optim || l.model3 || l.whole_model);
    zr_free(folder);
    return is;
}

// Opens the rank's file in the folder, with whichever prefix its name has.
static zero_status open_rank(const char *folder, int rank, const char *end, zr_torch_file *out,
                             zero_error *error)
{
    static const char *const before[] = {"bf16_", "fp16_", ""};
    char *path = NULL;
    for (int i = 0; i < ZR_COUNT(before); i++) {
        zr_free(path);
        path = zr_sprintf(error, "%s/%szero_pp_rank_%d_mp_rank_00%s", folder, before[i], rank, end);
        if (!path)
            return ZERO_ERR_MEMORY;
        if (zr_path_exists(path))
            break;
    }
    zero_status status = zr_torch_open(path, out, error);
    zr_free(path);
    return status;
}

const zr_torch_file *zr_ds_file(const zr_deepspeed *ds, int file)
{
    return file < ds->ranks ? &ds->optim[file] : &ds->model[file - ds->ranks];
}

const char *zr_ds_path(const zr_deepspeed *ds, int file) { return zr_ds_file(ds, file)->zip.path; }

const zr_pickle_value *zr_ds_optimizer(const zr_deepspeed *ds, int rank)
{
    return zr_pickle_get(ds->optim[rank].pickle.root, "optimizer_state_dict");
}

const zr_pickle_value *zr_ds_flat(const zr_deepspeed *ds, int rank)
{
    return zr_pickle_get(zr_ds_optimizer(ds, rank),
                         ds->stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups");
}

const zr_pickle_value *zr_ds_group_state(const zr_deepspeed *ds, int rank, int group)
{
    const zr_pickle_value *all =
        zr_pickle_get(zr_ds_optimizer(ds, rank),
                      ds->stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
    if (!zr_pickle_is(all, ZR_PICKLE_DICT)) // elastic checkpoints have a list
        return zr_pickle_at(all, (size_t)group);
    const zr_pickle_value *states = zr_pickle_get(all, "state");
    for (size_t i = 0; zr_pickle_is(states, ZR_PICKLE_DICT) && i + 1 < states->items.count;
         i += 2) {
        int64_t key;
        if (zr_pickle_integer(states->items.at[i], &key) && key == group)
            return states->items.at[i + 1];
    }
    return NULL;
}

static zero_status check_listing(const char *folder, const listing *l, zero_error *error)
{
    const char *what = l->parallel  ? "tensor parallelism"
                       : l->layers  ? "a pipeline"
                       : l->experts ? "experts"
                                    : NULL;
    if (what)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\" is a checkpoint with %s, which is not read yet", folder, what);
    if (!l->optim)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\" has no *" OPTIM ": it is no checkpoint of ZeRO's stages 1 to 3",
                       folder);
    if (l->optim != l->optim_most)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has %d files *" OPTIM
                       ", the highest of rank %d: some are missing, or are there twice",
                       folder, l->optim, l->optim_most - 1);
    if (!l->whole_model && l->model3 != l->optim)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has neither mp_rank_00" MODEL " nor %d files zero_pp_rank_*" MODEL,
                       folder, l->optim);
    return ZERO_OK;
}

static zero_status open_files(zr_deepspeed *ds, zero_error *error)
{
    listing l;
    if (!list_folder(ds->folder, &l))
        return zr_fail(error, ZERO_ERR_IO, "cannot list the directory \"%s\"", ds->folder);
    ZERO_TRY(check_listing(ds->folder, &l, error));
    bool whole = ds->whole = l.whole_model;
    int models = whole ? 1 : l.optim;
    ds->optim = zr_alloc((size_t)l.optim * sizeof *ds->optim, error);
    ds->model = zr_alloc((size_t)models * sizeof *ds->model, error);
    if (!ds->optim || !ds->model)
        return ZERO_ERR_MEMORY;
    for (; ds->ranks < l.optim; ds->ranks++)
        ZERO_TRY(open_rank(ds->folder, ds->ranks, OPTIM, &ds->optim[ds->ranks], error));
    for (; ds->models < models && !whole; ds->models++)
        ZERO_TRY(open_rank(ds->folder, ds->models, MODEL, &ds->model[ds->models], error));
    if (!whole)
        return ZERO_OK;
    char *path = zr_sprintf(error, "%s/mp_rank_00" MODEL, ds->folder);
    zero_status status = path ? zr_torch_open(path, &ds->model[0], error) : ZERO_ERR_MEMORY;
    ds->models = status == ZERO_OK;
    zr_free(path);
    return status;
}

// Reads the stage. DeepSpeed's optimizer for bf16 with fp32 gradients does not write it; its layout
// is that of stage 1.
static zero_status read_stage(zr_deepspeed *ds, int rank, int64_t *stage, zero_error *error)
{
    const zr_pickle_value *optimizer = zr_ds_optimizer(ds, rank),
                          *count = zr_pickle_get(optimizer, "partition_count");
    int64_t partitions = 0, one;
    if (!zr_pickle_is(optimizer, ZR_PICKLE_DICT))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" holds no optimizer_state_dict",
                       zr_ds_path(ds, rank));
    if (!zr_pickle_integer(zr_pickle_get(optimizer, "zero_stage"), stage))
        *stage = zr_pickle_get(optimizer, "single_partition_of_fp32_groups") ? 1 : 0;
    if (*stage < 1 || *stage > 3)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\" is of ZeRO stage %lld: stages 1 to 3 are read", zr_ds_path(ds, rank),
                       (long long)*stage);
    zr_pickle_integer(count, &partitions);
    for (size_t i = 0; zr_pickle_at(count, i); i++)
        if (zr_pickle_integer(zr_pickle_at(count, i), &one))
            partitions = ZR_MAX(partitions, one);
    if (partitions != ds->ranks)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" was written by one of %lld ranks, \"%s\" has files of %d",
                       zr_ds_path(ds, rank), (long long)partitions, ds->folder, ds->ranks);
    return ZERO_OK;
}

static zero_status read_stages(zr_deepspeed *ds, zero_error *error)
{
    int64_t stage = 0, of_first = 0;
    ZERO_TRY(read_stage(ds, 0, &of_first, error));
    for (int r = 1; r < ds->ranks; r++) {
        ZERO_TRY(read_stage(ds, r, &stage, error));
        if (stage != of_first)
            return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is of ZeRO stage %lld, rank 0's of %lld",
                           zr_ds_path(ds, r), (long long)stage, (long long)of_first);
    }
    ds->stage = (int)of_first;
    if ((ds->stage == 3) == ds->whole)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" is of ZeRO stage %d, but has the model's files of another",
                       ds->folder, ds->stage);
    return ZERO_OK;
}

static zero_status read_tensor_bytes(zr_source *source, int vector, int tensor, int64_t first,
                                     int64_t bytes, void *out, zero_error *error)
{
    const zr_deepspeed *ds = source->own;
    const zr_ds_tensor *of = &ds->vectors[vector].tensors[tensor];
    char *to = out;
    for (int i = 0; i < of->count && bytes > 0; i++) {
        const zr_ds_stretch *stretch = &ds->stretches[of->first + i];
        if (first >= stretch->bytes) {
            first -= stretch->bytes;
            continue;
        }
        const zr_zip *zip = &zr_ds_file(ds, stretch->file)->zip;
        int64_t n = ZR_MIN(bytes, stretch->bytes - first);
        ZERO_TRY(zr_file_pread(zip->fd, to, (size_t)n, stretch->begin + first, zip->path, error));
        to += n;
        bytes -= n;
        first = 0;
    }
    assert(bytes == 0);
    return ZERO_OK;
}

static zero_status verify_deepspeed(zr_source *source, zr_source_progress progress,
                                    zr_source_damage damaged, void *user, zero_error *error)
{
    const zr_deepspeed *ds = source->own;
    for (int f = 0; f < ds->ranks + ds->models; f++)
        ZERO_TRY(zr_torch_verify(zr_ds_file(ds, f), progress, damaged, user, error));
    return ZERO_OK;
}

static void close_deepspeed(zr_source *source)
{
    zr_deepspeed *ds = source->own;
    for (int r = 0; r < ds->ranks; r++)
        zr_torch_close(&ds->optim[r]);
    for (int r = 0; r < ds->models; r++)
        zr_torch_close(&ds->model[r]);
    for (int v = 0; v < ds->vector_count; v++) {
        zr_free(ds->vectors[v].parts);
        zr_free(ds->vectors[v].tensors);
    }
    zr_free(ds->optim);
    zr_free(ds->model);
    zr_free(ds->stretches);
    zr_free(ds->folder);
    zr_free(ds);
}

static const zr_source_ops ops = {
    .read = read_tensor_bytes, .verify = verify_deepspeed, .close = close_deepspeed};

static void forget_pickles(zr_deepspeed *ds, zr_source *out)
{
    for (int f = 0; f < ds->ranks + ds->models; f++) {
        zr_torch_file *file = (zr_torch_file *)zr_ds_file(ds, f);
        out->file_bytes += file->zip.size;
        zr_pickle_free(&file->pickle);
    }
}

static zero_status open_deepspeed_folder(zr_deepspeed *ds, const char *path, zr_source *out,
                                         zero_error *error)
{
    ds->folder = find_folder(path, error);
    out->path = ds->folder ? zr_strdup(ds->folder, error) : NULL;
    if (!out->path)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s/latest\" names no folder next to it", path);
    ZERO_TRY(open_files(ds, error));
    ZERO_TRY(read_stages(ds, error));
    ZERO_TRY(zr_ds_lay_out(ds, out, error));
    ZERO_TRY(zr_ds_describe(ds, out, error));
    forget_pickles(ds, out);
    return ZERO_OK;
}

zero_status zr_deepspeed_open(const char *path, zr_source *out, zero_error *error)
{
    *out = (zr_source){.kind = ZR_SOURCE_DEEPSPEED};
    zr_deepspeed *ds = zr_alloc(sizeof *ds, error);
    if (!ds)
        return ZERO_ERR_MEMORY;
    out->own = ds;
    out->ops = &ops;
    zero_status status = open_deepspeed_folder(ds, path, out, error);
    if (status != ZERO_OK)
        zr_source_close(out);
    return status;
}
