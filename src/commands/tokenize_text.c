// zero_tokenize and zero_tokenizer_train: turn text files and records into a file of ids, or into a
// tokenizer.
#include "base/clock.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "base/file.h"
#include "checkpoint/ownership.h"
#include "checkpoint/run_directory.h"
#include "data/token_note.h"
#include "infer/token_reading.h"
#include "tokenizer/bpe_train.h"
#include <zero/commands.h>

#include <stdio.h>
#include <string.h>

typedef struct telling { // reports progress to the caller
    zero_bytes_done progress;
    void *user;
} telling;

static void tell_progress(const telling *t, int64_t done, int64_t total)
{
    if (t->progress)
        t->progress(t->user, done, total);
}

static void tell_bytes_read(void *user, const char *name, size_t done, size_t total)
{
    tell_progress(user, (int64_t)done, (int64_t)total);
}

typedef struct tokenizing {
    telling telling;
    char *tokenizer_path; // directory to which the options' tokenizer leads
    zr_chat chat;
    zr_corpus *corpus;
    zr_tokenizer *tokenizer;
    zr_token_writer writer;
    int64_t documents;
} tokenizing;

static zero_status append_tokens(void *user, const int32_t *ids, int64_t count, zero_error *error)
{
    tokenizing *job = user;
    return zr_token_writer_append(&job->writer, ids, count, error);
}

// Checks that the token file and its note replace only those of an earlier call.
static zero_status check_files(const zero_tokenize_options *options, const zr_input_paths *reads,
                               zero_error *error)
{
    char *note = zr_token_note_path(options->out, error);
    if (!note)
        return ZERO_ERR_MEMORY;
    zero_status status =
        zr_ownership_check_file(options->out, "token file", zr_token_note_has_one, reads, error);
    if (status == ZERO_OK)
        status = zr_ownership_check_file(note, "note of a token file", zr_token_note_is_one, reads,
                                         error);
    zr_free(note);
    return status;
}

static zero_status check_tokens_place(const zero_tokenize_options *options, zero_error *error)
{
    zr_input_paths reads = {0};
    zero_status status = zr_input_paths_add(&reads, options->tokenizer, "--tokenizer", error);
    if (status == ZERO_OK)
        status =
            zr_input_paths_add_data(&reads, options->data, options->data_count, "--data", error);
    if (status == ZERO_OK)
        status = check_files(options, &reads, error);
    zr_input_paths_free(&reads);
    if (status == ZERO_OK && !options->overwrite && zr_path_exists(options->out))
        status =
            zr_fail(error, ZERO_ERR_USAGE,
                    "\"%s\" exists: choose another name, or --overwrite replaces it", options->out);
    return status;
}

static zero_status check_tokenize_options(const zero_tokenize_options *options, zero_error *error)
{
    if (!options->tokenizer || !options->out || options->data_count < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_tokenize: options.%s is missing",
                       !options->tokenizer ? "tokenizer"
                       : !options->out     ? "out"
                                           : "data");
    if (strcmp(options->tokenizer, "chars") == 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "the tokenizer chars is made anew from each text, and a token file cannot "
                       "hold it: choose bytes or a tokenizer's directory");
    return check_tokens_place(options, error);
}

static zero_status open_job(const zero_tokenize_options *options, tokenizing *job,
                            zero_error *error)
{
    ZERO_TRY(
        zr_tokenizer_directory(options->tokenizer, &options->logger, &job->tokenizer_path, error));
    ZERO_TRY(zr_reading_chat(NULL, job->tokenizer_path, options->chat, options->chat_date,
                             &job->chat, error));
    const zr_corpus_options corpus = {.arguments = options->data,
                                      .count = options->data_count,
                                      .field = options->field,
                                      .chat = &job->chat,
                                      .watch = {.beat = tell_bytes_read, .user = &job->telling}};
    ZERO_TRY(zr_corpus_open(&corpus, &job->corpus, error));
    ZERO_TRY(
        zr_tokenizer_open(job->tokenizer_path, NULL, 0, options->data[0], &job->tokenizer, error));
    ZERO_TRY(zr_chat_check_marks(&job->chat, options->chat, job->tokenizer, error));
    zr_reading_warn(job->tokenizer, &options->logger);
    return zr_token_writer_open(options->out, zr_tokenizer_vocabulary(job->tokenizer), &job->writer,
                                error);
}

static zero_status write_tokens(const zero_tokenize_options *options, tokenizing *job,
                                zero_error *error)
{
    const zr_reading reading = {
        .tokenizer = job->tokenizer,
        .threads = options->threads > 0
                       ? options->threads
                       : ZR_MIN(zr_cpu_budget_get().allowed, zr_cpu_budget_get().cores)};
    ZERO_TRY(zr_corpus_write(job->corpus, &reading,
                             options->special ? ZR_ENCODE_SPECIAL : ZR_ENCODE_TEXT, append_tokens,
                             job, &job->documents, error));
    zr_reading_warn_records(job->corpus, &options->logger);
    zr_reading_warn_chat(&job->chat, &options->logger);
    zr_token_note note = {.fingerprint = zr_tokenizer_fingerprint(job->tokenizer),
                          .vocabulary = zr_tokenizer_vocabulary(job->tokenizer),
                          .tokens = job->writer.count,
                          .documents = job->documents,
                          .end = zr_tokenizer_end(job->tokenizer)};
    snprintf(note.tokenizer, sizeof note.tokenizer, "%s", zr_tokenizer_name(job->tokenizer));
    return zr_token_note_write(options->out, &note, error);
}

