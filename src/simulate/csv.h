// Comma-separated values: a first line of names, and lines of cells, which may be quoted.
#ifndef ZR_SIMULATE_CSV_H
#define ZR_SIMULATE_CSV_H

#include "base/alloc.h"

typedef struct zr_sim_csv {
    char *text;   // the file, cut into cells
    char **cells; // (rows + 1, columns) those of the first line are the names
    int *lines;   // (rows) the line of the file, from 1, at which each row begins
    int rows, columns;
} zr_sim_csv;

// Reads a file. ZERO_ERR_DATA: it is empty or no text, or a line has too few or too many cells; the
// message has its number. The caller frees *out with zr_sim_csv_free, also after an error.
zero_status zr_sim_csv_read(const char *path, zr_sim_csv *out, zero_error *error);
void zr_sim_csv_free(zr_sim_csv *csv);
// Returns a cell of a row; "" where there is no such column.
const char *zr_sim_csv_cell(const zr_sim_csv *csv, int row, const char *column);
bool zr_sim_csv_has(const zr_sim_csv *csv, const char *column);

#endif
