// What a training starts from: the text, its tokenizer, the model's shape, and the windows to train and to evaluate on.
#include "api/train.h"
#include "base/file.h"
#include "layers/layers.h"
#include "model/unit.h"

#include <stdio.h>
#include <string.h>

static void beat(void *comm)
{
    zr_comm_progress(comm, 0);
}

static const char *name_of_text(const zr_train *train)
{
    return train->options->data[0];
}

static zero_status make_tokenizer(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->options;
    if (!options->tokenizer && options->model_dir)
        return zr_tokenizer_load(options->model_dir, &train->tokenizer, error);
    return zr_tokenizer_open(options->tokenizer ? options->tokenizer : "bytes", train->text.data, train->text.length, name_of_text(train), &train->tokenizer, error);
}

static zero_status read_shape(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->options;
    int64_t tokens = zr_tokenizer_vocabulary(train->tokenizer);
    bool given = true;
    if (options->new_spec) {
        ZERO_TRY(zr_lm_parse_spec(options->new_spec, &train->model_config, &given, error));
    } else {
        char *path = zr_sprintf(error, "%s/config.json", options->model_dir);
        zero_status status = path ? zr_lm_config_read(path, &train->model_config, error) : ZERO_ERR_MEMORY;
        zr_free(path);
        ZERO_TRY(status);
    }
    if (!given)
        zr_lm_set_vocabulary(&train->model_config, tokens);
    train->shape = zr_lm_shape_of(&train->model_config);
    if (tokens > train->shape.vocab)
        return zr_fail(error, ZERO_ERR_USAGE, "the tokenizer (%s) has %lld tokens, the model a vocabulary of %lld only", zr_tokenizer_name(train->tokenizer),
                       (long long)tokens, (long long)train->shape.vocab);
    train->seq = options->seq ? options->seq : train->shape.positions;
    if (train->seq < 1 || train->seq > train->shape.positions)
        return zr_fail(error, ZERO_ERR_USAGE, "windows of %lld tokens (--seq): the model has a context of %lld", (long long)train->seq,
                       (long long)train->shape.positions);
    return ZERO_OK;
}

static zero_status make_dataset(zr_train *train, const char *text, size_t length, const char *name, zr_dataset *out, zero_error *error)
{
    return zr_dataset_create(train->tokenizer, text, length, name, train->seq, 0, beat, train->comm, out, error);
}

// The last tenth is held out, unless it is too short for a single window.
static zero_status split_text(zr_train *train, zero_error *error)
{
    size_t split = zr_text_split(&train->text);
    zero_error ignored;
    zero_status status = make_dataset(train, train->text.data + split, train->text.length - split, name_of_text(train), &train->val, &ignored);
    if (status == ZERO_ERR_MEMORY)
        return zr_fail(error, status, "%s", ignored.message);
    train->val_is_tenth = status == ZERO_OK;
    if (!train->val_is_tenth)
        split = train->text.length;
    return make_dataset(train, train->text.data, split, name_of_text(train), &train->data, error);
}

static zero_status make_datasets(zr_train *train, zero_error *error)
{
    const char *val = train->options->val;
    if (!val)
        return split_text(train, error);
    ZERO_TRY(make_dataset(train, train->text.data, train->text.length, name_of_text(train), &train->data, error));
    if (strcmp(val, "none") == 0)
        return ZERO_OK;
    ZERO_TRY(zr_text_load(&val, 1, &train->val_text, error));
    return make_dataset(train, train->val_text.data, train->val_text.length, val, &train->val, error);
}

zero_status zr_train_read(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->options;
    ZERO_TRY(zr_text_load(options->data, options->data_count, &train->text, error));
    ZERO_TRY(make_tokenizer(train, error));
    ZERO_TRY(read_shape(train, error));
    ZERO_TRY(zr_lm_create(&train->model_config, &train->model, error));
    train->parameters = zr_model_parameters(train->model);
    return make_datasets(train, error);
}

const char *zr_train_instructions(const zr_train *train)
{
    const zr_backend *backend;
    const char *name = train->options->backend ? train->options->backend : "cpu";
    return zr_backend_find(name, NULL, &backend, NULL) == ZERO_OK ? backend->path() : "unknown";
}

uint64_t zr_train_data_hash(const zr_train *train)
{
    return train->text.hash;
}

void zr_train_release_data(zr_train *train)
{
    zr_dataset_free(&train->data);
    zr_dataset_free(&train->val);
    zr_text_free(&train->text);
    zr_text_free(&train->val_text);
    zr_tokenizer_destroy(train->tokenizer);
    zr_lm_free(train->model);
}
