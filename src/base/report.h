// The answer of a command: built once, then written as text for people, as Markdown or as JSON.
//
// An answer is a list of items in the order in which they are read:
//   fields   a value with a heading (zr_heading): its key for JSON, its label for people
//   phrases  the same as a part of a sentence
//   tables   columns, each with a heading, and rows of values
//   objects  what lies between zr_report_begin and zr_report_end stands in an object of that key
//   words    sentences, which JSON leaves out
// A field without a key is for people only, one without a label for JSON only. A key with a point
// nests: "bytes.states" and "bytes.gradients" in a row are one object "bytes".
//
//   zr_report *r = zr_report_create(error);
//   zr_report_field(r, &(zr_heading){"ranks", "ranks"}, zr_integer(4));
//   zr_report_table(r, "stages", columns, ZR_COUNT(columns));
//   for (...) { zr_report_row(r); zr_report_cell(r, zr_integer(stage)); ... }
//   zr_report_end_table(r);
//   status = zr_report_write(r, ZR_REPORT_TEXT, 0, out, error);
//   zr_report_destroy(r);
//
// Failure (no memory, cells without a row, more cells than columns) is sticky: zr_report_write
// returns it. All functions but create and write accept NULL. Strings are copied; columns are not.
#ifndef ZR_BASE_REPORT_H
#define ZR_BASE_REPORT_H

#include "base/alloc.h"
#include "base/json_writer.h"

typedef enum zr_report_kind { ZR_REPORT_TEXT, ZR_REPORT_MARKDOWN, ZR_REPORT_JSON } zr_report_kind;

// How a number is written for people; JSON has the plain number. Decimals are zr_heading.decimals.
typedef enum zr_unit {
    ZR_UNIT_NONE,     // 12 or 0.25
    ZR_UNIT_BYTES,    // 1.50 GB
    ZR_UNIT_SECONDS,  // 12.3 ms
    ZR_UNIT_SHARE,    // 0.25 as 25%
    ZR_UNIT_MILLIONS, // 1500000 as 1.5 M
    ZR_UNIT_GROUPED,  // 2000 as 2,000
    ZR_UNIT_DIGITS,   // 0.000123: as many significant digits as there are decimals
} zr_unit;

#define ZR_SHORTEST 0

typedef struct zr_heading {
    const char *key;   // of JSON; NULL: for people only
    const char *label; // of text and Markdown; NULL: for JSON only
    zr_unit unit;
    int decimals;      // of a real number for people
    int json_decimals; // of a real number in JSON; ZR_SHORTEST: as many as its bits need
    int width;         // of a column of text, at least
    bool left;         // a column of text begins at the left; else it ends at the right
    double scale;      // what people read is the number divided by this; 0: the number
} zr_heading;

typedef enum zr_value_kind {
    ZR_VALUE_NONE,   // "-" for people, null in JSON
    ZR_VALUE_ABSENT, // an empty cell for people, no member in JSON
    ZR_VALUE_INTEGER,
    ZR_VALUE_REAL,
    ZR_VALUE_FLAG,     // yes or no
    ZR_VALUE_TEXT,     // a name or words; control characters are escaped for people
    ZR_VALUE_VERBATIM, // `length` bytes of text as they stand, with ends of lines and zeros
    ZR_VALUE_JSON,     // `text` for people, `json` (text that is JSON already) in JSON
} zr_value_kind;

typedef struct zr_value {
    zr_value_kind kind;
    int64_t integer;
    double real;
    const char *text, *json;
    size_t length; // VERBATIM
} zr_value;

static inline zr_value zr_none(void) { return (zr_value){.kind = ZR_VALUE_NONE}; }
static inline zr_value zr_absent(void) { return (zr_value){.kind = ZR_VALUE_ABSENT}; }
static inline zr_value zr_integer(int64_t n) { return (zr_value){ZR_VALUE_INTEGER, .integer = n}; }
static inline zr_value zr_real(double x) { return (zr_value){ZR_VALUE_REAL, .real = x}; }
static inline zr_value zr_flag(bool b) { return (zr_value){ZR_VALUE_FLAG, .integer = b}; }
static inline zr_value zr_text(const char *t) { return (zr_value){ZR_VALUE_TEXT, .text = t}; }
static inline zr_value zr_verbatim(const char *t, size_t length)
{
    return (zr_value){ZR_VALUE_VERBATIM, .text = t, .length = length};
}
// For people: the end of a word that comes after a number.
static inline zr_value zr_plural(int64_t n) { return zr_text(n == 1 ? "" : "s"); }
// What people read and what JSON has, where neither follows from the other.
static inline zr_value zr_both(const char *text, const char *json)
{
    return (zr_value){ZR_VALUE_JSON, .text = text, .json = json};
}

