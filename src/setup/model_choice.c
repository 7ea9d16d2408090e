#include "setup/model_choice.h"

#include "base/errors.h"
#include "checkpoint/run_directory.h"
#include "layers/layers.h"
#include "model/lm_build.h"
#include "model/rows_model.h"
#include "setup/defaults.h"
#include "setup/resolve.h"

#include <string.h>

enum { BYTE_VOCABULARY = 256, ASSUMED_STEPS = 1000 };

static zero_status read_chosen_model(const zr_subject_question *question, zr_model_choice *s,
                                     zero_error *error)
{
    const char *given = question->model;
    size_t length = strlen(given);
    bool file = question->needs_no_weights && length > 5 && !strcmp(given + length - 5, ".json");
    ZERO_TRY(zr_model_directory(given, question->logger, &s->path, error));
    s->name = s->path;
    return file ? zr_lm_config_read(s->path, &s->model, error)
                : zr_lm_config_read_in(s->path, &s->model, error);
}

static zero_status read_spec(const zr_subject_question *question, zr_model_choice *s,
                             zero_error *error)
{
    bool given;
    ZERO_TRY(zr_lm_parse_spec(question->new_spec, &s->model, &given, error));
    s->name = question->new_spec;
    if (given || question->as_known)
        return ZERO_OK;
    s->assumed_vocabulary = !question->tokenizer;
    zr_lm_set_vocabulary(&s->model, question->tokenizer
                                        ? zr_tokenizer_vocabulary(question->tokenizer)
                                        : BYTE_VOCABULARY);
    return ZERO_OK;
}

static zero_status check_tokens(const zr_tokenizer *tokenizer, const zr_lm_shape *shape,
                                zero_error *error)
{
    int64_t tokens = tokenizer ? zr_tokenizer_vocabulary(tokenizer) : 0;
    if (tokens <= shape->vocab)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "the tokenizer (%s) has %lld tokens, the model a vocabulary of %lld only",
                   zr_tokenizer_name(tokenizer), (long long)tokens, (long long)shape->vocab);
}

zero_status zr_model_choice_read(const zr_subject_question *question, zr_model_choice *out,
                                 zero_error *error)
{
    *out = (zr_model_choice){0};
    ZERO_TRY(question->new_spec ? read_spec(question, out, error)
                                : read_chosen_model(question, out, error));
    out->shape = zr_lm_shape_of(&out->model);
    ZERO_TRY(check_tokens(question->tokenizer, &out->shape, error));
    out->seq = zr_default_window(question->seq, out->shape.positions, question->logger);
    ZERO_TRY(zr_window_check(out->seq, out->shape.positions, error));
    ZERO_TRY(zr_lm_check(&out->model, error));
    out->parameters = zr_lm_parameters(&out->model);
    return ZERO_OK;
}

void zr_model_choice_free(zr_model_choice *subject)
{
    zr_free(subject->path);
    *subject = (zr_model_choice){0};
}

zr_config_facts zr_model_choice_facts(const zr_model_choice *subject, int world)
{
    return zr_resolve_facts(&(zr_run_outline){.ranks = world,
                                              .parameters = subject->parameters,
                                              .seq = subject->seq,
                                              .width = subject->shape.width,
                                              .steps = ASSUMED_STEPS});
}

// The architectures of the public interface: model/ lists their units, layers/ computes them.

zero_status zero_gpt2_create(const zero_gpt2_config *config, zero_model **out, zero_error *error)
{
    ZR_NEED(error, config);
    ZR_NEED(error, out);
    zr_lm_config of = {.kind = ZR_LM_GPT2};
    ZERO_TRY(zr_struct_take("zero_gpt2_config", config, ZR_STRUCT_UPTO(zero_gpt2_config, tiles_mlp),
                            &of.gpt2, sizeof of.gpt2, error));
    return zr_lm_create(&of, out, error);
}

void zero_gpt2_destroy(zero_model *model) { zr_lm_free(model); }

zero_status zero_llama_create(const zero_llama_config *config, zero_model **out, zero_error *error)
{
    ZR_NEED(error, config);
    ZR_NEED(error, out);
    zr_lm_config of = {.kind = ZR_LM_LLAMA};
    ZERO_TRY(zr_struct_take("zero_llama_config", config,
                            ZR_STRUCT_UPTO(zero_llama_config, tiles_mlp), &of.llama,
                            sizeof of.llama, error));
    return zr_lm_create(&of, out, error);
}

void zero_llama_destroy(zero_model *model) { zr_lm_free(model); }

zero_status zero_rows_create(const zero_rows_config *config, zero_model **out, zero_error *error)
{
    ZR_NEED(error, config);
    ZR_NEED(error, out);
    zero_rows_config taken;
    zr_lm_config of;
    ZERO_TRY(zr_struct_take("zero_rows_config", config, ZR_STRUCT_UPTO(zero_rows_config, block),
                            &taken, sizeof taken, error));
    zero_status status = zr_rows_make(&taken, &of, error);
    if (status == ZERO_OK)
        status = zr_lm_create(&of, out, error);
    if (status != ZERO_OK)
        zr_rows_free(&of);
    return status;
}

void zero_rows_destroy(zero_model *model)
{
    const zr_lm_config config = model ? *zr_lm_config_of(model) : (zr_lm_config){0};
    zr_lm_free(model);
    zr_rows_free(&config);
}
