#include "tune/tuning_subject.h"

#include "base/alloc.h"
#include "files/run_directory.h"
#include "infer/reading.h"
#include "model/lm_build.h"
#include "setup/resolve.h"

static zero_status read_vocabulary(const zero_tune_options *options, zr_tuning_subject *s,
                                   zero_error *error)
{
    zr_chat chat = {0};
    zr_corpus *corpus = NULL;
    zr_tokenizer *tokenizer = NULL;
    zero_status status = zr_reading_chat(s->model_dir, s->tokenizer, options->chat, &chat, error);
    const zr_corpus_options data = {.arguments = options->data,
                                    .count = options->data_count,
                                    .field = options->field,
                                    .chat = &chat};
    if (status == ZERO_OK)
        status = zr_corpus_open(&data, &corpus, error);
    if (status == ZERO_OK)
        status = zr_reading_tokenizer(s->model_dir, s->tokenizer, corpus, &tokenizer, error);
    if (status == ZERO_OK)
        zr_lm_set_vocabulary(&s->model, zr_tokenizer_vocabulary(tokenizer));
    zr_tokenizer_destroy(tokenizer);
    zr_corpus_close(corpus);
    zr_chat_free(&chat);
    return status;
}

static zero_status read_shape(const zero_tune_options *options, zr_tuning_subject *s,
                              zero_error *error)
{
    bool given = true;
    ZERO_TRY(options->new_spec ? zr_lm_parse_spec(options->new_spec, &s->model, &given, error)
                               : zr_lm_config_read_in(s->model_dir, &s->model, error));
    if (!given)
        ZERO_TRY(read_vocabulary(options, s, error));
    ZERO_TRY(zr_lm_check(&s->model, error));
    s->shape = zr_lm_shape_of(&s->model);
    s->parameters = zr_lm_parameters(&s->model);
    s->seq = options->seq ? options->seq : s->shape.positions;
    return zr_window_check(s->seq, s->shape.positions, error);
}

zero_status zr_tuning_subject_read(const zero_tune_options *options, zr_tuning_subject *out,
                                   zero_error *error)
{
    *out = (zr_tuning_subject){.name = options->new_spec ? options->new_spec : options->model_dir};
    ZERO_TRY(zr_model_directory(options->model_dir, &options->logger, &out->model_dir, error));
    ZERO_TRY(zr_tokenizer_directory(options->tokenizer, &options->logger, &out->tokenizer, error));
    return read_shape(options, out, error);
}

void zr_tuning_subject_free(zr_tuning_subject *subject)
{
    zr_free(subject->model_dir);
    zr_free(subject->tokenizer);
    *subject = (zr_tuning_subject){0};
}