typedef struct zr_report zr_report;

// Returns NULL and ZERO_ERR_MEMORY in *error.
zr_report *zr_report_create(zero_error *error);
void zr_report_destroy(zr_report *r);

// An object (or with _list an array) of JSON; people see nothing of it. key NULL: in a list.
void zr_report_begin(zr_report *r, const char *key);
void zr_report_begin_list(zr_report *r, const char *key);
void zr_report_end(zr_report *r);

// One line for people: the label, padded to the width that zr_report_labels last set, and the
// value. In a list of JSON the key is NULL and the label set, and zr_report_json_only leaves
// people out.
void zr_report_field(zr_report *r, const zr_heading *field, zr_value value);
// The same for JSON alone: an item of an object, or of a list (key NULL).
void zr_report_json_only(zr_report *r, const char *key, zr_value value);
void zr_report_labels(zr_report *r, int width);
// A part of a sentence: for people the label and the value as they stand, without an end of line.
void zr_report_phrase(zr_report *r, const zr_heading *field, zr_value value);
// A labelled line that has values: "{KEY} of {KEY:6.2G}" takes the values that follow, in order,
// and JSON has each under its key ({}: none). After the colon: "-" for the left, the width, the
// decimals, and letters: g (decimals are significant digits), G (in 1e9), B (bytes), s (seconds), %
// (a share). People see what stands in [] only if all its values are there, not zr_absent().
//   ZR_SENTENCE(r, "memory", "{bytes:.2G} GB[ ({reason})]", zr_integer(bytes), zr_text(reason));
#define ZR_SENTENCE(r, label, words, ...)                                                          \
    zr_report_sentence((r), (label), (words), (const zr_value[]){__VA_ARGS__},                     \
                       ZR_COUNT(((const zr_value[]){__VA_ARGS__})))
void zr_report_sentence(zr_report *r, const char *label, const char *words, const zr_value *values,
                        int count);
// For people alone: a labelled line, whose further lines (after \n) are indented as its first; and
// words as they stand, which bring their own ends of lines.
void zr_report_line(zr_report *r, const char *label, const char *format, ...) ZERO_PRINTF(3, 4);
void zr_report_words(zr_report *r, const char *format, ...) ZERO_PRINTF(2, 3);

// Adds what another report has, and destroys that.
void zr_report_append(zr_report *r, zr_report *from);

// Begins a table: in JSON an array of objects (key NULL: for people only). `columns` outlive the
// report. Every row has at most `count` cells; those that are missing are absent.
void zr_report_table(zr_report *r, const char *key, const zr_heading *columns, int count);
void zr_report_row(zr_report *r);
void zr_report_cell(zr_report *r, zr_value value);
void zr_report_cell_text(zr_report *r, const char *format, ...) ZERO_PRINTF(2, 3);
void zr_report_end_table(zr_report *r);
// Spaces before each row of the tables that follow (text).
void zr_report_indent(zr_report *r, int spaces);

// Appends the answer to `out`. width (text): columns of the terminal; a table that is wider is
// written in several blocks, each of which begins with its first column; 0: any width is right.
// JSON is one object, without a new line at its end. Returns ZERO_ERR_MEMORY, or ZERO_ERR_USAGE
// where the report was built wrongly.
zero_status zr_report_write(const zr_report *r, zr_report_kind kind, int width, zr_buffer *out,
                            zero_error *error);
// The same into a buffer whose owner looks at its failure once; destroys the report. NULL:
// out->failed.
void zr_report_finish(zr_report *r, zr_report_kind kind, int width, zr_buffer *out);
// The whole answer of a command to its `write`: text, or JSON as a line; destroys the report.
zero_status zr_report_print(zr_report *r, bool json, void (*write)(void *user, const char *text),
                            void *user, zero_error *error);

#endif
