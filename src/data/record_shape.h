// The shapes of records: which keys a record has, and what they are. Keys may have other names in a
// file: a map says which field is which key.
//
//   --field body                        the field body is "text"
//   --map user=question,assistant=answer.text
//                                       the field question is "user"; "assistant" is the field text
//                                       of the object answer
#ifndef ZR_DATA_RECORD_SHAPE_H
#define ZR_DATA_RECORD_SHAPE_H

#include "base/json.h"

typedef enum zr_record_kind {
    ZR_RECORD_MESSAGES,    // a list of messages
    ZR_RECORD_PAIR,        // a prompt and its completion, as texts or as lists of messages
    ZR_RECORD_TURN,        // what the user says, and what the assistant answers
    ZR_RECORD_INSTRUCTION, // the same, with Alpaca's words where there is no chat template
    ZR_RECORD_TEXT,
} zr_record_kind;

typedef struct zr_record_shape {
    zr_record_kind kind;
    const char *asks;    // key of the messages, of the prompt, of the user's text, or of the text
    const char *answers; // key of the completion or the answer; NULL if there is none
    const char *input;   // key of what the user's text is about, which may be missing; NULL
} zr_record_shape;

// The keys of preferences (record_preference.c), which a map may name next to those that ask.
#define ZR_RECORD_CHOSEN "chosen"
#define ZR_RECORD_REJECTED "rejected"
#define ZR_RECORD_LABEL "label"

enum { ZR_RECORD_MAPPED = 8 }; // the most keys of a map

typedef struct zr_record_map {
    char *text; // what was written, cut into keys and fields
    struct zr_record_key {
        const char *key, *field;
    } keys[ZR_RECORD_MAPPED];
    int count;
    bool named;      // a field was named alone: it is "text"
    bool preferring; // it names keys of preferences
    const zr_record_shape *shape;
} zr_record_map;

// Parses the name of a field, or KEY=FIELD,KEY=FIELD,... ZERO_ERR_USAGE if the keys make no shape.
zero_status zr_record_map_parse(const char *written, zr_record_map *out, zero_error *error);
// Returns whether the map names a text, and at most its label.
bool zr_record_map_labels(const zr_record_map *map);
void zr_record_map_free(zr_record_map *map); // A zeroed map is allowed.

// Finds the shape of a record: that of the map, or the first in the order of the table whose keys
// the record has; NULL if there is none. A key whose value is null counts as missing, except for
// "text". `map` may be NULL, here and below.
const zr_record_shape *zr_record_shape_of(const zr_record_map *map, const json_t *record);
// Returns the name of the field that is this key; NULL if the map names none.
const char *zr_record_field(const zr_record_map *map, const char *key);
// Returns the value of a key; NULL if it is missing or null. With a map, keys that it does not name
// are not read, except for those that a conversation has next to its messages (tools, ...).
const json_t *zr_record_get(const zr_record_map *map, const json_t *record, const char *key);
// Returns the key of the answer in the first shape of a turn whose question the record has;
// NULL if there is none.
const char *zr_record_answer_key(const json_t *record);
// Appends the shapes as a text for messages: "messages", "prompt" and "completion", ...
void zr_record_shapes_write(zr_buffer *out);

#endif
