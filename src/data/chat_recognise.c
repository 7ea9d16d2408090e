// Finds the format of a chat template by comparing its whole text with the texts of the known
// templates. Differences without effect are removed first.
//
// Without effect are: white space inside of tags but outside of literals, trim marks ({%- -%}), the
// line ends and indents that transformers' Jinja drops (trim_blocks, lstrip_blocks), comments, the
// kind of quotes. In a known text \1 stands for a system message of any wording, and the prompt of
// an answer may follow. Long texts are kept as hashes.
#include "base/random.h"
#include "data/chat_internal.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 100 }; // bytes of a template's first line shown in messages

#define PLAIN "{% for message in messages %}"
#define CHATML                                                                                     \
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% "  \
    "endfor %}"
#define DEFAULT                                                                                    \
    "{% if loop.first and messages[0]['role'] != 'system' %}{{ "                                   \
    "'<|im_start|>system\\n\1<|im_end|>\\n' }}{% endif %}"
#define TURNS                                                                                      \
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ "                            \
    "raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% " \
    "endif %}"
#define LLAMA2                                                                                     \
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set "        \
    "system_message = messages[0]['content'] %}"                                                   \
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% "   \
    "for message in loop_messages %}" TURNS                                                        \
    "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + "        \
    "system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"                                 \
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' "  \
    "%}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"                                 \
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% "    \
    "endif %}{% endfor %}"
#define LLAMA3                                                                                     \
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "        \
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"                          \
    "+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = "      \
    "bos_token + content %}{% endif %}{{ content }}{% endfor %}"
#define MISTRAL(open, close, after)                                                                \
    "{{ bos_token }}" PLAIN TURNS "{% if message['role'] == 'user' %}{{ '" open                    \
    "' + message['content'] + '" close "' }}"                                                      \
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token" after "}}"        \
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif "     \
    "%}{% endfor %}"
#define MISTRAL_2024                                                                               \
    "{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% " \
    "set loop_messages = messages[1:] %}{% else %}"                                                \
    "{% set loop_messages = messages %}{% endif %}{{ bos_token }}{% for message in loop_messages " \
    "%}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"                             \
    "{{ raise_exception('After the optional system message, conversation roles must alternate "    \
    "user/assistant/user/assistant/...') }}{% endif %}"                                            \
    "{% if message['role'] == 'user' %}{% if loop.first and system_message is defined %}{{ ' "     \
    "[INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}"                    \
    "{% else %}{{ ' [INST] ' + message['content'] + ' [/INST]' }}{% endif %}{% elif "              \
    "message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token}}"                   \
    "{% else %}{{ raise_exception('Only user and assistant roles are supported, with the "         \
    "exception of an initial optional system message!') }}{% endif %}{% endfor %}"

#define LLAMA31                                                                                    \
    "{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] | "    \
    "trim %}{% set loop_messages = messages[1:] %}{% else %}{% set system_message = '' %}{% set "  \
    "loop_messages = messages %}{% endif %}{{ bos_token + "                                        \
    "'<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December "           \
    "2023\\nToday Date: 26 Jul 2024\\n\\n' + system_message + '<|eot_id|>' }}{% for message in "   \
    "loop_messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + "    \
    "message['content'] | trim + '<|eot_id|>' }}{% endfor %}"

static const struct {
    const char *format, *text;
} known[] = {
    {"chatml", PLAIN CHATML},
    {"chatml", PLAIN DEFAULT CHATML},
    {"llama2", LLAMA2},
    {"llama3", LLAMA3},
    {"llama3.1", LLAMA31},
    {"mistral", MISTRAL("[INST] ", " [/INST]", "")},
    {"mistral-spaced", MISTRAL("[INST] ", " [/INST]", " + ' '")},
    {"mistral-2024", MISTRAL_2024},
};

// Published templates that also write tools; their texts are too long to keep here. test_chat
// prints the hashes of a text that is not in the table but should be.
static const struct {
    const char *format;
    zr_chat_hash hash;
} hashed[] = {
    {"chatml", {0x23dfdc1b09b523f7, 0x8ae9e25df0124d62, 1708}}, // Qwen2.5
    // The same with other braces in the text about tools: Qwen2.5 0.5B and others.
    {"chatml", {0xc66dbc2642b5b0cd, 0x93602981954961ae, 1710}},
    // As trl saves it, with {% generation %} around answers.
    {"chatml", {0x28b29a7acc54184b, 0xe8f4594f7bb61f4f, 1765}},
    {"llama3.1", {0x1f8c20fad4fadfc3, 0xb2e8d1b328a0cbee, 3162}}, // Llama 3.1 and 3.3
};

// Appends a character of a literal in `quote`s as a literal in single quotes has it. Returns how
// many bytes of the text it takes.
static size_t take_character(const char *at, char quote, zr_buffer *out)
{
    bool escape = *at == '\\' && at[1];
    if (escape && at[1] != '"')
        zr_buffer_append(out, at, 2);
    else if (escape)
        zr_buffer_append(out, "\"", 1);
    else if (*at == '\'' && quote == '"')
        zr_buffer_append(out, "\\'", 2);
    else if (*at == '\n')
        zr_buffer_append(out, "\\n", 2);
    else
        zr_buffer_append(out, at, 1);
    return escape ? 2 : 1;
}