zero_status zero_tokenize(const zero_tokenize_options *options, zero_tokenize_result *out,
                          zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, out);
    double start = zr_clock_seconds();
    ZERO_TRY(check_tokenize_options(options, error));
    tokenizing job = {.telling = {.progress = options->progress, .user = options->user},
                      .writer = {.file = {.fd = -1}}};
    zero_status status = open_job(options, &job, error);
    if (status == ZERO_OK)
        status = write_tokens(options, &job, error);
    *out = (zero_tokenize_result){.bytes = job.corpus ? zr_corpus_bytes(job.corpus) : 0,
                                  .tokens = job.writer.count,
                                  .documents = job.documents,
                                  .token_bytes = job.writer.bytes};
    if (status == ZERO_OK)
        status = zr_token_writer_commit(&job.writer, error);
    else
        zr_token_writer_discard(&job.writer);
    zr_corpus_close(job.corpus);
    zr_tokenizer_destroy(job.tokenizer);
    zr_chat_free(&job.chat);
    zr_free(job.tokenizer_path);
    out->seconds = zr_clock_seconds() - start;
    return status;
}

// ---- learning a tokenizer -----------------------------------------------------------------------

static zero_status check_tokenizer_file(const zero_tokenizer_train_options *options,
                                        const char *name, const zr_input_paths *reads,
                                        zero_error *error)
{
    char *path = zr_sprintf(error, "%s/%s", options->out_dir, name);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status =
        zr_ownership_check_file(path, "file of a tokenizer", zr_bpe_trainer_wrote, reads, error);
    if (status == ZERO_OK && !options->overwrite && zr_path_exists(path))
        status =
            zr_fail(error, ZERO_ERR_USAGE,
                    "\"%s\" exists: choose another directory, or --overwrite replaces it", path);
    zr_free(path);
    return status;
}

static zero_status check_tokenizer_place(const zero_tokenizer_train_options *options,
                                         zero_error *error)
{
    zr_input_paths reads = {0};
    zero_status status =
        zr_input_paths_add_data(&reads, options->data, options->data_count, "--data", error);
    if (status == ZERO_OK)
        status = check_tokenizer_file(options, "tokenizer.json", &reads, error);
    if (status == ZERO_OK)
        status = check_tokenizer_file(options, "tokenizer_config.json", &reads, error);
    zr_input_paths_free(&reads);
    return status;
}

static zero_status check_train_options(const zero_tokenizer_train_options *options,
                                       zero_error *error)
{
    if (!options->out_dir || options->data_count < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_tokenizer_train: options.%s is missing",
                       options->out_dir ? "data" : "out_dir");
    return check_tokenizer_place(options, error);
}

typedef struct learning {
    telling telling;
    zr_bpe_trainer *trainer;
    int32_t vocabulary;
    int64_t bytes; // of the text learnt from
} learning;

static zero_status feed_trainer(void *user, const char *text, size_t length, zero_error *error)
{
    learning *l = user;
    l->bytes += (int64_t)length;
    return zr_bpe_trainer_feed(l->trainer, text, length, error);
}

static void tell_tokens_learnt(void *user, int32_t tokens)
{
    const learning *l = user;
    tell_progress(&l->telling, tokens, l->vocabulary);
}

static zero_status read_all_texts(const zero_tokenizer_train_options *options, learning *l,
                                  zero_error *error)
{
    const zr_chat none = {
        .refusal =
            "a tokenizer is not learnt from messages; --field NAME reads a field of their records"};
    const zr_corpus_options options_of = {.arguments = options->data,
                                          .count = options->data_count,
                                          .field = options->field,
                                          .chat = &none,
                                          .watch = {.beat = tell_bytes_read, .user = &l->telling}};
    zr_corpus *corpus;
    ZERO_TRY(zr_corpus_open(&options_of, &corpus, error));
    zero_status status = zr_corpus_each_text(corpus, feed_trainer, l, error);
    zr_corpus_close(corpus);
    return status;
}

static zero_status learn_and_save(const zero_tokenizer_train_options *options, learning *l,
                                  zero_error *error)
{
    ZERO_TRY(read_all_texts(options, l, error));
    ZERO_TRY(zr_bpe_trainer_learn(l->trainer, options->vocabulary,
                                  options->least ? options->least : 2, tell_tokens_learnt, l,
                                  error));
    ZERO_TRY(zr_directory_create(options->out_dir, error));
    return zr_bpe_trainer_save(l->trainer, options->out_dir, error);
}

zero_status zero_tokenizer_train(const zero_tokenizer_train_options *options,
                                 zero_tokenizer_train_result *out, zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, out);
    zero_tokenizer_train_options taken;
    ZERO_TRY(zr_struct_take("zero_tokenizer_train: options", options,
                            ZR_STRUCT_UPTO(zero_tokenizer_train_options, user), &taken,
                            sizeof taken, error));
    options = &taken;
    double start = zr_clock_seconds();
    learning l = {.telling = {.progress = options->progress, .user = options->user},
                  .vocabulary = options->vocabulary};
    ZERO_TRY(check_train_options(options, error));
    ZERO_TRY(zr_bpe_trainer_create(&l.trainer, error));
    zero_status status = learn_and_save(options, &l, error);
    *out = (zero_tokenizer_train_result){.bytes = l.bytes,
                                         .vocabulary = zr_bpe_trainer_vocabulary(l.trainer),
                                         .seconds = zr_clock_seconds() - start};
    zr_bpe_trainer_destroy(l.trainer);
    return status;
}
