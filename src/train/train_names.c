// Whether what the options name is there: the preset or the model, the tokenizer, the files of the
// data. A user looks there first, so this comes before the configuration and before the outputs;
// what the files hold is read later.
#include "base/file.h"
#include "data/data_source.h"
#include "model/architecture.h"
#include "train/training.h"

#include <string.h>

static zero_status check_model_name(const zero_train_options *options, zero_error *error)
{
    zr_lm_config config;
    bool vocabulary;
    if (options->new_spec)
        return zr_lm_parse_spec(options->new_spec, &config, &vocabulary, error);
    if (zr_path_has(options->model_dir, ZR_MODEL_CONFIG))
        return ZERO_OK;
    if (zr_path_is_directory(options->model_dir))
        return zr_fail(error, ZERO_ERR_IO,
                       "\"%s\" is no model: it has no " ZR_MODEL_CONFIG
                       " (a model is a directory in Hugging Face's layout, or the --out of a run)",
                       options->model_dir);
    if (!zr_path_exists(options->model_dir))
        return zr_fail(error, ZERO_ERR_IO, "there is no model \"%s\"", options->model_dir);
    return zr_fail(error, ZERO_ERR_IO,
                   "\"%s\" is a file: a model is a directory in Hugging Face's layout, with "
                   "config.json",
                   options->model_dir);
}

static zero_status check_tokenizer(const char *tokenizer, zero_error *error)
{
    bool word = !tokenizer || !strcmp(tokenizer, "bytes") || !strcmp(tokenizer, "chars");
    return word || zr_path_exists(tokenizer)
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_USAGE,
                         "tokenizer \"%s\": neither bytes nor chars, nor a directory or file that "
                         "is there",
                         tokenizer);
}

zero_status zr_train_check_names(const zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    ZERO_TRY(check_model_name(options, error));
    ZERO_TRY(check_tokenizer(options->tokenizer, error));
    ZERO_TRY(zr_data_sources_are_there(options->data, options->data_count, error));
    bool held_out = options->val && strcmp(options->val, "none") != 0;
    return held_out ? zr_data_sources_are_there(&options->val, 1, error) : ZERO_OK;
}
