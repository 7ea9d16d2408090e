// Tables of published runs (CSV): each row is predicted and scored. Cells are free text: the number
// with which one begins counts, and an empty one has a default that `why` tells. Columns that say
// what was measured, or who said it, are read for the score alone.
#ifndef ZR_SIMULATE_RUNS_TABLE_H
#define ZR_SIMULATE_RUNS_TABLE_H

#include "simulate/catalogue.h"
#include "simulate/step.h"

typedef struct zr_sim_row {
    char *id;                // "line 7" where the table has none
    char *family;            // of the score: system and device
    char *why;               // defaults taken; of a row that is not predicted, the reason
    double predicted;        // seconds of a step; 0: the row cannot be simulated
    double predicted_memory; // bytes of a device
    double measured;         // seconds; 0: the table does not say
    double measured_memory;  // bytes; 0: likewise
    bool allocated;          // that is the peak of what was allocated
    bool scored;             // it is a test: not a "context" row
    bool simulated;          // `run` is complete
    zr_sim_run run;
} zr_sim_row;

typedef struct zr_sim_table {
    zr_sim_row *rows; // (count)
    int count;
} zr_sim_table;

// Reads and predicts all rows. machine: NULL, or one for all of them (--machine); else a row's own
// gpu, which has to be a column then. ZERO_ERR_DATA: it is missing, or a line has too few or too
// many cells, with its number.
// The caller frees *out with zr_sim_table_free, also after an error.
zero_status zr_sim_table_read(const zr_sim_catalogue *catalogue, const char *path,
                              const zr_sim_machine *machine, zr_sim_table *out, zero_error *error);
// Predicts the rows again whose `predicted` somebody has set to 0, having changed their runs.
void zr_sim_table_predict(zr_sim_table *table);
void zr_sim_table_free(zr_sim_table *table);
// Writes the score of each family and of all: rows, median and 90th percentile of
// |log(predicted / measured)|, and the same of a constant fitted to each device; memory likewise;
// what choosing by prediction costs; and how many rows are tests and could not be predicted.
void zr_sim_table_score(const zr_sim_table *table, zr_buffer *out);
// Writes the file of --out: id,predicted_s,predicted_GB,why.
zero_status zr_sim_table_write(const zr_sim_table *table, const char *path, zero_error *error);

#endif
