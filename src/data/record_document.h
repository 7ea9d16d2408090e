// Turns one record into a document.
#ifndef ZR_DATA_RECORD_DOCUMENT_H
#define ZR_DATA_RECORD_DOCUMENT_H

#include "base/labels.h"
#include "chat/chat.h"
#include "data/record_shape.h"

typedef enum zr_preferences { // what records are read for
    ZR_PREFERENCES_NONE,      // their text
    ZR_PREFERENCES_PAIRS,     // a chosen and a rejected answer
    ZR_PREFERENCES_LABELS,    // an answer that is wanted or not; a pair is one of each
} zr_preferences;

typedef struct zr_record_reading {
    const zr_record_map *map; // NULL: keys have their own names
    const zr_chat *chat;
    const char *name;           // "FILE:LINE", which begins the messages of errors
    zr_preferences preferences; // of zr_record_preference
} zr_record_reading;

typedef struct zr_record_made {
    bool ends;           // an end token belongs after it; a conversation has its own end
    bool plain;          // a turn, written as text, because there is no chat template
    bool pair, unwanted; // of preferences: two answers; one that is not wanted
} zr_record_made;

// Appends the record's text to `out`, which stays empty if the record has no text. ZERO_ERR_DATA
// for a record of no known shape, and for a field that is not what its shape needs; also fails as
// zr_chat_render does.
zero_status zr_record_document(const zr_record_reading *reading, const json_t *record,
                               zr_document *out, zr_record_made *made, zero_error *error);

// From record_preference.c. Appends the record's answer, or the chosen one of its two, to `out`
// with the prompt, and the rejected one of a pair with the prompt to `rejected`. Both stay empty
// if there is no text, or nothing to compare. What comes after the prompt is trained as a whole.
// Fails as zr_record_document does, and with ZERO_ERR_DATA for a record without answers to
// compare.
zero_status zr_record_preference(const zr_record_reading *reading, const json_t *record,
                                 zr_document *out, zr_document *rejected, zr_record_made *made,
                                 zero_error *error);

typedef struct zr_record_label {
    char text[ZR_LABEL_BYTES];
    bool whole_number; // of JSON
} zr_record_label;

// From record_label.c. Appends the text of a record {"text": ..., "label": ...} to `out`, all of it
// no target, and reads its label. Fails with ZERO_ERR_DATA for other records.
zero_status zr_record_classified(const zr_record_reading *reading, const json_t *record,
                                 zr_document *out, zr_record_label *label, zero_error *error);

// Appends the names of a record's fields that are not null: "a", "b" and "c".
void zr_record_list_fields(const json_t *record, zr_buffer *out);
// Returns what a value is, for messages: "a list", "missing".
const char *zr_record_type_name(const json_t *value);

#endif
