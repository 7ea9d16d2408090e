// The marks that a template writes around messages (<|im_start|>, [INST], </s>): whether the
// tokenizer has them as tokens, which of them ends an answer, and where a text may be cut for
// encoding. They are found in renderings of two short messages.
#include "chat/chat_internal.h"
#include "chat/unicode_text.h"

#include <string.h>

enum { LONGEST_MARK = 96 }; // bytes

static const char question[] = "probe question", answer[] = "probe answer";

// Renders the two messages; false if the template refuses them, which tells nothing about marks.
static bool render_probe(const zr_chat *chat, bool prompt, zr_rendered *out)
{
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", question,
                                 "role", "assistant", "content", answer);
    zr_conversation of = {.messages = messages, .name = "probe"};
    zr_chat_text text;
    bool done = messages && zr_chat_text_open(chat, &of, &text, NULL) == ZERO_OK;
    if (done) {
        done = zr_chat_text_render(&text, prompt ? 1 : 2, prompt, out, NULL) == ZERO_OK;
        zr_chat_text_close(&text);
    }
    json_decref(messages);
    return done;
}

// Returns the length of a special token of the tokenizer's files at the beginning of the text.
static size_t match_special(const zr_chat *chat, const char *text, size_t length)
{
    const char *key;
    json_t *token;
    size_t best = 0;
    json_object_foreach(chat->tokens, key, token)
    {
        size_t width = json_string_length(token);
        if (width > best && width <= length && !memcmp(text, json_string_value(token), width))
            best = width;
    }
    return best;
}

// Returns the length of what looks like a mark at the beginning of the text: <...> or [...] without
// white space, or a special token; 0 if there is none. *must: it is one that a tokenizer must have.
static size_t match_mark(const zr_chat *chat, const char *text, size_t length, bool *must)
{
    size_t special = match_special(chat, text, length), end = 1;
    char close = *text == '<' ? '>' : *text == '[' ? ']' : 0;
    *must = special != 0;
    if (special || !close)
        return special;
    while (end < length && end < LONGEST_MARK && text[end] != close && text[end] != *text &&
           (unsigned char)text[end] > ' ')
        end += zr_text_step(text + end, length - end);
    if (end >= length || text[end] != close || end == 1)
        return 0;
    // "<|" and DeepSeek's "<" with a full-width bar
    *must = text[1] == '|' || (length > 4 && !memcmp(text + 1, "\xef\xbd\x9c", 3));
    return end + 1;
}

// Returns whether cutting a text before the token leaves its ids as they are: the token takes
// nothing of what stands before it.
static bool may_cut_before(const zr_tokenizer *tokenizer, const char *mark, int32_t id)
{
    zr_encoder *encoder;
    zr_ids apart = {0}, whole = {0};
    char text[LONGEST_MARK + 8];
    size_t length = strlen(mark), before = 4;
    if (length > LONGEST_MARK || zr_encoder_create(tokenizer, &encoder, NULL) != ZERO_OK)
        return false;
    memcpy(text, "a \n ", before);
    memcpy(text + before, mark, length);
    bool same = zr_encoder_append(encoder, ZR_ENCODE_SPECIAL, text, 0, before, mark, &apart,
                                  NULL) == ZERO_OK &&
                zr_encoder_append(encoder, ZR_ENCODE_SPECIAL, text, 0, before + length, mark,
                                  &whole, NULL) == ZERO_OK;
    zr_ids_append(&apart, id);
    same = same && !apart.failed && !whole.failed && apart.count == whole.count &&
           !memcmp(apart.at, whole.at, (size_t)whole.count * sizeof *whole.at);
    zr_ids_free(&apart);
    zr_ids_free(&whole);
    zr_encoder_destroy(encoder);
    return same;
}

static zero_status keep_mark(zr_chat *chat, char *mark, zero_error *error)
{
    char **marks =
        zr_list_grow(chat->marks, chat->mark_count, &chat->mark_capacity, sizeof *marks, error);
    char *copy = marks ? zr_strdup(mark, error) : NULL;
    chat->marks = marks ? marks : chat->marks;
    if (!copy)
        return ZERO_ERR_MEMORY;
    chat->marks[chat->mark_count++] = copy;
    return ZERO_OK;
}

static bool is_kept(const zr_chat *chat, const char *mark)
{
    for (int i = 0; i < chat->mark_count; i++)
        if (!strcmp(chat->marks[i], mark))
            return true;
    return false;
}

static void list_lacking(const char *mark, zr_buffer *lacking)
{
    const char *there = lacking->length ? strstr(lacking->data, mark) : NULL;
    if (!there)
        zr_buffer_printf(lacking, "%s%s", lacking->length ? ", " : "", mark);
}

