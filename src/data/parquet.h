// A reader of Parquet files, by hand: rows as the JSON objects that lines of JSON would hold.
//
//   "PAR1" | pages of columns, row group after row group | footer (Thrift) | its length | "PAR1"
//
// Structures become objects; lists (of two and three levels) become arrays; maps become arrays of
// {"key", "value"}; texts, integers, floats, booleans and nulls become what they are. Binary
// columns that no annotation calls text are texts where they are UTF-8 and null elsewhere. Columns
// of other types (dates, times, decimals, fixed binary) are left out. Not built: encryption, LZ4,
// Brotli and LZO, BYTE_STREAM_SPLIT, levels of parquet-format 1's BIT_PACKED.
//
// Of each column one page is in memory at a time, unpacked, and its dictionary.
// https://github.com/apache/parquet-format
#ifndef ZR_DATA_PARQUET_H
#define ZR_DATA_PARQUET_H

#include "base/json.h"

typedef struct zr_parquet zr_parquet;

// Returns whether these are the first bytes of a Parquet file.
bool zr_parquet_begins(const char *data, size_t length);

// Reads the footer. `path` and `data` must outlive the reader. ZERO_ERR_DATA for a file that is
// damaged, ZERO_ERR_UNSUPPORTED for what is not built.
zero_status zr_parquet_open(const char *path, const char *data, size_t length, zr_parquet **out,
                            zero_error *error);
void zr_parquet_close(zr_parquet *file); // NULL is allowed
int64_t zr_parquet_rows(const zr_parquet *file);

// Reads the next row; the caller owns *row (json_decref), which is NULL after the last one. Fails
// as zr_parquet_open does; `name` ("FILE: row 5") begins the messages. A row has at most 64 MiB of
// text and 4 Mi items of lists.
zero_status zr_parquet_next(zr_parquet *file, const char *name, json_t **row, zero_error *error);

#endif
