// Writes messages in a chat format, as the format's template does. chat_recognise.c finds the
// format of a template.
#include "data/chat_internal.h"
#include "tokenizer/vocabulary.h"

#include <string.h>

static void append_chat_text(zr_document *out, const char *text, bool trained)
{
    zr_document_add(out, text, strlen(text), trained);
}

// Python's str.isspace, because str.strip removes these characters.
static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static void strip_trailing_spaces(const char *text, size_t *length)
{
    int32_t c;
    while (*length) {
        size_t at = *length - 1;
        while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        if (!zr_utf8_next(text + at, *length - at, &c) || !is_space(c))
            return;
        *length = at;
    }
}

static void strip_spaces(const char **text, size_t *length)
{
    int32_t c;
    for (int bytes; *length && (bytes = zr_utf8_next(*text, *length, &c)) && is_space(c);
         *length -= (size_t)bytes)
        *text += bytes;
    strip_trailing_spaces(*text, length);
}

static void chatml_turn(const zr_chat *chat, const zr_chat_turn *turn, zr_document *out)
{
    append_chat_text(out, "<|im_start|>", false);
    zr_document_add(out, turn->role, turn->role_length, false);
    append_chat_text(out, "\n", false);
    zr_document_add(out, turn->content, turn->length, turn->trained);
    zr_document_add_seam(out);
    append_chat_text(out, "<|im_end|>", turn->trained);
    append_chat_text(out, "\n", false);
    zr_document_add_seam(out);
}

static void llama3_turn(const zr_chat *chat, const zr_chat_turn *turn, zr_document *out)
{
    append_chat_text(out, "<|start_header_id|>", false);
    zr_document_add(out, turn->role, turn->role_length, false);
    append_chat_text(out, "<|end_header_id|>\n\n", false);
    if (turn->system)
        append_chat_text(out, chat->format->dates, false);
    zr_document_add(out, turn->content, turn->length, turn->trained);
    append_chat_text(out, "<|eot_id|>", turn->trained);
    zr_document_add_seam(out);
}

static bool is_user(const zr_chat_turn *turn)
{
    return turn->role_length == 4 && !memcmp(turn->role, "user", 4);
}

// Strips the system message and the user's message as one text, as Llama 2's template does.
static void llama2_turn(const zr_chat *chat, const zr_chat_turn *turn, zr_document *out)
{
    static const char open[] = "<<SYS>>\n", close[] = "\n<</SYS>>\n\n";
    const char *content = turn->content;
    size_t length = turn->length;
    if (!is_user(turn)) {
        strip_spaces(&content, &length);
        append_chat_text(out, " ", turn->trained);
        zr_document_add(out, content, length, turn->trained);
        append_chat_text(out, " ", turn->trained);
        append_chat_text(out, chat->end, turn->trained);
        zr_document_add_seam(out);
        return;
    }
    append_chat_text(out, chat->begin, false);
    append_chat_text(out, "[INST] ", false);
    if (turn->system) { // the content ends that text, but does not begin it
        strip_trailing_spaces(content, &length);
        append_chat_text(out, open, false);
        zr_document_add(out, turn->system, turn->system_length, false);
        zr_document_add(out, close, sizeof close - (length ? 1 : 3), false);
    } else {
        strip_spaces(&content, &length);
    }
    zr_document_add(out, content, length, false);
    append_chat_text(out, " [/INST]", false);
}

static void mistral_turn(const zr_chat *chat, const zr_chat_turn *turn, zr_document *out)
{
    if (is_user(turn)) {
        append_chat_text(out, "[INST] ", false);
        zr_document_add(out, turn->content, turn->length, false);
        append_chat_text(out, " [/INST]", false);
        return;
    }
    zr_document_add(out, turn->content, turn->length, turn->trained);
    zr_document_add_seam(out);
    append_chat_text(out, chat->end, turn->trained);
}

static void mistral_spaced_turn(const zr_chat *chat, const zr_chat_turn *turn, zr_document *out)
{
    mistral_turn(chat, turn, out);
    if (!is_user(turn))
        append_chat_text(out, " ", false);
}

static void mistral_2024_turn(const zr_chat *chat, const zr_chat_turn *turn, zr_document *out)
{
    if (is_user(turn)) {
        append_chat_text(out, " [INST] ", false);
        if (turn->system) {
            zr_document_add(out, turn->system, turn->system_length, false);
            append_chat_text(out, "\n\n", false);
        }
        zr_document_add(out, turn->content, turn->length, false);
        append_chat_text(out, " [/INST]", false);
        return;
    }
    append_chat_text(out, " ", turn->trained);
    zr_document_add(out, turn->content, turn->length, turn->trained);
    zr_document_add_seam(out);
    append_chat_text(out, chat->end, turn->trained);
}

#define LLAMA3_ANSWER "<|start_header_id|>assistant<|end_header_id|>\n\n"

static const char *const chatml_marks[] = {"<|im_start|>", "<|im_end|>", NULL};
static const char *const llama3_marks[] = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
                                           NULL};

static const zr_chat_format formats[] = {
    {.name = "chatml",
     .marks = chatml_marks,
     .answer = "<|im_start|>assistant\n",
     .end = "<|im_end|>",
     .turn = chatml_turn},
    {.name = "llama2", .alternates = true, .folds = true, .turn = llama2_turn},
    {.name = "llama3",
     .marks = llama3_marks,
     .begins = true,
     .strips = true,
     .answer = LLAMA3_ANSWER,
     .end = "<|eot_id|>",
     .turn = llama3_turn},
    {.name = "llama3.1",
     .marks = llama3_marks,
     .begins = true,
     .strips = true,
     .answer = LLAMA3_ANSWER,
     .end = "<|eot_id|>",
     .dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
     .turn = llama3_turn},
    {.name = "mistral", .begins = true, .alternates = true, .turn = mistral_turn},
    {.name = "mistral-spaced", .begins = true, .alternates = true, .turn = mistral_spaced_turn},
    {.name = "mistral-2024",
     .begins = true,
     .alternates = true,
     .folds = true,
     .turn = mistral_2024_turn},
};

