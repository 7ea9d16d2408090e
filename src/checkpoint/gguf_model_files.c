// The files of a model directory, made of a GGUF file's keys.
#include "checkpoint/gguf_model.h"

#include "formats/source_gguf.h"
#include "model/architecture.h"

#include <string.h>

static zero_status write_tokenizer(const zr_gguf *gguf, const char *directory, bool *there,
                                   zero_error *error)
{
    zr_token_list list;
    zr_buffer json = {0}, config = {0};
    ZERO_TRY(zr_gguf_read_tokenizer(gguf, &list, error));
    *there = list.count > 0;
    zero_status status =
        *there ? zr_token_list_json(&list, gguf->path, &json, &config, error) : ZERO_OK;
    if (*there && status == ZERO_OK)
        status = zr_file_write_text_in(directory, "tokenizer.json", &json, error);
    if (*there && status == ZERO_OK)
        status = zr_file_write_text_in(directory, "tokenizer_config.json", &config, error);
    zr_buffer_free(&json);
    zr_buffer_free(&config);
    zr_token_list_free(&list);
    return status;
}

// Returns after the text of config.json the type of the weights, which zr_lm_config_write writes as
// that of a training's.
static zero_status write_config(const zr_lm_config *config, const char *dtype,
                                const char *directory, zero_error *error)
{
    static const char usual[] = "\"float32\"";
    zr_buffer text = {0}, out = {0};
    zr_lm_config_write(config, &text);
    const char *found = text.failed ? NULL : strstr(text.data, usual);
    if (found)
        zr_buffer_printf(&out, "%.*s\"%s\"%s", (int)(found - text.data), text.data, dtype,
                         found + strlen(usual));
    out.failed |= !found;
    zr_buffer_free(&text);
    return zr_file_write_text_in(directory, ZR_MODEL_CONFIG, &out, error);
}

zero_status zr_gguf_model_files(const zr_source *source, const char *dtype, const char *directory,
                                bool *has_tokenizer, zero_error *error)
{
    const zr_gguf *gguf = zr_source_gguf(source);
    zr_gguf_text template = {NULL, 0};
    ZERO_TRY(write_config(zr_source_gguf_config(source), dtype, directory, error));
    ZERO_TRY(write_tokenizer(gguf, directory, has_tokenizer, error));
    ZERO_TRY(zr_gguf_get_text(gguf, "tokenizer.chat_template", &template, error));
    return template.at
               ? zr_file_write_in(directory, ZR_CHAT_TEMPLATE, template.at, template.length, error)
               : ZERO_OK;
}