// Appends the text of a tag without white space and with all quotes single. A tag is from {{ or {%
// to }} or %}; `at` is after its opening. Returns where it ends.
static const char *take_tag(const char *at, zr_buffer *out)
{
    for (char quote = 0; *at && (quote || !((at[0] == '%' || at[0] == '}') && at[1] == '}'));) {
        if (quote && *at != quote) {
            at += take_character(at, quote, out);
            continue;
        }
        if (*at == '\'' || *at == '"') {
            quote = quote ? 0 : *at;
            zr_buffer_append(out, "'", 1);
        } else if (!strchr(" \t\r\n", *at)) {
            zr_buffer_append(out, at, 1);
        }
        at++;
    }
    return at;
}

static void drop_blanks(zr_buffer *out, const char *blanks)
{
    while (out->length && strchr(blanks, out->data[out->length - 1]))
        out->length--;
}

// Returns whether there are only blanks before `at` on its line. Jinja drops them before a block or
// a comment (lstrip_blocks).
static bool is_indented(const char *text, const char *at)
{
    while (at > text && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    return at == text || at[-1] == '\n';
}

// Takes a tag that opens at `at`. *trims: white space after it is dropped, up to the next text.
static const char *take_any_tag(const char *text, const char *at, bool *trims, zr_buffer *out)
{
    char kind = at[1];
    const char *inner = at + 2;
    if (*inner == '-') {
        drop_blanks(out, " \t\r\n");
        inner++;
    } else if (kind != '{' && is_indented(text, at)) {
        drop_blanks(out, " \t");
    }
    if (kind == '#') {
        const char *end = strstr(inner, "#}");
        *trims = end && end > inner && end[-1] == '-';
        at = end ? end + 2 : inner + strlen(inner);
    } else {
        zr_buffer_append(out, kind == '{' ? "{{" : "{%", 2);
        at = take_tag(inner, out);
        *trims = out->length && out->data[out->length - 1] == '-';
        out->length -= *trims;
        zr_buffer_append(out, kind == '{' ? "}}" : "%}", 2);
        at += *at ? 2 : 0;
    }
    return !*trims && kind != '{' && *at == '\n' ? at + 1 : at; // trim_blocks
}

// Appends the template in the form in which it is compared.
static void normalise_template(const char *text, zr_buffer *out)
{
    bool trims = false;
    for (const char *at = text; *at && !out->failed;) {
        if (at[0] == '{' && at[1] && strchr("{%#", at[1])) {
            at = take_any_tag(text, at, &trims, out);
            continue;
        }
        if (!trims || !strchr(" \t\r\n", *at)) {
            zr_buffer_append(out, at, 1);
            trims = false;
        }
        at++;
    }
    if (out->length && out->data[out->length - 1] == '\n')
        out->length--;
    zr_buffer_append(out, "", 0);
}

// Returns whether only the prompt of an answer, if anything, follows; training leaves the prompt
// out. A template writes it under the condition add_generation_prompt or, in one template, always.
static bool is_only_prompt(const char *rest, const char *answer)
{
    static const char condition[] = "{%ifadd_generation_prompt%}", end[] = "{%endif%}";
    if (!*rest || !answer)
        return !*rest;
    bool conditional = !strncmp(rest, condition, sizeof condition - 1);
    rest += conditional ? sizeof condition - 1 : 0;
    if (strncmp(rest, "{{'", 3))
        return false;
    for (rest += 3; *answer; answer++) {
        size_t length = *answer == '\n' ? 2 : 1;
        if (strncmp(rest, length == 2 ? "\\n" : answer, length))
            return false;
        rest += length;
    }
    return !strncmp(rest, "'}}", 3) && !strcmp(rest + 3, conditional ? end : "");
}

// Returns the system message, in Jinja's escapes, if the text matches `pattern`; otherwise NULL.
// *length is 0 if the pattern has no system message.
static const char *match_system_message(const char *text, const char *pattern, const char *answer,
                                        size_t *length)
{
    const char *hole = strchr(pattern, '\1');
    size_t before = hole ? (size_t)(hole - pattern) : strlen(pattern);
    *length = 0;
    if (strncmp(text, pattern, before))
        return NULL;
    const char *system = text + before, *rest = system;
    if (hole) {
        *length = strcspn(system, "'<");
        rest += *length;
        if (!*length || strncmp(rest, hole + 1, strlen(hole + 1)))
            return NULL;
        rest += strlen(hole + 1);
    }
    return is_only_prompt(rest, answer) ? system : NULL;
}

static char *unescape_jinja_text(const char *text, size_t length, zero_error *error)
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
        const zr_chat_format *format = zr_chat_format_find(known[i].format);
        zr_buffer pattern = {0};
        size_t length;
        normalise_template(known[i].text, &pattern);
        const char *system =
            pattern.failed ? NULL
                           : match_system_message(text, pattern.data, format->answer, &length);
        if (system)
            out->format = format;
        bool failed =
            pattern.failed ||
            (system && length && !(out->system = unescape_jinja_text(system, length, error)));
        zr_buffer_free(&pattern);
        if (failed)
            return zr_fail(error, ZERO_ERR_MEMORY, "no memory to compare a chat template");
    }
    return ZERO_OK;
}

