// zero_convert: writes any source (formats/source.h) as a Hugging Face directory, and
// DeepSpeed's checkpoints as ours.
#include "base/errors.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/states.h"
#include "formats/safetensors_write.h"
#include "commands/convert_gguf.h"
#include "commands/convert_head.h"
#include "commands/convert_lora.h"
#include "commands/convert_mark.h"
#include "checkpoint/adapter_directory.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/model_view.h"
#include "checkpoint/ownership.h"
#include "checkpoint/run_directory.h"
#include <zero/comm.h>
#include <zero/commands.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SHARD_BYTES 5000000000

typedef struct converting {
    const zero_convert_options *options;
    char *model_dir; // the options' model, if it is one itself
    char *adapter;   // the directory of the options' adapter
    // `from` as it was resolved (a run's checkpoint); `to` without slashes at its end.
    char *from, *to;
    zr_source source;
    int64_t done, total;
    zero_error *error;
} converting;

static void tell_progress(void *user, int64_t bytes)
{
    converting *c = user;
    c->done += bytes;
    if (c->options->progress)
        c->options->progress(c->options->progress_user, ZR_MIN(c->done, c->total), c->total);
}

static int64_t vector_bytes(const zr_source_vector *vector)
{
    int64_t bytes = 0;
    for (int t = 0; t < vector->tensor_count; t++)
        bytes += vector->tensors[t].bytes;
    return bytes;
}

static void keep_damage(void *user, const zero_error *what)
{
    zero_error *first = user;
    if (first->status == ZERO_OK)
        *first = *what;
}

typedef struct verifying {
    converting *c;
    zero_error first;
} verifying;

static void tell_verified(void *user, int64_t bytes)
{
    tell_progress(((verifying *)user)->c, bytes);
}

static void note_damage(void *user, const zero_error *what)
{
    keep_damage(&((verifying *)user)->first, what);
}

// torch's files have checksums of whole records.
static bool is_of_torch(const zr_source *source)
{
    return source->kind == ZR_SOURCE_DEEPSPEED || source->kind == ZR_SOURCE_TORCH;
}

// Verifies torch's files before anything is read. Our checkpoints are verified as they are read.
static zero_status verify_files_of_torch(converting *c)
{
    verifying v = {.c = c};
    if (!is_of_torch(&c->source))
        return ZERO_OK;
    ZERO_TRY(c->source.ops->verify(&c->source, tell_verified, note_damage, &v, c->error));
    return v.first.status == ZERO_OK ? ZERO_OK
                                     : zr_fail(c->error, v.first.status, "%s", v.first.message);
}

// Adds the checkpoint or model, and the directories from which its config.json and tokenizer come.
static zero_status gather_input_paths(const converting *c, zr_input_paths *reads)
{
    char *found = NULL;
    ZERO_TRY(zr_input_paths_add(reads, c->from, "--from", c->error));
    ZERO_TRY(zr_input_paths_add(reads, c->model_dir, "--model", c->error));
    ZERO_TRY(zr_input_paths_add(reads, c->adapter, "--adapter", c->error));
    ZERO_TRY(c->model_dir ? ZERO_OK : zr_find_model_files(c->source.path, &found, c->error));
    zero_status status = zr_input_paths_add(reads, found, "--from", c->error);
    zr_free(found);
    return status;
}

// Only a model or an adapter that libzero wrote is ever replaced: never together with something
// else in its directory, and never while it is being read.
static zero_status check_replaced(const converting *c)
{
    const char *to = c->to;
    struct stat info;
    zr_input_paths reads = {0};
    bool is_model = lstat(to, &info) == 0 && S_ISDIR(info.st_mode) &&
                    (zr_has_weights(to) || zr_is_adapter(to)) && !zr_path_has(to, ZR_CHECKPOINTS);
    if (!is_model)
        return zr_fail(c->error, ZERO_ERR_USAGE,
                       "\"%s\" is not a directory that holds only a model: it is not replaced; "
                       "choose another directory",
                       to);
    ZERO_TRY(zr_convert_mark_check(to, c->error));
    zero_status status = gather_input_paths(c, &reads);
    if (status == ZERO_OK)
        status = zr_input_paths_protect(&reads, to, c->error);
    zr_input_paths_free(&reads);
    return status;
}

