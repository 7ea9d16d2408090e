// Turns one record into a document.
#ifndef ZR_DATA_RECORD_DOCUMENT_H
#define ZR_DATA_RECORD_DOCUMENT_H

#include "chat/chat.h"
#include "data/record_shape.h"

typedef struct zr_record_reading {
    const zr_record_map *map; // NULL: keys have their own names
    const zr_chat *chat;
    const char *name; // "FILE:LINE", which begins the messages of errors
} zr_record_reading;

typedef struct zr_record_made {
    bool ends;  // an end token belongs after it; a conversation has its own end
    bool plain; // a turn, written as text, because there is no chat template
} zr_record_made;

// Appends the record's text to `out`, which stays empty if the record has no text. ZERO_ERR_DATA
// for a record of no known shape, and for a field that is not what its shape needs; also fails as
// zr_chat_render does.
zero_status zr_record_document(const zr_record_reading *reading, const json_t *record,
                               zr_document *out, zr_record_made *made, zero_error *error);

// Returns what a value is, for messages: "a list", "missing".
const char *zr_record_type_name(const json_t *value);

#endif
