// Writes JSON to a buffer as it goes, without a tree: begin, key and value, end.
//
//   zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
//   zr_json_begin_object(&w, NULL);
//   zr_json_integer(&w, "step", 12);
//   zr_json_begin_array(&w, "losses");
//   zr_json_real(&w, NULL, 2.5);
//   zr_json_end(&w);
//   zr_json_end(&w);                    {"step":12,"losses":[2.5]}
//
// `key` is NULL inside of an array and for the outermost value. The error is the buffer's and
// sticky: check out->failed once at the end. Nesting deeper than ZR_JSON_MAX_DEPTH, a key in an
// array or its lack in an object, and an end without a begin are the program's mistakes: they set
// out->failed, too.
#ifndef ZR_BASE_JSON_WRITER_H
#define ZR_BASE_JSON_WRITER_H

#include "base/alloc.h"
#include "base/json.h"

typedef enum zr_json_style {
    ZR_JSON_COMPACT, // {"a":1,"b":2}
    ZR_JSON_SPACED,  // {"a": 1, "b": 2}
    // Spaced; items of the outermost value, and its end, stand on lines of their own: the items
    // after two spaces.
    ZR_JSON_INDENTED,
} zr_json_style;

typedef struct zr_json_writer {
    zr_buffer *out;
    zr_json_style style;
    int depth;                        // of containers that have begun and not ended
    int line;                         // spaces of the new line that comes next; -1: none
    bool array[ZR_JSON_MAX_DEPTH];    // (depth) an array, not an object
    bool has_item[ZR_JSON_MAX_DEPTH]; // (depth) a comma stands before the next item
} zr_json_writer;

zr_json_writer zr_json_writer_on(zr_buffer *out, zr_json_style style);

void zr_json_begin_object(zr_json_writer *w, const char *key);
void zr_json_begin_array(zr_json_writer *w, const char *key);
void zr_json_end(zr_json_writer *w);
// Ends all that has begun, and the line.
void zr_json_finish(zr_json_writer *w);

// What comes next, an item or an end, stands on a new line after `spaces` spaces.
void zr_json_line(zr_json_writer *w, int spaces);

void zr_json_integer(zr_json_writer *w, const char *key, int64_t value);
void zr_json_integers(zr_json_writer *w, const char *key, const int64_t *values, int count);
// Numbers that are not finite are written as null. zr_json_real: the shortest digits that give the
// same bits when read, always with a point or an exponent; _fixed: as "%.*f"; _digits: as "%.*g".
void zr_json_real(zr_json_writer *w, const char *key, double value);
void zr_json_fixed(zr_json_writer *w, const char *key, int decimals, double value);
void zr_json_digits(zr_json_writer *w, const char *key, int digits, double value);
void zr_json_flag(zr_json_writer *w, const char *key, bool value);
void zr_json_text(zr_json_writer *w, const char *key, const char *value); // NULL: null
void zr_json_text_of(zr_json_writer *w, const char *key, const char *value, size_t length);
void zr_json_null(zr_json_writer *w, const char *key);
// Writes text that is JSON already.
void zr_json_verbatim(zr_json_writer *w, const char *key, const char *json);

#endif