static zero_status check_place(const converting *c)
{
    if (!zr_path_exists(c->to))
        return ZERO_OK;
    ZERO_TRY(check_replaced(c));
    return c->options->overwrite ? ZERO_OK
                                 : zr_fail(c->error, ZERO_ERR_USAGE,
                                           "\"%s\" is there already: choose another directory, or "
                                           "--overwrite replaces it",
                                           c->to);
}

// A model's weights are copied in the types of its files, unless another is asked for.
static bool keeps_types(const zr_source *source)
{
    return source->kind == ZR_SOURCE_SAFETENSORS || source->kind == ZR_SOURCE_TORCH;
}

static zero_status choose_dtype(const converting *c, zr_export *export)
{
    static const struct {
        const char *name;
        zero_dtype dtype;
    } known[] = {{"fp32", ZERO_F32}, {"bf16", ZERO_BF16}, {"fp16", ZERO_F16}};
    const char *wanted = c->options->dtype;
    export->keeps_dtypes = !wanted && keeps_types(&c->source);
    export->dtype = ZERO_F32;
    for (int i = 0; i < ZR_COUNT(known) && wanted; i++)
        if (!strcmp(known[i].name, wanted)) {
            export->dtype = known[i].dtype;
            return ZERO_OK;
        }
    return wanted ? zr_fail(c->error, ZERO_ERR_USAGE,
                            "options.dtype is \"%s\": weights are written in fp32, bf16 or fp16",
                            wanted)
                  : ZERO_OK;
}

static void warn_of_files(const converting *c, bool has_config, bool has_tokenizer)
{
    if (!has_config)
        zr_log(&c->options->logger, ZERO_LOG_WARNING,
               "no config.json is there to go with the weights: --model DIR names a model "
               "directory that has it");
    else if (!has_tokenizer && c->model_dir)
        zr_log(&c->options->logger, ZERO_LOG_WARNING,
               "\"%s\" has no tokenizer (tokenizer.json, vocab.json or tokenizer.model) to go with "
               "the weights: copy one to \"%s\"",
               c->model_dir, c->to);
    else if (!has_tokenizer)
        zr_log(&c->options->logger, ZERO_LOG_WARNING,
               "no tokenizer is there to go with the weights: --model DIR names a model directory "
               "that has it");
}

static zero_status write_model_files(converting *c, const char *directory, zr_export *export)
{
    bool has_config = true, has_tokenizer = false;
    export->directory = directory;
    if (zr_is_adapter_checkpoint(&c->source))
        return zr_convert_adapter_files(&c->source, c->model_dir, directory, export, c->error);
    if (c->source.kind == ZR_SOURCE_GGUF && !c->model_dir)
        ZERO_TRY(zr_gguf_model_files(&c->source, zr_config_dtype_name(export->dtype), directory,
                                     &has_tokenizer, c->error));
    else
        ZERO_TRY(
            zr_model_files_copy(&c->source, c->model_dir,
                                export->keeps_dtypes ? NULL : zr_config_dtype_name(export->dtype),
                                directory, &has_config, &has_tokenizer, c->error));
    if (c->adapter)
        ZERO_TRY(zr_convert_label(c->adapter, directory, c->error));
    const char *adapted = zr_adapter_tokenizer(c->adapter, NULL);
    if (adapted)
        ZERO_TRY(zr_tokenizer_files_replace(adapted, directory, c->error));
    warn_of_files(c, has_config, has_tokenizer || adapted);
    return zr_export_weights(&c->source, export, c->error);
}

