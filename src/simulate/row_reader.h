// The reading of one row: its cells, and telling what is taken where they say nothing. Pure.
#ifndef ZR_SIMULATE_ROW_READER_H
#define ZR_SIMULATE_ROW_READER_H

#include "simulate/csv.h"
#include "simulate/run.h"
#include "simulate/text.h"

typedef struct zr_sim_row_reader {
    const zr_sim_csv *csv;
    int row;
    zr_sim_run *run; // what the row becomes
    zr_buffer *why;  // gets what is told, with "; " between
    const char *system, *model;
} zr_sim_row_reader;

// Returns a cell; "": the table has no such column.
const char *zr_sim_row_cell(const zr_sim_row_reader *r, const char *column);
// Returns the number of a cell; 0: it has none.
double zr_sim_row_number(const zr_sim_row_reader *r, const char *column);
// Returns that number as a whole one, `most` at most.
int64_t zr_sim_row_whole(const zr_sim_row_reader *r, const char *column, double most);
// The same of samples or tokens, as zr_sim_text_length reads them.
int64_t zr_sim_row_length(const zr_sim_row_reader *r, const char *column, double most);
// Adds to what is told: a default that is taken, or how a cell is understood.
void zr_sim_row_tell(zr_sim_row_reader *r, const char *format, ...) ZERO_PRINTF(2, 3);
// Sets *out to value if nothing is there yet.
void zr_sim_row_set_none(int64_t *out, int64_t value);

// Returns whether a run fits into its devices' memory with some to spare.
bool zr_sim_row_fits(const zr_sim_run *run);
// Reads what is computed again; the grid, the system and the model have been read.
void zr_sim_row_read_recompute(zr_sim_row_reader *r);
// Reads the model of a row: its shape, its parameters and seq. ZERO_ERR_DATA: it says too little.
zero_status zr_sim_row_read_model(zr_sim_row_reader *r, zero_error *error);
// Returns the tokens of a batch that stand in parentheses after its samples, "1020 (4.19M tokens)";
// 0: none do.
double zr_sim_row_batch_tokens(const zr_sim_row_reader *r);

#endif
