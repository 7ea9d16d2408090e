// Loads the chat template of a model directory with its begin and end tokens, and checks that the
// tokenizer has the format's marks.
#include "base/file.h"
#include "data/chat_internal.h"

#include <string.h>

enum { MOST_BYTES = 64 << 20 }; // most bytes of tokenizer_config.json

// Returns the text of "<s>", or of {"content": "<s>", ...}.
static char *copy_token_text(const json_t *config, const char *key, zero_error *error)
{
    const json_t *token = json_object_get(config, key);
    const char *text =
        json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    return zr_strdup(text ? text : "", error);
}

// Returns the template in tokenizer_config.json, which is a text, or a list of {"name",
// "template"}, where the one named "default" counts.
static const char *template_in_config(const json_t *config)
{
    const json_t *entry = json_object_get(config, "chat_template"), *item;
    size_t i;
    if (!json_is_array(entry))
        return json_string_value(entry);
    json_array_foreach(entry, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && !strcmp(name, "default"))
            return json_string_value(json_object_get(item, "template"));
    }
    return NULL;
}

// Reads chat_template.jinja, which wins over tokenizer_config.json, as in transformers. *text is
// NULL if there is no such file.
static zero_status read_own_file(const char *directory, char **text, zero_error *error)
{
    size_t length;
    char *path = zr_sprintf(error, "%s/chat_template.jinja", directory);
    *text = NULL;
    zero_status status = !path ? ZERO_ERR_MEMORY
                         : zr_path_exists(path)
                             ? zr_file_read(path, MOST_BYTES, text, &length, error)
                             : ZERO_OK;
    zr_free(path);
    return status;
}

zero_status zr_chat_template_in(const char *directory, char **out, zero_error *error)
{
    json_t *config = NULL;
    ZERO_TRY(read_own_file(directory, out, error));
    char *path = *out ? NULL : zr_sprintf(error, "%s/tokenizer_config.json", directory);
    zero_status status = *out || path ? ZERO_OK : ZERO_ERR_MEMORY;
    if (path && zr_path_exists(path))
        status = zr_json_load(path, MOST_BYTES, &config, error);
    const char *text = template_in_config(config);
    if (status == ZERO_OK && text && !(*out = zr_strdup(text, error)))
        status = ZERO_ERR_MEMORY;
    json_decref(config);
    zr_free(path);
    return status;
}

static zero_status recognise_in(const char *directory, const json_t *config, zr_chat *out,
                                zero_error *error)
{
    char *own;
    ZERO_TRY(read_own_file(directory, &own, error));
    const char *text = own ? own : template_in_config(config);
    zero_status status = text ? zr_chat_recognise(text, out, error) : ZERO_OK;
    zr_free(own);
    if (!text &&
        !(out->refusal = zr_sprintf(
              error, "messages need a chat template, and %s has none; --chat FORMAT names one",
              directory)))
        status = ZERO_ERR_MEMORY;
    return status;
}

static zero_status set_format(zr_chat *out, const char *format, zero_error *error)
{
    out->format = zr_chat_format_find(format);
    return out->format ? ZERO_OK
                       : zr_fail(error, ZERO_ERR_USAGE,
                                 "chat format \"%s\": it must be chatml, llama2, llama3, llama3.1, "
                                 "mistral, mistral-spaced or mistral-2024",
                                 format);
}