static zero_status convert_to_model(converting *c)
{
    char bytes[ZR_BYTES_TEXT];
    zr_export export = {.shard_bytes =
                            c->options->shard_bytes ? c->options->shard_bytes : SHARD_BYTES,
                        .progress = tell_progress,
                        .user = c};
    ZERO_TRY(choose_dtype(c, &export));
    ZERO_TRY(check_place(c));
    char *hidden = zr_directory_hidden(c->to, c->error);
    if (!hidden)
        return ZERO_ERR_MEMORY;
    // a killed conversion may have left one
    zero_status status = zr_directory_remove(hidden, c->error);
    if (status == ZERO_OK)
        status = zr_directory_create(hidden, c->error);
    if (status == ZERO_OK)
        status = write_model_files(c, hidden, &export);
    if (status == ZERO_OK)
        status = zr_convert_mark_write(hidden, c->error);
    if (status == ZERO_OK)
        status = zr_directory_publish(hidden, c->to, c->error);
    if (status != ZERO_OK)
        zr_directory_remove(hidden, NULL);
    zr_free(hidden);
    ZERO_TRY(status);
    zr_bytes_text((double)export.bytes, bytes);
    zr_log(&c->options->logger, ZERO_LOG_INFO, "%s: %d tensors, %s in %d file%s", c->to,
           export.tensors, bytes, export.files, export.files == 1 ? "" : "s");
    if (export.overflowed)
        zr_log(&c->options->logger, ZERO_LOG_WARNING,
               "%lld weights are larger than fp16 can hold: they are infinite now; bf16 keeps them",
               (long long)export.overflowed);
    return ZERO_OK;
}

static zero_status import_checkpoint(converting *c, const char *path)
{
    zero_comm *self = NULL;
    ZERO_TRY(zero_comm_self(&self, c->error));
    zero_status status =
        zr_checkpoint_import(self, &c->source, path, c->source.state, tell_progress, c, c->error);
    zero_comm_destroy(self);
    return status;
}

static zero_status convert_to_checkpoint(converting *c)
{
    int64_t step = json_integer_value(json_object_get(c->source.state, "step"));
    char foreign[ZR_OWN_PATH];
    zr_checkpoints there = {0};
    if (c->source.kind == ZR_SOURCE_CHECKPOINT)
        return zr_fail(c->error, ZERO_ERR_USAGE,
                       "\"%s\" is a checkpoint of libzero already: any number of ranks, stage and "
                       "precision load it as it is",
                       c->from);
    if (c->source.kind != ZR_SOURCE_DEEPSPEED)
        return zr_fail(c->error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\" is a model, which has no training state: zero train --model starts "
                       "from it, zero_load_weights reads it",
                       c->from);
    if (c->options->dtype || c->options->shard_bytes)
        return zr_fail(c->error, ZERO_ERR_USAGE,
                       "a checkpoint is always complete and in fp32: dtype and shard size belong "
                       "to --format hf");
    char *path = zr_checkpoint_path(c->to, step, c->error);
    zero_status status = path ? zr_checkpoints_list(c->to, &there, c->error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && zr_ownership_is_foreign(c->to, ZR_RUN_CHECKPOINTS, false, foreign))
        status = zr_fail(c->error, ZERO_ERR_USAGE,
                         "\"%s\" is there, and is of no run of libzero: nothing is written into "
                         "it; choose another directory",
                         foreign);
    if (status == ZERO_OK && there.count)
        status = zr_fail(
            c->error, ZERO_ERR_USAGE,
            "\"%s/" ZR_CHECKPOINTS "\" holds checkpoints already: choose another directory", c->to);
    if (status == ZERO_OK)
        status = zr_checkpoints_make(c->to, c->error);
    if (status == ZERO_OK)
        status = import_checkpoint(c, path);
    if (status == ZERO_OK)
        status = zr_checkpoint_write_latest(c->to, step, c->error);
    if (status == ZERO_OK)
        zr_log(&c->options->logger, ZERO_LOG_INFO,
               "%s: step %lld; zero train --model MODEL --out %s --resume goes on from it", path,
               (long long)step, c->to);
    zr_checkpoints_free(&there);
    zr_free(path);
    return status;
}

