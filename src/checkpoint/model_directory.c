#include "checkpoint/nanogpt_tokenizer.h"
#include "checkpoint/run_directory.h"

#include "base/file.h"
#include "formats/source_torch.h"
#include "model/architecture.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)256 << 20)

// Any one of the first TOKENIZERS files makes a tokenizer.
static const char *const files[] = {"tokenizer.json",        "vocab.json",
                                    "tokenizer.model",       "merges.txt",
                                    "tokenizer_config.json", "special_tokens_map.json",
                                    "added_tokens.json",     "chat_template.jinja",
                                    ZR_GENERATION_CONFIG};
enum { TOKENIZERS = 3 };

bool zr_model_file_is_copied(const char *name)
{
    bool known = !strcmp(name, ZR_MODEL_CONFIG);
    for (int i = 0; i < ZR_COUNT(files) && !known; i++)
        known = !strcmp(name, files[i]);
    return known;
}

const char *zr_config_dtype_name(zero_dtype dtype)
{
    return dtype == ZERO_BF16 ? "bfloat16" : dtype == ZERO_F16 ? "float16" : "float32";
}

static zero_status copy_file_if_there(const char *from, const char *name, const char *to,
                                      bool *there, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/%s", from, name), *text = NULL;
    size_t length;
    if (!path)
        return ZERO_ERR_MEMORY;
    *there = zr_path_exists(path);
    zero_status status = *there ? zr_file_read(path, MOST_BYTES, &text, &length, error) : ZERO_OK;
    if (*there && status == ZERO_OK)
        status = zr_file_write_in(to, name, text, length, error);
    zr_free(text);
    zr_free(path);
    return status;
}

zero_status zr_model_config_write(const json_t *config, const char *directory, zero_error *error)
{
    char *text = json_dumps(config, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    zr_buffer out = {0};
    zr_buffer_printf(&out, "%s\n", text ? text : "");
    out.failed |= !text;
    free(text);
    return zr_file_write_text_in(directory, ZR_MODEL_CONFIG, &out, error);
}

// Writes config.json with the type in which readers shall load the weights, under the key's old and
// new name.
static zero_status write_config_with_dtype(json_t *config, const char *dtype, const char *directory,
                                           zero_error *error)
{
    if (dtype)
        json_object_set_new(config, json_object_get(config, "dtype") ? "dtype" : "torch_dtype",
                            json_string(dtype));
    if (dtype && json_object_get(config, "dtype") && json_object_get(config, "torch_dtype"))
        json_object_set_new(config, "torch_dtype", json_string(dtype));
    return zr_model_config_write(config, directory, error);
}

static zero_status copy_config(const char *from, const char *dtype, const char *to, bool *there,
                               zero_error *error)
{
    json_t *config = NULL;
    char *path = zr_sprintf(error, "%s/" ZR_MODEL_CONFIG, from);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_json_load(path, MOST_BYTES, &config, error);
    *there = status == ZERO_OK;
    if (status == ZERO_OK && !json_is_object(config))
        status = zr_fail(error, ZERO_ERR_DATA, "\"%s\" holds no object", path);
    if (status == ZERO_OK)
        status = dtype ? write_config_with_dtype(config, dtype, to, error)
                       : copy_file_if_there(from, ZR_MODEL_CONFIG, to, there, error);
    json_decref(config);
    zr_free(path);
    return status;
}

// Adds the tokenizer files that transformers needs, if the tokenizer can be read here; otherwise
// the files stay as they are.
static zero_status complete_tokenizer(const char *directory, zero_error *error)
{
    zr_tokenizer *tokenizer;
    if (!zr_tokenizer_is_at(directory) || zr_tokenizer_load(directory, &tokenizer, NULL) != ZERO_OK)
        return ZERO_OK;
    zero_status status = zr_tokenizer_save(tokenizer, directory, error);
    zr_tokenizer_destroy(tokenizer);
    return status;
}

static zero_status copy_files(const char *from, const char *to, bool *has_tokenizer,
                              zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(files); i++) {
        bool there = false;
        ZERO_TRY(copy_file_if_there(from, files[i], to, &there, error));
        *has_tokenizer = *has_tokenizer || (there && i < TOKENIZERS);
    }
    return complete_tokenizer(to, error);
}

zero_status zr_tokenizer_files_copy(const char *from, const char *to, zero_error *error)
{
    bool has_tokenizer = false;
    return copy_files(from, to, &has_tokenizer, error);
}

zero_status zr_tokenizer_files_replace(const char *from, const char *to, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(files); i++) {
        bool keeps = !strcmp(files[i], ZR_GENERATION_CONFIG) ||
                     (!strcmp(files[i], ZR_CHAT_TEMPLATE) && !zr_path_has(from, files[i]));
        char *path = zr_sprintf(error, "%s/%s", to, files[i]);
        if (!path)
            return ZERO_ERR_MEMORY;
        if (!keeps)
            unlink(path);
        zr_free(path);
    }
    return zr_tokenizer_files_copy(from, to, error);
}

zero_status zr_model_files_copy(const zr_source *source, const char *model_dir, const char *dtype,
                                const char *directory, bool *has_config, bool *has_tokenizer,
                                zero_error *error)
{
    char *found = NULL;
    json_t *own = json_object_get(source->state, "model_config");
    ZERO_TRY(model_dir ? ZERO_OK : zr_find_model_files(source->path, &found, error));
    const char *from = model_dir ? model_dir : found;
    zero_status status = ZERO_OK;
    *has_config = *has_tokenizer = false;
    if (json_is_object(own) && (!model_dir || zr_source_is_nanogpt(source))) {
        *has_config = true;
        status = write_config_with_dtype(own, dtype, directory, error);
    } else if (from) {
        status = copy_config(from, dtype, directory, has_config, error);
    }
    if (status == ZERO_OK && from)
        status = copy_files(from, directory, has_tokenizer, error);
    if (status == ZERO_OK && !model_dir && zr_source_is_nanogpt(source))
        status = zr_nanogpt_tokenizer_write(source->path, directory, has_tokenizer, error);
    zr_free(found);
    return status;
}
