#include "checkpoint/run_directory.h"

#include "base/alloc.h"
#include "base/file.h"
#include "formats/manifest.h"
#include "formats/source_torch.h"
#include "model/lora_peft.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

bool zr_checkpoint_step(const char *name, int64_t *step)
{
    char again[ZR_CHECKPOINT_NAME_BYTES];
    long long number;
    if (sscanf(name, "step-%lld", &number) != 1)
        return false;
    snprintf(again, sizeof again, ZR_CHECKPOINT_NAME, number);
    *step = number;
    return !strcmp(again, name);
}

static char *checkpoints_folder_of(const char *run, zero_error *error)
{
    return zr_sprintf(error, "%s/" ZR_CHECKPOINTS, run);
}

static zero_status read_names(const char *folder, zr_buffer *steps, zero_error *error)
{
    int64_t step;
    DIR *directory = opendir(folder);
    if (!directory && errno != ENOENT && errno != ENOTDIR)
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot look into \"%s\"", folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (zr_checkpoint_step(entry->d_name, &step))
            zr_buffer_append(steps, &step, sizeof step);
    if (directory)
        closedir(directory);
    return steps->failed ? zr_fail(error, ZERO_ERR_MEMORY,
                                   "no memory for the list of checkpoints in \"%s\"", folder)
                         : ZERO_OK;
}

zero_status zr_checkpoints_list(const char *run, zr_checkpoints *out, zero_error *error)
{
    zr_buffer steps = {0};
    char *folder = checkpoints_folder_of(run, error);
    *out = (zr_checkpoints){0};
    zero_status status = folder ? read_names(folder, &steps, error) : ZERO_ERR_MEMORY;
    zr_free(folder);
    if (status != ZERO_OK) {
        zr_buffer_free(&steps);
        return status;
    }
    *out =
        (zr_checkpoints){(int64_t *)(void *)steps.data, (int)(steps.length / sizeof *out->steps)};
    if (out->count)
        qsort(out->steps, (size_t)out->count, sizeof *out->steps, newest_first);
    return ZERO_OK;
}

void zr_checkpoints_free(zr_checkpoints *checkpoints)
{
    zr_free(checkpoints->steps);
    *checkpoints = (zr_checkpoints){0};
}

zero_status zr_checkpoints_make(const char *run, zero_error *error)
{
    char *folder = checkpoints_folder_of(run, error);
    zero_status status = folder ? zr_directory_create(folder, error) : ZERO_ERR_MEMORY;
    zr_free(folder);
    return status;
}

char *zr_checkpoint_path(const char *run, int64_t step, zero_error *error)
{
    return zr_sprintf(error, "%s/" ZR_CHECKPOINTS "/" ZR_CHECKPOINT_NAME, run, (long long)step);
}

static bool has_all_files(const char *path, const zr_manifest *manifest)
{
    bool all = true;
    for (int f = 0; f < manifest->file_count && all; f++) {
        struct stat info;
        char *file = zr_sprintf(NULL, "%s/%s", path, manifest->files[f].name);
        all = file && stat(file, &info) == 0 && info.st_size == manifest->files[f].bytes;
        zr_free(file);
    }
    return all;
}

bool zr_checkpoint_is_intact(const char *path)
{
    zr_manifest manifest = {0};
    bool whole =
        zr_manifest_read(path, &manifest, NULL) == ZERO_OK && has_all_files(path, &manifest);
    zr_manifest_free(&manifest);
    return whole;
}

bool zr_checkpoint_is_whole(const char *run, int64_t step)
{
    char *path = zr_checkpoint_path(run, step, NULL);
    bool whole = path && zr_checkpoint_is_intact(path);
    zr_free(path);
    return whole;
}

static void format_latest(int64_t step, char out[static 2 * ZR_CHECKPOINT_NAME_BYTES])
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    snprintf(name, sizeof name, ZR_CHECKPOINT_NAME, (long long)step);
    snprintf(out, 2 * ZR_CHECKPOINT_NAME_BYTES, "%s %08x\n", name,
             (unsigned)zr_crc32c(0, name, strlen(name)));
}

