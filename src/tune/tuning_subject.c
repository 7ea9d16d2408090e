#include "tune/tuning_settings.h"

#include "checkpoint/run_directory.h"
#include "infer/token_reading.h"

typedef struct places { // as directories; NULL: not given
    char *model, *tokenizer;
} places;

static zero_status find_subject_places(const zero_tune_options *options, places *out,
                                       zero_error *error)
{
    *out = (places){0};
    ZERO_TRY(zr_model_directory(options->model_dir, &options->logger, &out->model, error));
    return zr_tokenizer_directory(options->tokenizer, &options->logger, &out->tokenizer, error);
}

static zero_status open_tokenizer(const zero_tune_options *options, const places *at,
                                  zr_tokenizer **out, zero_error *error)
{
    zr_chat chat = {0};
    zr_corpus *corpus = NULL;
    zero_status status =
        zr_reading_chat(at->model, at->tokenizer, options->chat, options->chat_date, &chat, error);
    const zr_corpus_options data = {.arguments = options->data,
                                    .count = options->data_count,
                                    .field = options->field,
                                    .chat = &chat};
    if (status == ZERO_OK)
        status = zr_corpus_open(&data, &corpus, error);
    if (status == ZERO_OK)
        status = zr_reading_tokenizer(at->model, at->tokenizer, corpus, out, error);
    zr_corpus_close(corpus);
    zr_chat_free(&chat);
    return status;
}

static zero_status read_with(const zero_tune_options *options, const places *at,
                             zr_model_choice *out, zero_error *error)
{
    zr_tokenizer *tokenizer = NULL;
    ZERO_TRY(open_tokenizer(options, at, &tokenizer, error));
    const zr_subject_question question = {.new_spec = options->new_spec,
                                          .model = at->model,
                                          .seq = options->seq,
                                          .tokenizer = tokenizer,
                                          .logger = &options->logger};
    zero_status status = zr_model_choice_read(&question, out, error);
    zr_tokenizer_destroy(tokenizer);
    return status;
}

zero_status zr_tuning_subject_read(const zero_tune_options *options, zr_model_choice *out,
                                   zero_error *error)
{
    places at;
    *out = (zr_model_choice){0};
    zero_status status = find_subject_places(options, &at, error);
    if (status == ZERO_OK)
        status = read_with(options, &at, out, error);
    zr_free(at.model);
    zr_free(at.tokenizer);
    return status;
}
