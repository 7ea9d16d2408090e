// Which format a chat template is: its text, with what makes no difference taken out, against the texts of the known ones.
//
// What makes no difference: white space inside of tags, trim marks ({%- -%}) and the line ends that Jinja drops with trim_blocks, comments,
// the kind of quotes, what is written only where an answer is to be generated. In a known text \1 stands for a system message of any wording.
#include "data/chat_internal.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 100, MOST_BYTES = 64 << 20 }; // of a template's first line in messages; of tokenizer_config.json

#define PLAIN "{% for message in messages %}"
#define CHATML "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
#define DEFAULT "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n\1<|im_end|>\\n' }}{% endif %}"
#define TURNS "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
#define LLAMA2                                                                                                                                             \
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}"                     \
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}" TURNS                      \
    "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"    \
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}" \
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
#define LLAMA3                                                                                                                                              \
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'" \
    "+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
#define MISTRAL(open, close, after)                                                                                                                         \
    "{{ bos_token }}" PLAIN TURNS "{% if message['role'] == 'user' %}{{ '" open "' + message['content'] + '" close "' }}"                                    \
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token" after "}}"                                                                  \
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
#define MISTRAL_2024                                                                                                                                       \
    "{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% set loop_messages = messages[1:] %}{% else %}"           \
    "{% set loop_messages = messages %}{% endif %}{{ bos_token }}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" \
    "{{ raise_exception('After the optional system message, conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"          \
    "{% if message['role'] == 'user' %}{% if loop.first and system_message is defined %}{{ ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}" \
    "{% else %}{{ ' [INST] ' + message['content'] + ' [/INST]' }}{% endif %}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token}}" \
    "{% else %}{{ raise_exception('Only user and assistant roles are supported, with the exception of an initial optional system message!') }}{% endif %}{% endfor %}"

static const struct {
    const char *format, *text;
} known[] = {
    {"chatml", PLAIN CHATML}, {"chatml", PLAIN DEFAULT CHATML}, {"llama2", LLAMA2}, {"llama3", LLAMA3}, {"mistral", MISTRAL("[INST] ", " [/INST]", "")},
    {"mistral-spaced", MISTRAL("[INST] ", " [/INST]", " + ' '")}, {"mistral-2024", MISTRAL_2024},
};