#define LATEST ZR_CHECKPOINTS "/" ZR_LATEST

zero_status zr_checkpoint_write_latest(const char *run, int64_t step, zero_error *error)
{
    char line[2 * ZR_CHECKPOINT_NAME_BYTES];
    format_latest(step, line);
    return zr_file_write_in(run, LATEST, line, strlen(line), error);
}

void zr_checkpoint_check_latest(const char *run, const zr_checkpoints *found,
                                const zero_logger *logger)
{
    char line[2 * ZR_CHECKPOINT_NAME_BYTES], *text = NULL,
                                             *path = zr_sprintf(NULL, "%s/" LATEST, run);
    size_t length;
    bool named = false;
    if (path && zr_path_exists(path) &&
        zr_file_read(path, sizeof line, &text, &length, NULL) == ZERO_OK)
        for (int i = 0; i < found->count && !named; i++) {
            format_latest(found->steps[i], line);
            named = !strcmp(text, line);
        }
    else
        named = path && !zr_path_exists(path); // absent if the run ended before it was written
    if (!named)
        zr_log(logger, ZERO_LOG_WARNING,
               "\"%s/" LATEST "\" is damaged, or names a checkpoint that is not there; the "
               "directories themselves count",
               run);
    zr_free(text);
    zr_free(path);
}

bool zr_is_run(const char *path)
{
    return zr_path_has(path, ZR_METRICS_FILE) ||
           (zr_path_has(path, ZR_CHECKPOINTS) && !zr_path_has(path, ZR_MANIFEST));
}

bool zr_has_weights(const char *directory)
{
    return zr_path_has(directory, ZR_MODEL_WEIGHTS) || zr_path_has(directory, ZR_MODEL_INDEX);
}

zero_status zr_checkpoint_newest_whole(const char *run, char **out, zero_error *error)
{
    zr_checkpoints list;
    *out = NULL;
    ZERO_TRY(zr_checkpoints_list(run, &list, error));
    zero_status status = ZERO_OK;
    for (int i = 0; i < list.count && !*out && status == ZERO_OK; i++)
        if (zr_checkpoint_is_whole(run, list.steps[i]))
            status =
                (*out = zr_checkpoint_path(run, list.steps[i], error)) ? ZERO_OK : ZERO_ERR_MEMORY;
    zr_checkpoints_free(&list);
    return status;
}

zero_status zr_run_find_result(const char *path, char **out, zero_error *error)
{
    char *model = zr_sprintf(error, "%s/" ZR_LAST_MODEL, path);
    *out = NULL;
    zero_status status = model ? zr_checkpoint_newest_whole(path, out, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && !*out && !zr_has_weights(path) && zr_has_weights(model)) {
        *out = model;
        model = NULL;
    }
    zr_free(model);
    return status;
}

zero_status zr_find_model_files(const char *path, char **out, zero_error *error)
{
    static const char *const places[] = {"", "/../../" ZR_LAST_MODEL, "/../../" ZR_BEST_MODEL};
    *out = NULL;
    for (int i = 0; i < ZR_COUNT(places); i++) {
        char *directory = zr_sprintf(error, "%s%s", path, places[i]);
        if (!directory)
            return ZERO_ERR_MEMORY;
        if (zr_path_has(directory, ZR_MODEL_CONFIG)) {
            *out = directory;
            return ZERO_OK;
        }
        zr_free(directory);
    }
    return ZERO_OK;
}

