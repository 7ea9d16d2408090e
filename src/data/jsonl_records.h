// Records of a file, each of them a document: lines of JSON, objects one after another, one array
// of objects (record_split.h), or rows of Parquet (parquet.h).
//
//   {"text": "..."}                          all of it is trained on
//   {"prompt": "...", "completion": "..."}   the completion and what ends it are trained on
//   {"messages": [{"role": "user", "content": "..."}, ...]}
//                                            the assistant's messages are trained on; the same for
//                                            {"prompt": [...], "completion": [...]}
//
// record_shape.c has the table of all shapes, and record_document.c what becomes of each. A field
// that is null counts as absent. Records without text are skipped. Error messages begin with
// FILE:LINE, the line on which the record begins.
#ifndef ZR_DATA_JSONL_RECORDS_H
#define ZR_DATA_JSONL_RECORDS_H

#include "chat/chat.h"
#include "data/parquet.h"
#include "data/record_document.h"
#include "data/record_split.h"

#define ZR_RECORD_BYTES ((size_t)64 << 20) // the most bytes of a record

typedef struct zr_records {
    const char *path;
    zr_record_split split; // of the file's content
    int64_t line;          // on which the record read last begins, 1-based
    zr_parquet *rows;      // of a Parquet file; NULL
    // Records read; number of these without text, and of turns that were written without a chat
    // template because there is none.
    int64_t seen, empty, plain;
    const zr_record_map *map; // names of fields; NULL for those that keys have
    const zr_chat *chat;      // format of messages
    zr_preferences preferences;
    bool classifies; // they are texts and labels
} zr_records;

typedef struct zr_text_record {
    zr_document document;
    char name[4096 + 32]; // "FILE:LINE", or "FILE: row 5"
    bool ends;            // an end token belongs after it; a conversation has its own end
    // Of preferences: the rejected answer of a pair, with its prompt; an answer that is not wanted.
    zr_document rejected;
    bool pair, unwanted;
    zr_record_label label; // of a classification
} zr_text_record;

// Returns the records of a text, from the first on.
zr_records zr_records_of(const char *path, const char *text, size_t length);
// The same for a file's content, which may be Parquet: its rows are records. Fails as
// zr_parquet_open does.
zero_status zr_records_open(const char *path, const char *content, size_t length, zr_records *out,
                            zero_error *error);
void zr_records_close(zr_records *records); // needed after zr_records_open alone

// Reads the next record with text into *out, whose document is cleared first; *more is false if
// there is no record left. Returns ZERO_ERR_DATA for what is no object, a field that is missing or
// not text, and a record longer than ZR_RECORD_BYTES; also fails as zr_chat_render does.
zero_status zr_records_next(zr_records *records, zr_text_record *out, bool *more,
                            zero_error *error);

void zr_text_record_free(zr_text_record *record); // what it holds; a zeroed one is allowed

// Skips about `bytes` bytes without parsing them, all of them if it is Parquet, and returns how
// many records are in them.
int64_t zr_records_skip(zr_records *records, size_t bytes);

#endif
