// Shared by the chat_*.c files.
#ifndef ZR_CHAT_CHAT_INTERNAL_H
#define ZR_CHAT_CHAT_INTERNAL_H

#include "chat/chat.h"

typedef struct zr_chat_format { // a template with a name
    const char *name, *text;
    const char *begin, *end; // bos_token and eos_token where no tokenizer says them
} zr_chat_format;
const zr_chat_format *zr_chat_format_find(const char *name); // NULL if no format has that name

// From chat_date.c. Reads "YYYY-MM-DD"; NULL is today. ZERO_ERR_USAGE for what is no date.
zero_status zr_chat_date_read(const char *text, zr_template_date *out, zero_error *error);

// From chat_marks.c. Finds what follows an answer, in a rendering of two short messages.
zero_status zr_chat_find_turn_end(zr_chat *chat, const zr_tokenizer *tokenizer, zero_error *error);
// Appends text to a document, with seams before marks.
void zr_chat_add_text(const zr_chat *chat, const char *text, size_t length, bool trained,
                      zr_document *out);

// From chat_message_check.c. *counts: whether the loss counts the message. A message of the
// assistant counts, unless its "weight" is 0 or its "train" is false.
zero_status zr_chat_message_counts(const char *name, size_t index, const json_t *message,
                                   bool *counts, zero_error *error);
// Refuses keys of the record and of its messages that the template does not read.
zero_status zr_chat_check_keys(const zr_chat *chat, const zr_conversation *of, zero_error *error);

// A conversation that is rendered, whole and in parts (chat_text.c).
typedef struct zr_chat_text {
    const zr_chat *chat;
    const zr_conversation *of;
    json_t *messages;  // as the template sees them
    json_t *variables; // all others
    size_t count;      // of messages
} zr_chat_text;
zero_status zr_chat_text_open(const zr_chat *chat, const zr_conversation *of, zr_chat_text *out,
                              zero_error *error);
void zr_chat_text_close(zr_chat_text *text);
// Renders the first `count` messages; `prompt`: with that of an answer. Errors begin with the
// conversation's name.
zero_status zr_chat_text_render(const zr_chat_text *text, size_t count, bool prompt,
                                zr_rendered *out, zero_error *error);

// From chat_targets.c: which parts of the whole text are trained on, in order.
typedef struct zr_chat_targets {
    zr_template_span *at; // (count)
    size_t count;
    bool rewritten; // an answer was left out, because the whole text has it in another form
} zr_chat_targets;
zero_status zr_chat_targets_find(const zr_chat_text *text, const zr_rendered *whole,
                                 zr_chat_targets *out, zero_error *error);

#endif