// Sets the begin and end tokens; without a directory, those of the format's own models.
static zero_status set_tokens(const json_t *config, const char *directory, zr_chat *out,
                              zero_error *error)
{
    bool llama3 = out->format && !strncmp(out->format->name, "llama3", 6);
    out->begin = directory ? copy_token_text(config, "bos_token", error)
                           : zr_strdup(llama3 ? "<|begin_of_text|>" : "<s>", error);
    out->end = directory ? copy_token_text(config, "eos_token", error)
                         : zr_strdup(llama3 ? "<|eot_id|>" : "</s>", error);
    return out->begin && out->end ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status choose_format_and_tokens(const char *directory, const char *format,
                                            const json_t *config, zr_chat *out, zero_error *error)
{
    zero_status status = ZERO_OK;
    if (format && strcmp(format, "auto"))
        status = set_format(out, format, error);
    else if (directory)
        status = recognise_in(directory, config, out, error);
    else if (!(out->refusal = zr_strdup("messages need a chat template, and this tokenizer has "
                                        "none; --chat FORMAT names one",
                                        error)))
        status = ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = set_tokens(config, directory, out, error);
    if (status != ZERO_OK)
        zr_chat_free(out);
    return status;
}

zero_status zr_chat_load(const char *directory, const char *format, zr_chat *out, zero_error *error)
{
    json_t *config = NULL;
    zero_status status = ZERO_OK;
    *out = (zr_chat){0};
    if (directory) {
        char *path = zr_sprintf(error, "%s/tokenizer_config.json", directory);
        status = !path                  ? ZERO_ERR_MEMORY
                 : zr_path_exists(path) ? zr_json_load(path, MOST_BYTES, &config, error)
                                        : ZERO_OK;
        zr_free(path);
    }
    if (status == ZERO_OK)
        status = choose_format_and_tokens(directory, format, config, out, error);
    json_decref(config);
    return status;
}

// Appends a mark to the list of those that are not tokens of the tokenizer.
static void append_mark_if_no_token(const zr_tokenizer *tokenizer, const char *mark,
                                    zr_buffer *lacking)
{
    int32_t id;
    if (mark && *mark && !zr_tokenizer_find(tokenizer, mark, &id))
        zr_buffer_printf(lacking, "%s%s", lacking->length ? ", " : "", mark);
}

static zero_status refuse_marks(zr_chat *chat, const char *named, const char *lacking,
                                zero_error *error)
{
    char *text = zr_sprintf(
        error,
        "the chat format %s needs the token%s %s, which the tokenizer lacks: a mark would be spelt "
        "in pieces; %s",
        chat->format->name, strchr(lacking, ',') ? "s" : "", lacking,
        named ? "choose a format whose marks are tokens of this model, or add these tokens to its "
                "tokenizer and its embeddings"
              : "add them to the tokenizer, or name another format with --chat");
    if (!text)
        return ZERO_ERR_MEMORY;
    if (named) {
        zr_fail(error, ZERO_ERR_USAGE, "%s", text);
        zr_free(text);
        return ZERO_ERR_USAGE;
    }
    chat->format = NULL;
    chat->refusal = text;
    return ZERO_OK;
}

zero_status zr_chat_check_marks(zr_chat *chat, const char *named, const zr_tokenizer *tokenizer,
                                zero_error *error)
{
    zr_buffer lacking = {0};
    // A format without marks writes the begin and the end token.
    bool folds = chat->format && !chat->format->marks;
    if (!chat->format || !tokenizer || zr_tokenizer_kind_of(tokenizer) != ZR_TOKENIZER_BPE)
        return ZERO_OK;
    for (int i = 0; !folds && chat->format->marks[i]; i++)
        append_mark_if_no_token(tokenizer, chat->format->marks[i], &lacking);
    if (folds || chat->format->begins)
        append_mark_if_no_token(tokenizer, chat->begin, &lacking);
    if (folds)
        append_mark_if_no_token(tokenizer, chat->end, &lacking);
    zero_status status =
        lacking.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the marks of a chat")
        : lacking.length
            ? refuse_marks(chat, named && strcmp(named, "auto") ? named : NULL, lacking.data, error)
            : ZERO_OK;
    zr_buffer_free(&lacking);
    return status;
}

void zr_chat_free(zr_chat *chat)
{
    zr_free(chat->begin);
    zr_free(chat->end);
    zr_free(chat->system);
    zr_free(chat->refusal);
    *chat = (zr_chat){0};
}
