// JSONL: one object a line, each a document.
//
//   {"text": "..."}                          all of it is trained on; the field has another name
//                                            where one is given
//   {"prompt": "...", "completion": "..."}   the completion is, and what ends it
//   {"messages": [{"role": "user", "content": "..."}, ...]}
//                                            what the assistant says is;
//                                            {"prompt": [...], "completion": [...]} likewise
//
// A field that is null is absent. Lines of white space alone, a byte order mark before the first,
// and records without text are passed over.
// Messages begin with FILE:LINE.
#ifndef ZR_CORPUS_RECORDS_H
#define ZR_CORPUS_RECORDS_H

#include "chat/chat.h"

#define ZR_RECORD_BYTES ((size_t)64 << 20) // of a line, at most

typedef struct zr_records {
    const char *path, *text; // of the file
    size_t length, at;
    int64_t line; // of the record read last, 1-based
    // lines that were read and are no white space; those of them that held no text
    int64_t seen, empty;
    // only this one is read; NULL: what the record has, "text" where nothing else
    const char *field;
    const zr_chat *chat; // of messages
} zr_records;

typedef struct zr_text_record {
    zr_document document;
    char name[4096 + 32]; // "FILE:LINE"
    bool ends;            // whether an end token belongs after it: a conversation brings its own
} zr_text_record;

// The next record with text into *out, whose document is cleared first; *more is false where there
// was none. ZERO_ERR_DATA: no object, a field that is missing or no text, a line longer than
// ZR_RECORD_BYTES; and as zr_chat_render.
zero_status zr_records_next(zr_records *records, zr_text_record *out, bool *more,
                            zero_error *error);

// How many lines that are no white space there are in about the next so many bytes, whatever is in
// them; the reader stands after them.
int64_t zr_records_pass(zr_records *records, size_t bytes);

#endif