const zr_chat_format *zr_chat_format_find(const char *name)
{
    for (int i = 0; i < ZR_COUNT(formats); i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    return NULL;
}

const char *zr_chat_format_at(int i) { return i < ZR_COUNT(formats) ? formats[i].name : NULL; }

const char *zr_chat_format_name(const zr_chat *chat)
{
    return chat->format ? chat->format->name : NULL;
}

typedef struct rendering {
    const zr_chat *chat;
    const json_t *messages;
    size_t trained_from, turns; // `turns` does not count a system message that is not a turn
    const char *name;
    zr_chat_turn system; // content is NULL if there is none
    zr_document *out;
} rendering;

static zero_status read_message(const rendering *r, size_t index, zr_chat_turn *turn,
                                zero_error *error)
{
    const json_t *message = json_array_get(r->messages, index);
    const zr_chat_place place = {r->name, index};
    bool counts;
    ZERO_TRY(zr_chat_check_message(&place, message, error));
    ZERO_TRY(zr_chat_message_counts(&place, message, &counts, error));
    const json_t *role = json_object_get(message, "role"),
                 *content = json_object_get(message, "content");
    *turn = (zr_chat_turn){.role = json_string_value(role),
                           .role_length = json_string_length(role),
                           .content = json_string_value(content),
                           .length = json_string_length(content)};
    turn->trained = counts && index >= r->trained_from;
    if (r->chat->format->strips)
        strip_spaces(&turn->content, &turn->length);
    return ZERO_OK;
}

static bool is_system(const zr_chat_turn *turn)
{
    return turn->role_length == 6 && !memcmp(turn->role, "system", 6);
}

static zero_status check_turn(const rendering *r, size_t index, const zr_chat_turn *turn,
                              zero_error *error)
{
    const char *expected = r->turns % 2 ? "assistant" : "user";
    if (!r->chat->format->alternates || !strcmp(turn->role, expected))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "%s: message %zu is of the role \"%s\": in the format %s user and assistant "
                   "take turns%s, and here \"%s\" is due",
                   r->name, index, turn->role, r->chat->format->name,
                   r->chat->format->folds ? ", after one system message or none" : "", expected);
}

// Handles the system message before all turns (the messages' own, or the format's): writes it, or
// keeps it for the first turn. *next: the first message that is a turn.
static zero_status handle_system_message(rendering *r, size_t *next, zero_error *error)
{
    const zr_chat_format *format = r->chat->format;
    zr_chat_turn first, system = {.role = "system",
                                  .role_length = 6,
                                  .content = r->chat->system ? r->chat->system : ""};
    ZERO_TRY(read_message(r, 0, &first, error));
    system.length = strlen(system.content);
    *next = is_system(&first) && (format->folds || format->dates);
    if (format->begins)
        append_chat_text(r->out, r->chat->begin, false);
    if (*next)
        system = first;
    if (format->folds && *next)
        r->system = system;
    else if (format->dates || (r->chat->system && !is_system(&first))) {
        system.system = format->dates;
        format->turn(r->chat, &system, r->out);
    }
    return ZERO_OK;
}

zero_status zr_chat_render(const zr_chat *chat, const zr_conversation *conversation,
                           zr_document *out, zero_error *error)
{
    const json_t *messages = conversation->messages;
    const char *name = conversation->name;
    rendering r = {.chat = chat,
                   .messages = messages,
                   .trained_from = conversation->trained_from,
                   .name = name,
                   .out = out};
    size_t next;
    ZERO_TRY(zr_chat_check_extras(conversation, error));
    if (!chat->format)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: %s", name,
                       chat->refusal ? chat->refusal
                                     : "messages need a chat template, and there is none");
    if (!json_is_array(messages) || !json_array_size(messages))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: \"messages\" must be a list of at least one message", name);
    ZERO_TRY(handle_system_message(&r, &next, error));
    for (; next < json_array_size(messages); next++, r.turns++) {
        zr_chat_turn turn;
        ZERO_TRY(read_message(&r, next, &turn, error));
        ZERO_TRY(check_turn(&r, next, &turn, error));
        if (!r.turns) {
            turn.system = r.system.content;
            turn.system_length = r.system.length;
        }
        chat->format->turn(chat, &turn, out);
    }
    if (!r.turns)
        return zr_fail(error, ZERO_ERR_DATA, "%s: a system message alone", name);
    out->special = true;
    return ZERO_OK;
}

zero_status zr_chat_ask(const zr_chat *chat, const char *text, const char *name, zr_document *out,
                        zero_error *error)
{
    json_t *content = json_string(text);
    if (!content)
        return zr_fail(error, ZERO_ERR_DATA, "%s: no UTF-8, which a message must be", name);
    json_t *messages = json_pack("[{s:s, s:o}]", "role", "user", "content", content);
    zero_status status =
        messages ? zr_chat_render(chat, &(zr_conversation){.messages = messages, .name = name}, out,
                                  error)
                 : zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for a message", name);
    json_decref(messages);
    if (status == ZERO_OK && chat->format->answer)
        append_chat_text(out, chat->format->answer, false);
    return status;
}

const char *zr_chat_turn_end(const zr_chat *chat)
{
    return chat->format && chat->format->end ? chat->format->end : chat->end ? chat->end : "";
}
