// A table of Markdown that is also readable as it stands: cells are padded to the width of their
// column.
#ifndef ZR_TUNE_COMPARE_TABLE_H
#define ZR_TUNE_COMPARE_TABLE_H

#include "base/alloc.h"

enum { ZR_TABLE_ROWS = 16, ZR_TABLE_COLUMNS = 10, ZR_TABLE_CELL = 176 };

typedef struct zr_table {
    int columns, rows; // the first row is the heading
    int at;            // the next cell of the last row
    char cells[ZR_TABLE_ROWS][ZR_TABLE_COLUMNS][ZR_TABLE_CELL];
} zr_table;

// Begins a row; there are at most ZR_TABLE_ROWS.
void zr_table_row(zr_table *table);
// Writes the next cell of the row, of which there are as many as in the heading.
void zr_table_cell(zr_table *table, const char *format, ...) ZERO_PRINTF(2, 3);
void zr_table_write(const zr_table *table, zr_buffer *out);

#endif
