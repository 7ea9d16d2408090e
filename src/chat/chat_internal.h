// What the files of chat templates share: how a format is written, and how its template is
// recognised.
#ifndef ZR_CHAT_CHAT_INTERNAL_H
#define ZR_CHAT_CHAT_INTERNAL_H

#include "chat/chat.h"

typedef struct zr_chat_turn { // one message
    const char *role, *content;
    size_t role_length, length;
    bool trained;
    // of the first message: what stands before it, in formats that put it there; else NULL
    const char *system;
    size_t system_length;
} zr_chat_turn;

struct zr_chat_format {
    const char *name;
    bool begins;        // the begin token stands at the start of the document
    bool alternates;    // only user and assistant, in turns, after a system message where `folds`
    bool folds;         // the system message is part of the first of the user
    bool strips;        // white space around contents goes
    const char *answer; // what stands before an answer that is still to come; NULL: nothing
    const char *end;    // token after an answer; NULL: the end token
    // what stands at the beginning of a system message that is always there; NULL: there is none
    const char *dates;
    void (*turn)(const zr_chat *chat, const zr_chat_turn *turn, zr_document *out);
};

typedef struct zr_chat_hash { // of a whole template, normalised, without its default system message
    uint64_t first, second;   // xxh64 of it with the seeds 0 and 1
    uint64_t length;
} zr_chat_hash;
// What the table of long templates has of a text. For chat_recognise.c, and for those who add a
// row.
zero_status zr_chat_hash_template(const char *text, zr_chat_hash *out, zero_error *error);

const zr_chat_format *zr_chat_format_find(const char *name); // NULL: none is called so

#endif