// Sorts the marks of a text into those that are tokens and those that should be.
static zero_status collect_marks(zr_chat *chat, const zr_tokenizer *tokenizer,
                                 const zr_buffer *text, zr_buffer *lacking, zero_error *error)
{
    for (size_t at = 0, length; at < text->length; at += length ? length : 1) {
        char mark[LONGEST_MARK + 4];
        bool must;
        int32_t id;
        length = match_mark(chat, text->data + at, text->length - at, &must);
        if (!length || length >= sizeof mark)
            continue;
        memcpy(mark, text->data + at, length);
        mark[length] = 0;
        if (!zr_tokenizer_find(tokenizer, mark, &id)) {
            if (must)
                list_lacking(mark, lacking);
        } else if (!is_kept(chat, mark) && may_cut_before(tokenizer, mark, id)) {
            ZERO_TRY(keep_mark(chat, mark, error));
        }
    }
    return ZERO_OK;
}

static zero_status refuse_marks(zr_chat *chat, const char *named, const char *lacking,
                                zero_error *error)
{
    char *text = zr_sprintf(
        error,
        "%s%s needs the token%s %s, which the tokenizer lacks: a mark would be spelt in pieces; %s",
        named ? "the chat format " : "", chat->name, strchr(lacking, ',') ? "s" : "", lacking,
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
    zr_template_free(chat->template);
    chat->template = NULL;
    chat->refusal = text;
    return ZERO_OK;
}

static zero_status collect_all(zr_chat *chat, const zr_tokenizer *tokenizer, zr_buffer *lacking,
                               zero_error *error)
{
    zr_rendered probe = {0};
    zero_status status = ZERO_OK;
    for (int prompt = 0; status == ZERO_OK && prompt < 2; prompt++)
        if (render_probe(chat, prompt, &probe))
            status = collect_marks(chat, tokenizer, &probe.text, lacking, error);
    zr_rendered_free(&probe);
    if (status == ZERO_OK && lacking->failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the marks of a chat");
    return status;
}

zero_status zr_chat_check_marks(zr_chat *chat, const char *named, const zr_tokenizer *tokenizer,
                                zero_error *error)
{
    zr_buffer lacking = {0};
    named = named && strcmp(named, "auto") ? named : NULL;
    if (!chat->template || !tokenizer || zr_tokenizer_kind_of(tokenizer) != ZR_TOKENIZER_BPE)
        return ZERO_OK;
    zero_status status = collect_all(chat, tokenizer, &lacking, error);
    if (status == ZERO_OK && lacking.length)
        status = refuse_marks(chat, named, lacking.data, error);
    else if (status == ZERO_OK)
        status = zr_chat_find_turn_end(chat, tokenizer, error);
    zr_buffer_free(&lacking);
    return status;
}

// Finds the first mark after the answer, which is a token if there is a tokenizer to ask.
static size_t find_mark_after_answer(const zr_chat *chat, const zr_tokenizer *tokenizer,
                                     const zr_buffer *text, size_t *length)
{
    const char *said = strstr(text->data, answer);
    size_t at = said ? (size_t)(said - text->data) + strlen(answer) : text->length;
    for (; at < text->length; at++) {
        char mark[LONGEST_MARK + 4];
        bool must;
        int32_t id;
        *length = match_mark(chat, text->data + at, text->length - at, &must);
        if (!*length || *length >= sizeof mark)
            continue;
        memcpy(mark, text->data + at, *length);
        mark[*length] = 0;
        if (!tokenizer || zr_tokenizer_find(tokenizer, mark, &id))
            return at;
    }
    *length = 0;
    return at;
}

zero_status zr_chat_find_turn_end(zr_chat *chat, const zr_tokenizer *tokenizer, zero_error *error)
{
    zr_rendered probe = {0};
    size_t length = 0, at = 0;
    const char *end = json_string_value(json_object_get(chat->tokens, "eos_token"));
    if (chat->template && render_probe(chat, false, &probe))
        at = find_mark_after_answer(chat, tokenizer, &probe.text, &length);
    zr_free(chat->turn_end);
    chat->turn_end = length ? zr_sprintf(error, "%.*s", (int)length, probe.text.data + at)
                            : zr_strdup(end ? end : "", error);
    zr_rendered_free(&probe);
    return chat->turn_end ? ZERO_OK : ZERO_ERR_MEMORY;
}

const char *zr_chat_turn_end(const zr_chat *chat) { return chat->turn_end ? chat->turn_end : ""; }

static size_t match_kept(const zr_chat *chat, const char *text, size_t length)
{
    for (int i = 0; i < chat->mark_count; i++) {
        size_t width = strlen(chat->marks[i]);
        if (width <= length && *text == chat->marks[i][0] && !memcmp(text, chat->marks[i], width))
            return width;
    }
    return 0;
}

void zr_chat_add_text(const zr_chat *chat, const char *text, size_t length, bool trained,
                      zr_document *out)
{
    size_t from = 0;
    for (size_t at = 0; chat->mark_count && at < length;) {
        size_t width = match_kept(chat, text + at, length - at);
        if (width) {
            zr_document_add(out, text + from, at - from, trained);
            zr_document_add_seam(out);
            from = at;
        }
        at += width ? width : 1;
    }
    zr_document_add(out, text + from, length - from, trained);
}
