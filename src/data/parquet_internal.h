// The inside of a Parquet file: its footer, and a cursor in each of its columns.
#ifndef ZR_DATA_PARQUET_INTERNAL_H
#define ZR_DATA_PARQUET_INTERNAL_H

#include "data/parquet.h"
#include "data/parquet_runs.h"

enum { ZR_PARQUET_DEPTH = 32, ZR_PARQUET_NODES = 16384, ZR_PARQUET_ITEMS = 4 << 20 };
#define ZR_PARQUET_TEXT ((size_t)64 << 20) // bytes of a row's texts

typedef enum zr_parquet_type { // the footer's numbers
    ZR_PARQUET_BOOLEAN,
    ZR_PARQUET_INT32,
    ZR_PARQUET_INT64,
    ZR_PARQUET_INT96,
    ZR_PARQUET_FLOAT,
    ZR_PARQUET_DOUBLE,
    ZR_PARQUET_BINARY,
    ZR_PARQUET_FIXED,
    ZR_PARQUET_GROUP, // ours: no value, but children
} zr_parquet_type;

typedef enum zr_parquet_repetition {
    ZR_PARQUET_REQUIRED,
    ZR_PARQUET_OPTIONAL,
    ZR_PARQUET_REPEATED,
} zr_parquet_repetition;

typedef enum zr_parquet_meaning { // what a value's annotation says of it
    ZR_PARQUET_PLAIN,
    ZR_PARQUET_TEXT_MEANT,
    ZR_PARQUET_UNSIGNED,
    ZR_PARQUET_LIST, // of a group: also a map
    ZR_PARQUET_OTHER,
} zr_parquet_meaning;

// A node of the schema. Nodes stand in the order of the footer: each before its children.
typedef struct zr_parquet_node {
    char *name;
    zr_parquet_type type;
    zr_parquet_repetition repetition;
    zr_parquet_meaning meaning;
    int64_t children;   // as the footer says
    int end;            // the first node after its children and theirs
    int leaf;           // the first column below it that is read; -1: none is
    int item;           // of a list: the node of its items; -1: it is no list
    int define, repeat; // the levels at which a value is there, and at which it is repeated
} zr_parquet_node;

typedef struct zr_parquet_chunk { // a column's part of a row group
    int type, codec;
    int64_t values, data_at, dictionary_at, bytes;
} zr_parquet_chunk;

typedef struct zr_parquet_group { // a row group
    int64_t rows;
    zr_parquet_chunk *chunks; // (columns)
    int64_t chunk_count;
} zr_parquet_group;

typedef struct zr_parquet_value {
    json_int_t integer;
    double real;
    zr_thrift_text text;
} zr_parquet_value;

typedef struct zr_parquet_values { // the values of a page, one after another
    int encoding;
    zr_parquet_type type;
    const uint8_t *at, *end;
    int bit;            // of PLAIN booleans: position in *at
    zr_runs runs;       // of booleans in runs, and of a dictionary's indices
    zr_deltas deltas;   // of integers, or lengths of texts
    zr_deltas prefixes; // DELTA_BYTE_ARRAY: bytes of the text before that a text begins with
    zr_buffer text;     // the text before
} zr_parquet_values;

typedef struct zr_parquet_column { // a cursor in a chunk
    const char *path;              // of the file, for messages
    const zr_parquet_node *node;
    int codec;
    const uint8_t *at, *end;         // pages not read yet
    int64_t values_left;             // of these pages
    int64_t page_left;               // entries of the current page that were not read
    uint8_t *page, *dictionary_page; // unpacked; NULL where the file's bytes serve
    zr_runs repeats, defines;
    zr_parquet_values values;
    zr_parquet_value *dictionary; // (dictionary_count)
    int64_t dictionary_count;
    // The current entry: its levels. `ended`: there is none, and both are 0.
    uint32_t repeat, define;
    bool ended;
} zr_parquet_column;

struct zr_parquet {
    const char *path;
    const uint8_t *data;
    size_t length;
    zr_parquet_node *nodes; // (node_count); nodes[0] is the row
    int node_count;
    int *leaves; // (columns) nodes of the columns, in order
    int columns;
    zr_parquet_group *groups; // (group_count)
    int64_t group_count, rows;
    // Reading: the next row group; rows of the current one that were not read.
    int64_t group, left;
    zr_parquet_column *cursors; // (columns)
    // Of the current row: items of its lists, and bytes of its texts.
    int64_t items;
    size_t text;
};

// parquet_footer.c: fills nodes, groups and rows. parquet_schema.c: fills what follows from the
// nodes: ends, levels, lists, columns that are read.
zero_status zr_parquet_read_footer(zr_parquet *file, zero_error *error);
zero_status zr_parquet_read_schema(zr_parquet *file, zero_error *error);

// parquet_column.c. Opens a cursor at the first entry of a chunk.
zero_status zr_parquet_column_open(const zr_parquet *file, const zr_parquet_node *node,
                                   const zr_parquet_chunk *chunk, zr_parquet_column *out,
                                   zero_error *error);
void zr_parquet_column_close(zr_parquet_column *column);
// Takes the value of the current entry, which must be there (define == node->define).
zero_status zr_parquet_column_take(zr_parquet_column *column, zr_parquet_value *out,
                                   zero_error *error);
// Goes to the next entry.
zero_status zr_parquet_column_advance(zr_parquet_column *column, zero_error *error);

// parquet_values.c. Begins with the values of a page; false: an encoding that is not built, or not
// for this type. `next` returns false if there is no value, or it is damaged; texts are valid until
// the call after.
bool zr_parquet_values_begin(zr_parquet_values *values, int encoding, const uint8_t *at,
                             const uint8_t *end);
bool zr_parquet_values_next(zr_parquet_values *values, zr_parquet_value *out);
void zr_parquet_values_free(zr_parquet_values *values);

// The numbers of encodings.
enum {
    ZR_PARQUET_PLAIN_ENCODING = 0,
    ZR_PARQUET_PLAIN_DICTIONARY = 2,
    ZR_PARQUET_RLE = 3,
    ZR_PARQUET_DELTA_BINARY_PACKED = 5,
    ZR_PARQUET_DELTA_LENGTH_BYTE_ARRAY = 6,
    ZR_PARQUET_DELTA_BYTE_ARRAY = 7,
    ZR_PARQUET_RLE_DICTIONARY = 8,
};

// parquet_footer.c. Returns whether this is valid UTF-8 without a NUL.
bool zr_parquet_is_text(zr_thrift_text text);
zero_status zr_parquet_damaged(const char *path, const char *what, zero_error *error);

#endif