// Weights are copied as they are, and so is what config.json says of them. A GGUF file has no such
// head: it is refused.
static zero_status warn_of_head(converting *c, bool refuses)
{
    zero_status status = ZERO_OK;
    zr_lm_config config;
    zr_weights_options how = {.seed = 0};
    char *found = NULL;
    ZERO_TRY(c->model_dir ? ZERO_OK : zr_find_model_files(c->source.path, &found, c->error));
    const char *from = c->model_dir ? c->model_dir : found;
    if (from && zr_lm_config_read_in(from, &config, NULL) == ZERO_OK &&
        zr_lm_shape_of(&config).tied && zr_convert_head_differs(&c->source, &config)) {
        zr_weights_name_head(&config, &how);
        if (refuses)
            status =
                zr_fail(c->error, ZERO_ERR_DATA,
                        "\"%s\": %s has other values than the table of tokens, but config.json "
                        "says that both are one: a GGUF file would lose it, and keeps it where "
                        "tie_word_embeddings is false",
                        c->source.path, how.tied_head);
        else
            zr_log(
                &c->options->logger, ZERO_LOG_WARNING,
                "\"%s\": %s has other values than the table of tokens, but config.json says that "
                "both are one (\"tie_word_embeddings\"): transformers 5 uses it, others drop it",
                c->source.path, how.tied_head);
    }
    zr_free(found);
    return status;
}

static zr_gguf_conversion gguf_of(converting *c)
{
    return (zr_gguf_conversion){.options = c->options,
                                .source = &c->source,
                                .from = c->from,
                                .to = c->to,
                                .model_dir = c->model_dir,
                                .adapter = c->adapter,
                                .progress = tell_progress,
                                .user = c};
}

static zero_status convert_to_gguf(converting *c)
{
    const zr_gguf_conversion made = gguf_of(c);
    return zr_convert_to_gguf(&made, c->error);
}

// An adapter's directory, or the run that trained it, becomes a GGUF file of the adapter alone.
static zero_status convert_adapter_to_gguf(converting *c)
{
    char *directory;
    ZERO_TRY(zr_adapter_directory(c->options->from, &c->options->logger, &directory, c->error));
    zr_gguf_conversion made = gguf_of(c);
    made.from = directory;
    zero_status status = zr_convert_adapter(&made, c->error);
    zr_free(directory);
    return status;
}

static bool is_adapter_or_its_run(const char *path)
{
    char *of_run = zr_sprintf(NULL, "%s/" ZR_RUN_ADAPTER_DIRECTORY, path);
    bool is = zr_is_adapter(path) || (of_run && zr_is_adapter(of_run));
    zr_free(of_run);
    return is;
}

// What `to` becomes: its name in the options, and how it is made.
typedef struct target {
    const char *format;
    zero_status (*convert)(converting *c);
    bool whole_state; // every vector is read, not the weights alone
} target;

// Opens the source, with the adapter that is added to it.
static zero_status open_source(converting *c, const target *to)
{
    const zero_convert_options *options = c->options;
    bool widens = to->convert == convert_to_gguf || options->dtype;
    ZERO_TRY(zr_source_open(c->from, &c->source, c->error));
    return options->adapter ? zr_convert_merge(&c->source, options->adapter, c->model_dir, widens,
                                               &options->logger, &c->adapter, c->error)
                            : ZERO_OK;
}