// Templates that also write tools: too long, and of too many wordings, to compare. All of a row's marks must be there and none of `without`.
static const struct {
    const char *format, *marks[5], *without, *system;
} marked[] = {
    {"chatml", {"{%iftools%}", "'<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n'", "<tool_call>", "messages[0]['content']",
                "<|im_end|>"}, "<think>", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
    {"llama3.1", {"Cutting Knowledge Date: December 2023\\n", "26 Jul 2024", "<|start_header_id|>system<|end_header_id|>\\n\\n", "message['content']|trim", "<|eot_id|>"},
     "strftime_now", NULL},
};

// A tag is from {{ or {% to }} or %}; *at stands behind its opening. Its text without white space, quotes all single.
static const char *take_tag(const char *at, zr_buffer *out)
{
    for (char quote = 0; *at && (quote || !((at[0] == '%' || at[0] == '}') && at[1] == '}')); at++) {
        bool escape = quote && *at == '\\' && at[1];
        if (escape)
            zr_buffer_append(out, at++, 2);
        else if (quote ? *at == quote : *at == '\'' || *at == '"') {
            quote = quote ? 0 : *at;
            zr_buffer_append(out, "'", 1);
        } else if (quote && *at == '\n')
            zr_buffer_append(out, "\\n", 2);
        else if (quote || !strchr(" \t\r\n", *at))
            zr_buffer_append(out, at, 1);
    }
    return at;
}

static void drop_blanks(zr_buffer *out, const char *blanks)
{
    while (out->length && strchr(blanks, out->data[out->length - 1]))
        out->length--;
}

// The template as it is compared.
static void normalise(const char *text, zr_buffer *out)
{
    bool trims = false; // white space up to the next tag goes
    for (const char *at = text; *at && !out->failed;) {
        if (at[0] != '{' || !at[1] || !strchr("{%#", at[1])) {
            if (!trims || !strchr(" \t\r\n", *at)) {
                zr_buffer_append(out, at, 1);
                trims = false;
            }
            at++;
            continue;
        }
        char kind = at[1];
        at += 2;
        if (*at == '-') {
            drop_blanks(out, " \t\r\n");
            at++;
        } else if (kind != '{') {
            drop_blanks(out, " \t");
        }
        if (kind == '#') {
            const char *end = strstr(at, "#}");
            at = end ? end + 2 : at + strlen(at);
        } else {
            zr_buffer_append(out, kind == '{' ? "{{" : "{%", 2);
            at = take_tag(at, out);
            trims = out->length && out->data[out->length - 1] == '-';
            out->length -= trims;
            zr_buffer_append(out, kind == '{' ? "}}" : "%}", 2);
            at += *at ? 2 : 0;
        }
        if (!trims && kind != '{' && *at == '\n')
            at++;
    }
    drop_blanks(out, "\r\n");
    zr_buffer_append(out, "", 0);
}

// The system message where the text is `pattern`, in Jinja's escapes; NULL: it is not. *length 0: the pattern has none.
static const char *match(const char *text, const char *pattern, size_t *length)
{
    const char *hole = strchr(pattern, '\1');
    size_t before = hole ? (size_t)(hole - pattern) : strlen(pattern);
    *length = 0;
    if (strncmp(text, pattern, before))
        return NULL;
    if (hole) {
        *length = strcspn(text + before, "'<");
        before += *length;
        if (!*length || strncmp(text + before, hole + 1, strlen(hole + 1)))
            return NULL;
        before += strlen(hole + 1);
    }
    // What may follow: the prompt of an answer, written or not.
    static const char generation[] = "{%ifadd_generation_prompt%}";
    const char *rest = text + before;
    bool prompt = !strncmp(rest, generation, sizeof generation - 1);
    const char *plain = "{{'<|start_header_id|>assistant<|end_header_id|>\\n\\n'}}"; // Llama 3 writes it always; training leaves it out
    return !*rest || prompt || !strcmp(rest, plain) ? text + (hole ? hole - pattern : 0) : NULL;
}

static char *unescape(const char *text, size_t length, zero_error *error)
{
    char *out = zr_alloc(length + 1, error);
    for (size_t i = 0, at = 0; out && i < length; i++) {
        bool escape = text[i] == '\\' && i + 1 < length;
        i += escape;
        out[at++] = escape && text[i] == 'n' ? '\n' : escape && text[i] == 't' ? '\t' : text[i];
    }
    return out;
}

static zero_status find_known(const char *text, zr_chat *out, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(known) && !out->format; i++) {
        zr_buffer pattern = {0};
        size_t length;
        normalise(known[i].text, &pattern);
        const char *system = pattern.failed ? NULL : match(text, pattern.data, &length);
        if (system)
            out->format = zr_chat_format_find(known[i].format);
        bool failed = pattern.failed || (system && length && !(out->system = unescape(system, length, error)));
        zr_buffer_free(&pattern);
        if (failed)
            return zr_fail(error, ZERO_ERR_MEMORY, "no memory to compare a chat template");
    }
    return ZERO_OK;
}

static zero_status find_marked(const char *text, zr_chat *out, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(marked) && !out->format; i++) {
        bool all = !strstr(text, marked[i].without);
        for (int m = 0; m < ZR_COUNT(marked[i].marks); m++)
            all = all && strstr(text, marked[i].marks[m]);
        if (!all)
            continue;
        out->format = zr_chat_format_find(marked[i].format);
        if (marked[i].system && !(out->system = zr_strdup(marked[i].system, error)))
            return ZERO_ERR_MEMORY;
    }
    return ZERO_OK;
}