static zero_status refuse_run_without_model(const char *run, zero_error *error)
{
    char *best = zr_sprintf(error, "%s/" ZR_BEST_MODEL, run), *newest = NULL;
    zero_status status = best ? zr_checkpoint_newest_whole(run, &newest, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && newest)
        status = zr_fail(error, ZERO_ERR_USAGE,
                         "\"%s\" is a run that has no model yet; zero convert --from %s --to DIR "
                         "makes one of its newest checkpoint, \"%s\"",
                         run, run, newest);
    else if (status == ZERO_OK && zr_has_weights(best))
        status = zr_fail(
            error, ZERO_ERR_USAGE,
            "\"%s\" is a run that has no last model yet; its best one so far is \"%s\"", run, best);
    else if (status == ZERO_OK)
        status = zr_fail(error, ZERO_ERR_USAGE,
                         "\"%s\" is a run that has neither a model nor a checkpoint yet", run);
    zr_free(newest);
    zr_free(best);
    return status;
}

// Finds the newest checkpoint of a run whose `model` has all files except the weights; NULL if
// there is none.
static zero_status find_interrupted(const char *run, const char *model, char **out,
                                    zero_error *error)
{
    *out = NULL;
    return zr_has_weights(model) || !zr_path_has(model, ZR_MODEL_CONFIG)
               ? ZERO_OK
               : zr_checkpoint_newest_whole(run, out, error);
}

static zero_status refuse_torch(const char *directory, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE,
                   "\"%s\" has its weights in " ZR_TORCH_WEIGHTS
                   ", which training and generating do "
                   "not read; zero convert --from %s --to DIR makes a model directory of it",
                   directory, directory);
}

zero_status zr_find_weights(const char *directory, char **out, zero_error *error)
{
    *out = NULL;
    if (zr_path_is_directory(directory) && zr_source_torch_is(directory))
        return refuse_torch(directory, error);
    char *run = zr_sprintf(error, "%s/..", directory), *checkpoint = NULL;
    zero_status status =
        run ? find_interrupted(run, directory, &checkpoint, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK) {
        *out = checkpoint ? zr_sprintf(error, "%s/weights.safetensors", checkpoint)
                          : zr_strdup(directory, error);
        status = *out ? ZERO_OK : ZERO_ERR_MEMORY;
    }
    zr_free(checkpoint);
    zr_free(run);
    return status;
}

// Refuses what has adapters of a model that is elsewhere; `directory` is theirs.
static zero_status refuse_adapters(const char *given, const char *directory, zero_error *error)
{
    char *base;
    zero_status status = zr_lora_read_base_in(directory, &base, error);
    const char *model = base ? base : "BASE";
    if (status == ZERO_OK)
        status = zr_fail(error, ZERO_ERR_USAGE,
                         "\"%s\" has adapters of a model: --model %s --adapter %s takes them, and "
                         "zero convert --from %s --adapter %s --to DIR makes a model with them",
                         given, model, given, model, given);
    zr_free(base);
    return status;
}

static zero_status refuse_run_of_adapters(const char *run, zero_error *error)
{
    char *directory = zr_sprintf(error, "%s/" ZR_RUN_ADAPTER_DIRECTORY, run);
    if (!directory)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_path_has(directory, ZR_ADAPTER_CONFIG)
                             ? refuse_adapters(run, directory, error)
                             : ZERO_OK;
    zr_free(directory);
    return status;
}

static zero_status model_of_run(const char *run, const zero_logger *logger, char **out,
                                zero_error *error)
{
    ZERO_TRY(refuse_run_of_adapters(run, error));
    char *model = zr_sprintf(error, "%s/" ZR_LAST_MODEL, run), *checkpoint = NULL;
    zero_status status = model ? find_interrupted(run, model, &checkpoint, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && !checkpoint && !zr_has_weights(model))
        status = refuse_run_without_model(run, error);
    if (status != ZERO_OK) {
        zr_free(model);
        return status;
    }
    if (checkpoint)
        zr_log(logger, ZERO_LOG_WARNING,
               "\"%s\" is a run that has no model yet: the weights of its newest checkpoint \"%s\" "
               "are taken",
               run, checkpoint);
    else
        zr_log(logger, ZERO_LOG_WARNING,
               "\"%s\" is the directory of a run: its model \"%s\" is taken", run, model);
    zr_free(checkpoint);
    *out = model;
    return ZERO_OK;
}

