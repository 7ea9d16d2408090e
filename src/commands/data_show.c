// zero_data_show: the first micro-batch as text, with how the loss treats each part of it.
#include "base/alloc.h"
#include "base/errors.h"
#include "checkpoint/run_directory.h"
#include "infer/token_reading.h"
#include "model/architecture.h"
#include "setup/defaults.h"
#include <zero/commands.h>

#include <stdio.h>
#include <string.h>

enum { SEQ = 128, SAMPLES = 2, SEED = 1337 };

typedef struct show {
    const zero_data_options *options;
    char *model_dir, *tokenizer_path; // directories to which the options' model and tokenizer lead
    zr_chat chat;
    zr_reading_progress progress;
    zr_corpus *corpus;
    zr_tokenizer *tokenizer;
    zr_dataset data, held;
    int64_t vocabulary, seq;
    zr_buffer text; // of one mark, until it is emitted
    zr_decoder decoder;
    bool stopped;
} show;

static zero_status read_data_show_shape(show *s, zero_error *error)
{
    s->vocabulary = zr_tokenizer_vocabulary(s->tokenizer);
    s->seq = s->options->seq ? s->options->seq : SEQ;
    if (!s->model_dir)
        return ZERO_OK;
    zr_lm_config config;
    ZERO_TRY(zr_lm_config_read_in(s->model_dir, &config, error));
    const zr_lm_shape shape = zr_lm_shape_of(&config);
    s->vocabulary = shape.vocab;
    s->seq = zr_default_window(s->options->seq, shape.positions, &s->options->logger);
    return ZERO_OK;
}

static zero_status read_data_show_all(show *s, zero_error *error)
{
    const zero_data_options *options = s->options;
    bool tenth = !options->val;
    ZERO_TRY(zr_model_directory(options->model_dir, &options->logger, &s->model_dir, error));
    ZERO_TRY(
        zr_tokenizer_directory(options->tokenizer, &options->logger, &s->tokenizer_path, error));
    ZERO_TRY(zr_reading_chat(s->model_dir, s->tokenizer_path, options->chat, &s->chat, error));
    const zr_corpus_options corpus = {.arguments = options->data,
                                      .count = options->data_count,
                                      .field = options->field,
                                      .chat = &s->chat,
                                      .watch =
                                          zr_reading_watch(&s->progress, NULL, &options->logger)};
    ZERO_TRY(zr_corpus_open(&corpus, &s->corpus, error));
    ZERO_TRY(
        zr_reading_tokenizer(s->model_dir, s->tokenizer_path, s->corpus, &s->tokenizer, error));
    ZERO_TRY(zr_chat_check_marks(&s->chat, options->chat, s->tokenizer, error));
    zr_reading_warn(s->tokenizer, &options->logger);
    ZERO_TRY(read_data_show_shape(s, error));
    const zr_reading reading =
        zr_token_reader_options(NULL, options->threads, s->tokenizer, s->vocabulary, s->seq);
    ZERO_TRY(zr_corpus_read(s->corpus, &reading, &s->data, tenth ? &s->held : NULL, error));
    zr_reading_warn_empty(s->corpus, &options->logger);
    s->data.seed = (uint64_t)(options->seed < 0 ? SEED : options->seed);
    return ZERO_OK;
}

static void flush(show *s, zero_data_mark mark)
{
    if (s->text.length && !s->text.failed && !s->stopped)
        s->stopped = s->options->emit(s->options->user, mark, s->text.data, s->text.length) != 0;
    s->text.length = 0;
}

static zero_data_mark mark_of(const show *s, const int32_t *tokens, const int32_t *targets,
                              int64_t i)
{
    int32_t id = i < s->seq ? tokens[i] : targets[s->seq - 1];
    bool end = id == zr_tokenizer_end(s->tokenizer);
    return end                            ? ZERO_DATA_END
           : i > 0 && targets[i - 1] >= 0 ? ZERO_DATA_TRAINED
                                          : ZERO_DATA_MASKED;
}

// Shows the T inputs, and the last target if it counts in the loss.
static void show_tokens(show *s, const int32_t *tokens, const int32_t *targets)
{
    int64_t count = s->seq + (targets[s->seq - 1] >= 0);
    zr_decoder_begin(&s->decoder, s->tokenizer, false);
    for (int64_t i = 0; i < count; i++) {
        zero_data_mark mark = mark_of(s, tokens, targets, i);
        zr_decoder_push(&s->decoder, i < s->seq ? tokens[i] : targets[s->seq - 1], &s->text);
        if (i + 1 == count)
            zr_decoder_end(&s->decoder, &s->text);
        if (i + 1 == count || mark == ZERO_DATA_END || mark_of(s, tokens, targets, i + 1) != mark)
            flush(s, mark);
    }
}

static zero_status show_sample(show *s, int64_t number, int32_t *tokens, int32_t *targets,
                               zero_error *error)
{
    zr_token_window window = zr_dataset_train_window(&s->data, number);
    const zr_stream *stream = &s->data.streams[window.stream];
    zr_dataset_train_batch(&s->data, number, 1, tokens, targets);
    zr_buffer_printf(&s->text,
                     "sample %lld: %s, tokens %lld to %lld of %lld; %lld of %lld targets count",
                     (long long)number, stream->name, (long long)window.first,
                     (long long)(window.first + s->seq), (long long)stream->count,
                     (long long)zr_count_targets(targets, s->seq), (long long)s->seq);
    flush(s, ZERO_DATA_SAMPLE);
    show_tokens(s, tokens, targets);
    return s->text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of sample %lld",
                                    (long long)number)
                          : ZERO_OK;
}

static zero_status show_batch(show *s, zero_error *error)
{
    int64_t samples = s->options->micro_batch ? s->options->micro_batch : SAMPLES;
    int32_t *both = zr_alloc((size_t)(2 * s->seq) * sizeof *both, error);
    zero_status status = both ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int64_t i = 0; i < samples && status == ZERO_OK && !s->stopped; i++)
        status = show_sample(s, i, both, both + s->seq, error);
    zr_free(both);
    return status;
}

zero_status zero_data_show(const zero_data_options *options, zero_error *error)
{
    ZR_NEED(error, options);
    show s = {.options = options};
    if (!options->data || options->data_count < 1 || !options->emit)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_data_show: options.%s is missing",
                       options->emit ? "data" : "emit");
    if (options->seq < 0 || options->micro_batch < 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_data_show: seq %lld, micro_batch %lld: both must be 0 or more",
                       (long long)options->seq, (long long)options->micro_batch);
    zero_status status = read_data_show_all(&s, error);
    if (status == ZERO_OK)
        status = show_batch(&s, error);
    zr_buffer_free(&s.text);
    zr_dataset_free(&s.data);
    zr_dataset_free(&s.held);
    zr_corpus_close(s.corpus);
    zr_tokenizer_destroy(s.tokenizer);
    zr_chat_free(&s.chat);
    zr_free(s.model_dir);
    zr_free(s.tokenizer_path);
    return status;
}
