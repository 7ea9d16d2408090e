// zero_tokenize and zero_tokenizer_train: text files to ids in a file, text files to a tokenizer.
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "data/bpe_train.h"
#include "data/crew.h"
#include "data/text.h"
#include "data/token_note.h"
#include <zero/tokenize.h>

#include <stdio.h>
#include <string.h>

typedef struct texts { // files mapped one at a time, and how far they are read
    const char *const *paths;
    int count;
    int64_t done, total; // bytes: of the files before this one, of all
    zero_bytes_done progress;
    void *user;
} texts;

static zero_status measure(texts *t, zero_error *error)
{
    for (int i = 0; i < t->count; i++) {
        zr_mapped_file file;
        ZERO_TRY(zr_text_map(t->paths[i], &file, error));
        t->total += (int64_t)file.length;
        zr_file_unmap(&file);
    }
    return ZERO_OK;
}

static void tell(const texts *t, int64_t bytes)
{
    if (t->progress)
        t->progress(t->user, t->done + bytes, t->total);
}

typedef struct tokenizing {
    texts texts;
    zr_tokenizer *tokenizer;
    zr_crew *crew;
    zr_token_writer writer;
    zr_encode_mode mode;
} tokenizing;

static zero_status take(void *user, const int32_t *ids, int64_t count, zero_error *error)
{
    tokenizing *job = user;
    return zr_token_writer_append(&job->writer, ids, count, error);
}

static void taken(void *user, size_t bytes)
{
    tell(&((tokenizing *)user)->texts, (int64_t)bytes);
}

static zero_status tokenize_file(tokenizing *job, const char *path, zero_error *error)
{
    zr_mapped_file file;
    int32_t end = zr_tokenizer_end(job->tokenizer);
    ZERO_TRY(zr_text_map(path, &file, error));
    zero_status status = zr_crew_encode(job->crew, job->mode, file.data, file.length, path, take, taken, job, error);
    if (status == ZERO_OK && end >= 0)
        status = zr_token_writer_append(&job->writer, &end, 1, error);
    job->texts.done += (int64_t)file.length;
    zr_file_unmap(&file);
    return status;
}

static zero_status write_tokens(tokenizing *job, const char *out, zero_error *error)
{
    for (int i = 0; i < job->texts.count; i++)
        ZERO_TRY(tokenize_file(job, job->texts.paths[i], error));
    zr_token_note note = {.fingerprint = zr_tokenizer_fingerprint(job->tokenizer), .vocabulary = zr_tokenizer_vocabulary(job->tokenizer),
                          .tokens = job->writer.count, .documents = job->texts.count, .end = zr_tokenizer_end(job->tokenizer)};
    snprintf(note.tokenizer, sizeof note.tokenizer, "%s", zr_tokenizer_name(job->tokenizer));
    return zr_token_note_write(out, &note, error);
}

