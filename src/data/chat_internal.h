// What the files of chat templates share: how a format is written, and how its template is
// recognised.
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
    const char *const *marks; // tokens that it writes, besides the begin and the end token
    bool begins;              // the begin token is at the start of the document
    // Only user and assistant, in turns; if `folds`, a system message may come first.
    bool alternates;
    bool folds;         // the system message is part of the first user message
    bool strips;        // removes white space around contents
    const char *answer; // what comes before an answer that is still to be generated; NULL: nothing
    const char *end;    // token after an answer; NULL: the end token
    // Beginning of a system message that is always there; NULL: there is no such message.
    const char *dates;
    void (*turn)(const zr_chat *chat, const zr_chat_turn *turn, zr_document *out);
};

typedef struct zr_chat_place { // a message, for errors
    const char *name;          // "FILE:LINE"
    size_t index;
} zr_chat_place;

// chat_message_check.c. Refuses a message without a role or content, and one that says more than a
// format would write.
zero_status zr_chat_check_message(const zr_chat_place *at, const json_t *message,
                                  zero_error *error);
// *counts: the loss counts the message. One of the assistant does, unless its weight is 0, or its
// "train" false.
zero_status zr_chat_message_counts(const zr_chat_place *at, const json_t *message, bool *counts,
                                   zero_error *error);

// The hash of a whole template, normalised, without its default system message.
typedef struct zr_chat_hash {
    uint64_t first, second; // xxh64 of its text with the seeds 0 and 1
    uint64_t length;
} zr_chat_hash;
// Computes the hash that the table of long templates has of a text. For chat_recognise.c, and for
// adding a row.
zero_status zr_chat_hash_template(const char *text, zr_chat_hash *out, zero_error *error);

const zr_chat_format *zr_chat_format_find(const char *name); // NULL: no format has that name

#endif
