// Loads a chat template, of a model directory, a name or a file, with the special tokens that it
// writes.
#include "base/file.h"
#include "chat/chat_internal.h"

#include <string.h>

enum { MOST_BYTES = 64 << 20 }; // most bytes of tokenizer_config.json

static const char own_name[] = "the model's own template";

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
static zero_status read_own_file(const char *directory, char **text, size_t *length,
                                 zero_error *error)
{
    char *path = zr_sprintf(error, "%s/chat_template.jinja", directory);
    *text = NULL;
    zero_status status = !path ? ZERO_ERR_MEMORY
                         : zr_path_exists(path)
                             ? zr_file_read(path, MOST_BYTES, text, length, error)
                             : ZERO_OK;
    zr_free(path);
    return status;
}

zero_status zr_chat_template_in(const char *directory, char **out, zero_error *error)
{
    json_t *config = NULL;
    size_t length;
    ZERO_TRY(read_own_file(directory, out, &length, error));
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

// Keeps the reason why a model's own template cannot be used.
static zero_status refuse_own(zr_chat *out, zero_status status, const zero_error *why,
                              zero_error *error)
{
    if (status == ZERO_ERR_MEMORY)
        return zr_fail(error, status, "%s", why->message);
    out->refusal = zr_sprintf(error,
                              "the chat template of this model cannot be read: %.400s; --chat "
                              "FORMAT names another",
                              why->message);
    return out->refusal ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status load_own(const char *directory, const json_t *config, zr_chat *out,
                            zero_error *error)
{
    char *own;
    size_t length = 0;
    zero_error why = {0};
    ZERO_TRY(read_own_file(directory, &own, &length, error));
    const char *text = own ? own : template_in_config(config);
    zero_status status = ZERO_OK;
    if (text)
        status =
            zr_template_parse(text, own ? length : strlen(text),
                              own ? "chat_template.jinja" : "chat_template", &out->template, &why);
    zr_free(own);
    if (status != ZERO_OK)
        return refuse_own(out, status, &why, error);
    if (text)
        return ZERO_OK;
    out->refusal =
        zr_sprintf(error, "messages need a chat template, and %s has none; --chat FORMAT names one",
                   directory);
    return out->refusal ? ZERO_OK : ZERO_ERR_MEMORY;
}

static bool is_file_name(const char *format)
{
    static const char ending[] = ".jinja";
    size_t length = strlen(format);
    return length > sizeof ending - 1 && !strcmp(format + length - (sizeof ending - 1), ending);
}

static zero_status load_file(const char *path, zr_chat *out, zero_error *error)
{
    char *text;
    size_t length;
    ZERO_TRY(zr_file_read(path, ZR_TEMPLATE_SOURCE_BYTES, &text, &length, error));
    zero_status status = zr_template_parse(text, length, path, &out->template, error);
    zr_free(text);
    return status;
}

static zero_status load_named(const char *name, zr_chat *out, zero_error *error)
{
    const zr_chat_format *format = zr_chat_format_find(name);
    if (is_file_name(name))
        return load_file(name, out, error);
    if (format)
        return zr_template_parse(format->text, strlen(format->text), name, &out->template, error);
    return zr_fail(error, ZERO_ERR_USAGE,
                   "chat format \"%s\": it must be chatml, llama2, llama3, llama3.1, mistral, "
                   "mistral-spaced or mistral-2024, or a file NAME.jinja",
                   name);
}

// Puts the text of "<s>", or of {"content": "<s>", ...}, among the variables, unless it is there.
static bool put_token(json_t *tokens, const char *key, const json_t *token)
{
    const json_t *text = json_is_object(token) ? json_object_get(token, "content") : token;
    return !json_is_string(text) || json_object_get(tokens, key) ||
           !json_object_set(tokens, key, (json_t *)text);
}

// The special tokens of the directory's files, tokenizer_config.json first, as transformers passes
// them; without a directory, those of the format's own models.
static bool put_tokens(const json_t *config, const json_t *special, const zr_chat_format *format,
                       json_t *tokens)
{
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
    bool done = tokens != NULL;
    for (int i = 0; done && i < ZR_COUNT(keys); i++)
        done = put_token(tokens, keys[i], json_object_get(config, keys[i])) &&
               put_token(tokens, keys[i], json_object_get(special, keys[i]));
    if (done && format)
        done = !json_object_set_new(tokens, "bos_token", json_string(format->begin)) &&
               !json_object_set_new(tokens, "eos_token", json_string(format->end));
    return done;
}

static zero_status read_json(const char *directory, const char *name, json_t **out,
                             zero_error *error)
{
    char *path = zr_sprintf(error, "%s/%s", directory, name);
    zero_status status = !path                  ? ZERO_ERR_MEMORY
                         : zr_path_exists(path) ? zr_json_load(path, MOST_BYTES, out, error)
                                                : ZERO_OK;
    zr_free(path);
    return status;
}

static zero_status load_template(const char *directory, const char *format, const json_t *config,
                                 zr_chat *out, zero_error *error)
{
    if (format)
        return load_named(format, out, error);
    if (directory)
        return load_own(directory, config, out, error);
    out->refusal = zr_strdup("messages need a chat template, and this tokenizer has none; --chat "
                             "FORMAT names one",
                             error);
    return out->refusal ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status load_parts(const char *directory, const char *format, const json_t *config,
                              const json_t *special, zr_chat *out, zero_error *error)
{
    const zr_chat_format *named = format ? zr_chat_format_find(format) : NULL;
    out->name = zr_strdup(format ? format : own_name, error);
    out->counts = out->name ? zr_alloc(sizeof *out->counts, error) : NULL;
    if (!out->counts)
        return ZERO_ERR_MEMORY;
    out->tokens = json_object();
    if (!put_tokens(config, special, directory ? NULL : named, out->tokens))
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for the special tokens of a chat");
    ZERO_TRY(load_template(directory, format, config, out, error));
    return zr_chat_find_turn_end(out, NULL, error);
}

zero_status zr_chat_load(const char *directory, const char *format, const char *date, zr_chat *out,
                         zero_error *error)
{
    json_t *config = NULL, *special = NULL;
    *out = (zr_chat){0};
    ZERO_TRY(zr_chat_date_read(date, &out->date, error));
    zero_status status =
        directory ? read_json(directory, "tokenizer_config.json", &config, error) : ZERO_OK;
    if (status == ZERO_OK && directory)
        status = read_json(directory, "special_tokens_map.json", &special, error);
    format = format && strcmp(format, "auto") ? format : NULL;
    if (status == ZERO_OK)
        status = load_parts(directory, format, config, special, out, error);
    json_decref(config);
    json_decref(special);
    if (status != ZERO_OK)
        zr_chat_free(out);
    return status;
}

const char *zr_chat_format_name(const zr_chat *chat) { return chat->template ? chat->name : NULL; }

void zr_chat_template(const zr_chat *chat, zr_buffer *out)
{
    size_t length;
    const char *text = zr_template_text(chat->template, &length);
    zr_buffer_append(out, text, length);
}

const char *zr_chat_directory(const char *adapter, const char *model)
{
    char *text = NULL;
    bool has = adapter && zr_chat_template_in(adapter, &text, NULL) == ZERO_OK && text;
    zr_free(text);
    return has ? adapter : model;
}

void zr_chat_free(zr_chat *chat)
{
    zr_template_free(chat->template);
    json_decref(chat->tokens);
    zr_free(chat->name);
    zr_free(chat->refusal);
    zr_free(chat->turn_end);
    for (int i = 0; i < chat->mark_count; i++)
        zr_free(chat->marks[i]);
    zr_free(chat->marks);
    zr_free(chat->counts);
    *chat = (zr_chat){0};
}