static zero_status check_tokenize(const zero_tokenize_options *options, zero_error *error)
{
    if (options->struct_size != sizeof *options)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_tokenize: options.struct_size is %zu, this library expects %zu", options->struct_size, sizeof *options);
    if (!options->tokenizer || !options->out || options->data_count < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_tokenize: options.%s is missing", !options->tokenizer ? "tokenizer" : !options->out ? "out" : "data");
    if (strcmp(options->tokenizer, "chars") == 0)
        return zr_fail(error, ZERO_ERR_USAGE, "the tokenizer chars is made anew from each text, and a token file cannot hold it: choose bytes or a tokenizer's directory");
    if (!options->overwrite && zr_path_exists(options->out))
        return zr_fail(error, ZERO_ERR_USAGE, "\"%s\" exists: choose another name, or --overwrite replaces it", options->out);
    return ZERO_OK;
}

static zero_status open_job(const zero_tokenize_options *options, tokenizing *job, zero_error *error)
{
    int threads = options->threads > 0 ? options->threads : ZR_MIN(zr_cpu_budget_get().allowed, zr_cpu_budget_get().cores);
    ZERO_TRY(measure(&job->texts, error));
    ZERO_TRY(zr_tokenizer_open(options->tokenizer, NULL, 0, options->data[0], &job->tokenizer, error));
    ZERO_TRY(zr_crew_create(job->tokenizer, ZR_MAX(threads, 1), &job->crew, error));
    return zr_token_writer_open(options->out, zr_tokenizer_vocabulary(job->tokenizer), &job->writer, error);
}

zero_status zero_tokenize(const zero_tokenize_options *options, zero_tokenize_result *out, zero_error *error)
{
    double start = zr_clock_seconds();
    ZERO_TRY(check_tokenize(options, error));
    tokenizing job = {.texts = {.paths = options->data, .count = options->data_count, .progress = options->progress, .user = options->user},
                      .mode = options->special ? ZR_ENCODE_SPECIAL : ZR_ENCODE_TEXT, .writer = {.file = {.fd = -1}}};
    zero_status status = open_job(options, &job, error);
    if (status == ZERO_OK)
        status = write_tokens(&job, options->out, error);
    *out = (zero_tokenize_result){.bytes = job.texts.total, .tokens = job.writer.count, .documents = options->data_count, .token_bytes = job.writer.bytes};
    if (status == ZERO_OK)
        status = zr_token_writer_commit(&job.writer, error);
    else
        zr_token_writer_discard(&job.writer);
    zr_crew_destroy(job.crew);
    zr_tokenizer_destroy(job.tokenizer);
    out->seconds = zr_clock_seconds() - start;
    return status;
}

// ---- learning --------------------------------------------------------------------------------------------------

static zero_status check_train(const zero_tokenizer_train_options *options, zero_error *error)
{
    if (options->struct_size != sizeof *options)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_tokenizer_train: options.struct_size is %zu, this library expects %zu", options->struct_size, sizeof *options);
    if (!options->out_dir || options->data_count < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_tokenizer_train: options.%s is missing", options->out_dir ? "data" : "out_dir");
    char *path = zr_sprintf(error, "%s/tokenizer.json", options->out_dir);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status = options->overwrite || !zr_path_exists(path) ? ZERO_OK : zr_fail(error, ZERO_ERR_USAGE, "\"%s\" exists: choose another directory, or --overwrite replaces it", path);
    zr_free(path);
    return status;
}

static void learnt(void *user, int32_t tokens)
{
    texts *t = user;
    t->done = tokens;
    tell(t, 0);
}

static zero_status learn(const zero_tokenizer_train_options *options, zr_bpe_trainer *trainer, texts *t, zero_error *error)
{
    ZERO_TRY(measure(t, error));
    for (int i = 0; i < t->count; i++) {
        zr_mapped_file file;
        ZERO_TRY(zr_text_map(t->paths[i], &file, error));
        zero_status status = zr_bpe_trainer_feed(trainer, file.data, file.length, error);
        t->done += (int64_t)file.length;
        tell(t, 0);
        zr_file_unmap(&file);
        ZERO_TRY(status);
    }
    texts steps = {.total = options->vocabulary, .progress = t->progress, .user = t->user};
    ZERO_TRY(zr_bpe_trainer_learn(trainer, options->vocabulary, options->least ? options->least : 2, learnt, &steps, error));
    ZERO_TRY(zr_directory_create(options->out_dir, error));
    return zr_bpe_trainer_save(trainer, options->out_dir, error);
}

zero_status zero_tokenizer_train(const zero_tokenizer_train_options *options, zero_tokenizer_train_result *out, zero_error *error)
{
    double start = zr_clock_seconds();
    zr_bpe_trainer *trainer;
    ZERO_TRY(check_train(options, error));
    ZERO_TRY(zr_bpe_trainer_create(&trainer, error));
    texts t = {.paths = options->data, .count = options->data_count, .progress = options->progress, .user = options->user};
    zero_status status = learn(options, trainer, &t, error);
    *out = (zero_tokenizer_train_result){.bytes = t.total, .vocabulary = zr_bpe_trainer_vocabulary(trainer), .seconds = zr_clock_seconds() - start};
    zr_bpe_trainer_destroy(trainer);
    return status;
}