zero_status zr_chat_recognise(const char *text, zr_chat *out, zero_error *error)
{
    zr_buffer plain = {0};
    *out = (zr_chat){0};
    normalise(text, &plain);
    zero_status status = plain.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to compare a chat template") : find_known(plain.data, out, error);
    if (status == ZERO_OK && !out->format)
        status = find_marked(plain.data, out, error);
    zr_buffer_free(&plain);
    if (status == ZERO_OK && !out->format) {
        size_t line = strcspn(text, "\n");
        const char *why = strstr(text, "strftime_now") ? "writes the date of today, which no training could repeat" : "is none of those that are known (docs/data.md)";
        out->refusal = zr_sprintf(error, "the chat template of this model %s; it begins \"%.*s%s\"; --chat FORMAT names another", why, (int)ZR_MIN(line, (size_t)SHOWN), text,
                                  line > SHOWN ? "..." : "");
        status = out->refusal ? ZERO_OK : ZERO_ERR_MEMORY;
    }
    if (status != ZERO_OK)
        zr_chat_free(out);
    return status;
}

// "<s>", or {"content": "<s>", ...}.
static char *token_of(const json_t *config, const char *key, zero_error *error)
{
    const json_t *token = json_object_get(config, key);
    const char *text = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    return zr_strdup(text ? text : "", error);
}

// The template in tokenizer_config.json: text, or a list of {"name", "template"}, of which "default" counts.
static const char *template_of(const json_t *config)
{
    const json_t *entry = json_object_get(config, "chat_template"), *item;
    size_t i;
    if (!json_is_array(entry))
        return json_string_value(entry);
    json_array_foreach(entry, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && !strcmp(name, "default"))
            return json_string_value(json_object_get(item, "template"));
    }
    return NULL;
}

// A file of its own wins over tokenizer_config.json, as in transformers. *text NULL: there is none.
static zero_status read_own_file(const char *directory, char **text, zero_error *error)
{
    size_t length;
    char *path = zr_sprintf(error, "%s/chat_template.jinja", directory);
    *text = NULL;
    zero_status status = !path ? ZERO_ERR_MEMORY : zr_path_exists(path) ? zr_file_read(path, MOST_BYTES, text, &length, error) : ZERO_OK;
    zr_free(path);
    return status;
}

static zero_status recognise_in(const char *directory, const json_t *config, zr_chat *out, zero_error *error)
{
    char *own;
    ZERO_TRY(read_own_file(directory, &own, error));
    const char *text = own ? own : template_of(config);
    zero_status status = text ? zr_chat_recognise(text, out, error) : ZERO_OK;
    zr_free(own);
    if (!text && !(out->refusal = zr_sprintf(error, "messages need a chat template, and %s has none; --chat FORMAT names one", directory)))
        status = ZERO_ERR_MEMORY;
    return status;
}

static zero_status set_format(zr_chat *out, const char *format, zero_error *error)
{
    out->format = zr_chat_format_find(format);
    return out->format ? ZERO_OK : zr_fail(error, ZERO_ERR_USAGE, "chat format \"%s\": it must be chatml, llama2, llama3, llama3.1, mistral, mistral-spaced or mistral-2024", format);
}

// Without a directory, the tokens that the format's own models have.
static zero_status set_tokens(const json_t *config, const char *directory, zr_chat *out, zero_error *error)
{
    bool llama3 = out->format && !strncmp(out->format->name, "llama3", 6);
    out->begin = directory ? token_of(config, "bos_token", error) : zr_strdup(llama3 ? "<|begin_of_text|>" : "<s>", error);
    out->end = directory ? token_of(config, "eos_token", error) : zr_strdup(llama3 ? "<|eot_id|>" : "</s>", error);
    return out->begin && out->end ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status load_from(const char *directory, const char *format, const json_t *config, zr_chat *out, zero_error *error)
{
    zero_status status = ZERO_OK;
    if (format && strcmp(format, "auto"))
        status = set_format(out, format, error);
    else if (directory)
        status = recognise_in(directory, config, out, error);
    else if (!(out->refusal = zr_strdup("messages need a chat template, and this tokenizer has none; --chat FORMAT names one", error)))
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
        status = !path ? ZERO_ERR_MEMORY : zr_path_exists(path) ? zr_json_load(path, MOST_BYTES, &config, error) : ZERO_OK;
        zr_free(path);
    }
    if (status == ZERO_OK)
        status = load_from(directory, format, config, out, error);
    json_decref(config);
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