static zero_status convert_source(converting *c, const target *to)
{
    if (to->convert == convert_to_gguf && !c->options->adapter &&
        is_adapter_or_its_run(c->options->from))
        return convert_adapter_to_gguf(c);
    if (zr_is_adapter(c->from))
        return zr_fail(c->error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\" is an adapter, not a model: --to FILE.gguf writes it for "
                       "llama.cpp, and --from BASE --adapter %s --to DIR makes a model with it",
                       c->from, c->from);
    ZERO_TRY(open_source(c, to));
    if (zr_is_adapter_checkpoint(&c->source) && to->convert != convert_to_model)
        return zr_fail(c->error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\" holds adapters alone: --to DIR writes them as peft saves them, and "
                       "zero convert --from DIR --to FILE.gguf goes on from there",
                       c->from);
    for (int v = 0; v < (to->whole_state ? c->source.vector_count : 1); v++)
        c->total += vector_bytes(&c->source.vectors[v]);
    c->total += is_of_torch(&c->source) ? c->source.file_bytes : 0;
    ZERO_TRY(verify_files_of_torch(c));
    if (!to->whole_state && keeps_types(&c->source))
        ZERO_TRY(warn_of_head(c, to->convert == convert_to_gguf));
    return to->convert(c);
}

static zero_status resolve_places(converting *c)
{
    size_t length = strlen(c->options->to);
    while (length > 1 && c->options->to[length - 1] == '/')
        length--;
    c->to = zr_sprintf(c->error, "%.*s", (int)length, c->options->to);
    if (!c->to)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(
        zr_model_directory(c->options->model_dir, &c->options->logger, &c->model_dir, c->error));
    ZERO_TRY(zr_run_find_result(c->options->from, &c->from, c->error));
    if (!c->from)
        c->from = zr_strdup(c->options->from, c->error);
    return c->from ? ZERO_OK : ZERO_ERR_MEMORY;
}

static const target targets[] = {
    {"hf", convert_to_model, false},
    {"libzero", convert_to_checkpoint, true},
    {"gguf", convert_to_gguf, false},
};
enum { HF, CHECKPOINT, GGUF };

static zero_status check_options_of(const target *to, const zero_convert_options *options,
                                    zero_error *error)
{
    bool gguf = to == &targets[GGUF];
    if (options->adapter && to->whole_state)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--adapter is added to a model, which becomes a model directory or a GGUF "
                       "file: --format libzero makes a checkpoint");
    if (!gguf && (options->type || options->base_dir))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--type and --base belong to --format gguf; --dtype is that of a model "
                       "directory");
    return gguf && (options->dtype || options->shard_bytes)
               ? zr_fail(error, ZERO_ERR_USAGE,
                         "a GGUF file is one file, and --type says how weights are stored in it: "
                         "dtype and shard size belong to --format hf")
               : ZERO_OK;
}

static zero_status find_target(const zero_convert_options *options, const target **out,
                               zero_error *error)
{
    const char *ending = strrchr(options->to, '.');
    *out = &targets[ending && !strcmp(ending, ".gguf") ? GGUF : HF];
    for (int i = 0; i < ZR_COUNT(targets) && options->format; i++)
        if (!strcmp(targets[i].format, options->format))
            *out = &targets[i];
    if (options->format && strcmp((*out)->format, options->format) != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_convert: options.format is \"%s\": hf, libzero or gguf",
                       options->format);
    return check_options_of(*out, options, error);
}

zero_status zero_convert(const zero_convert_options *options, zero_error *error)
{
    ZR_NEED(error, options);
    zero_error local = {0};
    error = error ? error : &local;
    if (!options->from || !options->to || !*options->to)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_convert: options.from and options.to are needed");
    const target *to;
    ZERO_TRY(find_target(options, &to, error));
    converting c = {.options = options, .error = error};
    zero_status status = resolve_places(&c);
    if (status == ZERO_OK)
        status = convert_source(&c, to);
    zr_source_close(&c.source);
    zr_free(c.model_dir);
    zr_free(c.adapter);
    zr_free(c.from);
    zr_free(c.to);
    return status;
}