// Finds the default system message of a template that writes tools: it is in a literal of its own,
// and in one with the marks around it.
static const char *find_system(const char *text, size_t *length)
{
    static const char open[] = "{{'<|im_start|>system\\n", close[] = "<|im_end|>\\n'}}";
    for (const char *at = text; (at = strstr(at, open));) {
        at += sizeof open - 1;
        *length = strcspn(at, "'<");
        if (*length && !strncmp(at + *length, close, sizeof close - 1))
            return at;
    }
    return NULL;
}

// Copies the text with \1 in place of each system message.
static void replace_system_by_hole(const char *text, const char *system, size_t length,
                                   zr_buffer *out)
{
    while (*text && !out->failed) {
        bool here = system && !strncmp(text, system, length);
        zr_buffer_append(out, here ? "\1" : text, 1);
        text += here ? length : 1;
    }
}

// `system` is the message, within the text; NULL if there is none.
static zero_status hash_text(const char *text, const char *system, size_t length, zr_chat_hash *out,
                             zero_error *error)
{
    zr_buffer holed = {0};
    replace_system_by_hole(text, system, length, &holed);
    if (!holed.failed)
        *out = (zr_chat_hash){zr_hash_bytes(holed.data, holed.length, 0),
                              zr_hash_bytes(holed.data, holed.length, 1), holed.length};
    bool failed = holed.failed;
    zr_buffer_free(&holed);
    return failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to compare a chat template")
                  : ZERO_OK;
}

zero_status zr_chat_hash_template(const char *text, zr_chat_hash *out, zero_error *error)
{
    zr_buffer plain = {0};
    size_t length = 0;
    normalise_template(text, &plain);
    const char *system = plain.failed ? NULL : find_system(plain.data, &length);
    zero_status status =
        plain.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to compare a chat template")
                     : hash_text(plain.data, system, length, out, error);
    zr_buffer_free(&plain);
    return status;
}

static zero_status find_format_by_hash(const char *text, zr_chat *out, zero_error *error)
{
    zr_chat_hash hash;
    size_t length = 0;
    const char *system = find_system(text, &length);
    ZERO_TRY(hash_text(text, system, length, &hash, error));
    for (int i = 0; i < ZR_COUNT(hashed); i++)
        if (!memcmp(&hashed[i].hash, &hash, sizeof hash))
            out->format = zr_chat_format_find(hashed[i].format);
    if (out->format && system && !(out->system = unescape_jinja_text(system, length, error)))
        return ZERO_ERR_MEMORY;
    return ZERO_OK;
}

static zero_status refuse_unknown_template(const char *text, zr_chat *out, zero_error *error)
{
    size_t line = strcspn(text, "\n");
    const char *why = strstr(text, "strftime_now")
                          ? "writes the date of today, which no training could repeat"
                          : "is none of those that are known (docs/data.md)";
    out->refusal = zr_sprintf(
        error,
        "the chat template of this model %s; it begins \"%.*s%s\"; --chat FORMAT names another",
        why, (int)ZR_MIN(line, (size_t)SHOWN), text, line > SHOWN ? "..." : "");
    return out->refusal ? ZERO_OK : ZERO_ERR_MEMORY;
}

// Writes a token of the tokenizer as a literal of a template.
static void add_literal(const char *text, zr_buffer *out)
{
    zr_buffer_append(out, "'", 1);
    for (; *text; text++) {
        bool escape = *text == '\'' || *text == '\\' || *text == '\n';
        if (escape)
            zr_buffer_append(out, "\\", 1);
        zr_buffer_append(out, *text == '\n' ? "n" : text, 1);
    }
    zr_buffer_append(out, "'", 1);
}

void zr_chat_template(const zr_chat *chat, zr_buffer *out)
{
    const char *answer = chat->format->answer;
    for (int i = 0; i < ZR_COUNT(known); i++)
        if (!strcmp(known[i].format, chat->format->name)) {
            zr_buffer_append(out, known[i].text, strlen(known[i].text));
            break;
        }
    if (!answer)
        return;
    zr_buffer_printf(out, "{%% if add_generation_prompt %%}{{ ");
    add_literal(answer, out);
    zr_buffer_printf(out, " }}{%% endif %%}");
}

zero_status zr_chat_recognise(const char *text, zr_chat *out, zero_error *error)
{
    zr_buffer plain = {0};
    *out = (zr_chat){0};
    normalise_template(text, &plain);
    zero_status status =
        plain.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to compare a chat template")
                     : find_known(plain.data, out, error);
    if (status == ZERO_OK && !out->format)
        status = find_format_by_hash(plain.data, out, error);
    zr_buffer_free(&plain);
    if (status == ZERO_OK && !out->format)
        status = refuse_unknown_template(text, out, error);
    if (status != ZERO_OK)
        zr_chat_free(out);
    return status;
}
