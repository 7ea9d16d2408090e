// JSONL: one object on each line, each of them a document.
//
//   {"text": "..."}                          all of it is trained on; the field has another name
//                                            if one is given
//   {"prompt": "...", "completion": "..."}   the completion and what ends it are trained on
//   {"messages": [{"role": "user", "content": "..."}, ...]}
//                                            what the assistant says is trained on;
//                                            {"prompt": [...], "completion": [...]} likewise
//
// A field that is null counts as absent. Lines of white space, a byte order mark before the first
// line, and records without text are skipped. Error messages begin with FILE:LINE.
#ifndef ZR_DATA_JSONL_RECORDS_H
#define ZR_DATA_JSONL_RECORDS_H

#include "data/chat.h"

#define ZR_RECORD_BYTES ((size_t)64 << 20) // the most bytes of a line

typedef struct zr_records {
    const char *path, *text; // path and content of the file
    size_t length, at;
    int64_t line; // number of the record read last, 1-based
    // Lines read that are not white space; how many of these had no text.
    int64_t seen, empty;
    // The only field that is read; NULL: what the record has, "text" if nothing else.
    const char *field;
    const zr_chat *chat; // format of messages
} zr_records;

typedef struct zr_text_record {
    zr_document document;
    char name[4096 + 32]; // "FILE:LINE"
    bool ends;            // an end token belongs after it; a conversation has its own
} zr_text_record;

// Reads the next record with text into *out, whose document is cleared first; *more is false if
// there was none. Returns ZERO_ERR_DATA for a line that is no object, a field that is missing or no
// text, and a line longer than ZR_RECORD_BYTES; also fails as zr_chat_render does.
zero_status zr_records_next(zr_records *records, zr_text_record *out, bool *more,
                            zero_error *error);

// Passes about `bytes` bytes, without parsing them, and returns how many lines in them are not
// white space. The reader is then after them.
int64_t zr_records_skip(zr_records *records, size_t bytes);

#endif