// Resolves a path that exists, or may exist.
static zero_status resolve_model_path(const char *given, const zero_logger *logger, char **out,
                                      zero_error *error)
{
    if (zr_path_has(given, ZR_MANIFEST) && !zr_path_has(given, ZR_MODEL_CONFIG))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "\"%s\" is a checkpoint, not a model; zero convert --from %s --to DIR makes "
                       "a model of it",
                       given, given);
    if (zr_path_has(given, ZR_ADAPTER_CONFIG) && !zr_path_has(given, ZR_MODEL_CONFIG))
        return refuse_adapters(given, given, error);
    if (zr_is_run(given) && !zr_has_weights(given))
        return model_of_run(given, logger, out, error);
    *out = zr_strdup(given, error);
    return *out ? ZERO_OK : ZERO_ERR_MEMORY;
}

static bool has_name_and_ending(const char *text, const char *ending)
{
    size_t length = strlen(text), of = strlen(ending);
    return length > of && !strcmp(text + length - of, ending);
}

// Returns whether a path looks like a model's name on a hub: NAME, or ORGANISATION/NAME.
static bool is_as_on_hubs(const char *given)
{
    const char *slash = strchr(given, '/');
    bool plain = !strchr("./~", given[0]) && given[strlen(given) - 1] != '/';
    return plain && (!slash || !strchr(slash + 1, '/'));
}

static zero_status refuse_missing(const char *given, zero_error *error)
{
    const char *slash = strrchr(given, '/'), *name = slash ? slash + 1 : given;
    if (!is_as_on_hubs(given))
        return zr_fail(error, ZERO_ERR_IO,
                       "there is no directory \"%s\": models are read from the disk, in Hugging "
                       "Face's layout (a preset is named by --new)",
                       given);
    return zr_fail(error, ZERO_ERR_IO,
                   "there is no directory \"%s\": models are read from the disk, and `hf download "
                   "%s --local-dir %s` brings one of this name (a preset is named by --new)",
                   given, given, name);
}

#define OF_TORCH                                                                                   \
    "a file of weights: zero convert --from FILE --to DIR makes a model directory of what "        \
    "torch.save wrote"
static zero_status refuse_file(const char *given, zero_error *error)
{
    static const struct {
        const char *ending, *text;
    } kinds[] = {
        {".gguf",
         "a GGUF file, of which zero convert --from FILE --to DIR makes a model directory"},
        {".safetensors", "a file of weights: the directory that it is in would do, if config.json "
                         "is there, too"},
        {".bin", OF_TORCH},
        {".pt", OF_TORCH},
        {".pth", OF_TORCH},
        {"", "a file"},
    };
    int i = 0;
    while (kinds[i].ending[0] && !has_name_and_ending(given, kinds[i].ending))
        i++;
    return zr_fail(error, ZERO_ERR_IO,
                   "\"%s\" is %s: a model is a directory in Hugging Face's layout, with "
                   "config.json",
                   given, kinds[i].text);
}

zero_status zr_model_directory(const char *given, const zero_logger *logger, char **out,
                               zero_error *error)
{
    *out = NULL;
    if (!given)
        return ZERO_OK;
    if (!zr_path_exists(given))
        return refuse_missing(given, error);
    if (!zr_path_is_directory(given) && !has_name_and_ending(given, ".json"))
        return refuse_file(given, error);
    return resolve_model_path(given, logger, out, error);
}

zero_status zr_tokenizer_directory(const char *given, const zero_logger *logger, char **out,
                                   zero_error *error)
{
    bool word = given && (!strcmp(given, "bytes") || !strcmp(given, "chars"));
    *out = NULL;
    if (!given)
        return ZERO_OK;
    if (!word && !zr_path_has(given, "tokenizer.json"))
        return resolve_model_path(given, logger, out, error);
    *out = zr_strdup(given, error);
    return *out ? ZERO_OK : ZERO_ERR_MEMORY;
}
