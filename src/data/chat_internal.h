// Shared by the chat_*.c files: how a format is written, and how its template is recognised.
#ifndef ZR_DATA_CHAT_INTERNAL_H
#define ZR_DATA_CHAT_INTERNAL_H

#include "data/chat.h"

typedef struct zr_chat_turn { // one message
    const char *role, *content;
    size_t role_length, length;
    bool trained;
    // First message: the text that the format puts before it; else NULL.
    const char *system;
    size_t system_length;
} zr_chat_turn;

struct zr_chat_format {
    const char *name;
    const char *const *marks; // tokens that it writes, apart from the begin and the end token
    bool begins;              // the begin token is at the start of the document
    // Only user and assistant, in turns; if `folds`, a system message may come first.
    bool alternates;
    bool folds;         // the system message is part of the first user message
    bool strips;        // removes white space around contents
    const char *answer; // the text before an answer that will be generated; NULL if there is none
    const char *end;    // token after an answer; NULL for the end token
    // Beginning of a system message that the format always writes; NULL if it writes none.
    const char *dates;
    void (*turn)(const zr_chat *chat, const zr_chat_turn *turn, zr_document *out);
};

typedef struct zr_chat_place { // a message, for errors
    const char *name;          // "FILE:LINE"
    size_t index;
} zr_chat_place;

// From chat_message_check.c. Refuses tools, documents and template options, because no known format
// writes these.
zero_status zr_chat_check_extras(const zr_conversation *of, zero_error *error);
// Refuses a message without a role or content, and one with keys that a
// format would not write.
zero_status zr_chat_check_message(const zr_chat_place *at, const json_t *message,
                                  zero_error *error);
// *counts: whether the loss counts the message. A message of the assistant counts, unless its
// "weight" is 0 or its "train" is false.
zero_status zr_chat_message_counts(const zr_chat_place *at, const json_t *message, bool *counts,
                                   zero_error *error);

// The hash of a whole template, normalised, without its default system message.
typedef struct zr_chat_hash {
    uint64_t first, second; // xxh64 of its text with the seeds 0 and 1
    uint64_t length;
} zr_chat_hash;
// Computes a text's hash as in the table of long templates. For chat_recognise.c, and for adding a
// row to it.
zero_status zr_chat_hash_template(const char *text, zr_chat_hash *out, zero_error *error);

const zr_chat_format *zr_chat_format_find(const char *name); // NULL if no format has that name

#endif
