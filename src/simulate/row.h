// One row of a table of runs, made a run. Pure.
#ifndef ZR_SIMULATE_ROW_H
#define ZR_SIMULATE_ROW_H

#include "simulate/catalogue.h"
#include "simulate/csv.h"
#include "simulate/run.h"

// Makes a run of a row, and completes it. machine: NULL, or the one to take. why: gets the defaults
// taken, with "; " between them. ZERO_ERR_USAGE, ZERO_ERR_DATA: it cannot be simulated.
zero_status zr_sim_row_make(const zr_sim_catalogue *catalogue, const zr_sim_csv *csv, int row,
                            const zr_sim_machine *machine, zr_sim_run *out, zr_buffer *why,
                            zero_error *error);

#endif
