// The ways in which the ranks of a job can share the training of one model, and the table in which
// zero compare puts them side by side. Each way is a few keys of a configuration; model, data and
// samples of a step stay the same.
#ifndef ZR_TUNE_COMPARE_WAYS_H
#define ZR_TUNE_COMPARE_WAYS_H

#include "base/json.h"
#include "base/alloc.h"
#include <zero/memory.h>

enum { ZR_MOST_WAYS = 9, ZR_WAY_TEXT = 160 };

typedef struct zr_way {
    const char *name;         // "ZeRO stage 2"
    int data, tensor, stages; // ranks: data x tensor x pipeline stages
    int stage;                // of ZeRO, among the data ranks
    zero_tier states;         // where parameters and optimizer states lie
    char effort[ZR_WAY_TEXT]; // the keys and flags that a user writes
    const char *code;         // what the way requires of a model's code
    char needs[ZR_WAY_TEXT];  // why the way is impossible on these ranks; empty if it is possible
} zr_way;

// Lists the ways on `ranks` ranks, at least 2, in the order of the tables, and returns their
// number. nvme: includes the way with states on NVMe.
int zr_ways_list(int ranks, bool nvme, zr_way out[ZR_MOST_WAYS]);

typedef struct zr_way_batch { // of every way
    int64_t samples;          // of a step, on all ranks
    int64_t micro_batch;      // of a data rank
} zr_way_batch;

// Returns the configuration of a way as JSON (zr_free): `base`, a resolved one, with the keys of
// the way; tensor ranks and pipeline stages are flags in addition. nvme: the directory, if the
// way's states are on NVMe. NULL if there is no memory.
char *zr_way_config(const zr_way *way, const json_t *base, const zr_way_batch *batch,
                    const char *nvme, zero_error *error);
// Returns the micro-batches of a step on a data rank.
int64_t zr_way_accumulation(const zr_way *way, const zr_way_batch *batch);

// compare_table.c: a table of Markdown that is also readable as plain text, because cells are
// padded to the width of their column.
enum { ZR_TABLE_ROWS = 16, ZR_TABLE_COLUMNS = 10, ZR_TABLE_CELL = 176 };

typedef struct zr_table {
    int columns, rows; // the first row is the heading
    int at;            // the next cell of the last row
    char cells[ZR_TABLE_ROWS][ZR_TABLE_COLUMNS][ZR_TABLE_CELL];
} zr_table;

// Begins a row; there are at most ZR_TABLE_ROWS.
void zr_table_row(zr_table *table);
// Writes the next cell of the row; each row has as many as the heading.
void zr_table_cell(zr_table *table, const char *format, ...) ZERO_PRINTF(2, 3);
void zr_table_write(const zr_table *table, zr_buffer *out);

#endif
