// Finds the records of a text, and parses none of them.
//
//   {"text": "..."}\n{"text": "..."}\n      lines of JSON
//   {\n  "text": "..."\n}\n{ ...            objects one after another, each on any number of lines
//   [{"text": "..."}, {"text": "..."}]      one array, if the first byte that is not blank is '['
//
// An object ends where its brackets close. What else stands on its last line belongs to it, unless
// that is another object; a line that does not begin with an object is a record as a whole. So a
// record is an object, or is refused when it is parsed. An object whose brackets cannot close ends
// with the line on which that is seen, or before the next object, so that lines after a broken one
// are records again. A byte order mark before the first record is skipped.
#ifndef ZR_DATA_RECORD_SPLIT_H
#define ZR_DATA_RECORD_SPLIT_H

#include "base/errors.h"

typedef struct zr_record_split {
    const char *text;
    size_t length, at;
    int64_t line; // number of line breaks before `at`
    bool began, array;
    bool closed; // the array's end has been read
    bool before; // an item of the array has been read
} zr_record_split;

typedef struct zr_record_span {
    size_t start, end; // text[start..end)
    int64_t line;      // of text[start], 1-based
    const char *fault; // why no record can be found here; NULL
} zr_record_span;

// Finds the next record; returns false if there is none. Nothing comes after a fault.
bool zr_record_split_next(zr_record_split *split, zr_record_span *out);

#endif
