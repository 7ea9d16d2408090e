// A table of published runs (CSV) for zero simulate --runs: whatever a row says, its prediction is
// a number, and the table has a score.
#include "fuzz.h"

#include "simulate/runs_table.h"

#include <math.h>

static zr_sim_catalogue catalogue; // read once

static void close_catalogue(void) { zr_sim_catalogue_close(&catalogue); }

static void open_catalogue(void)
{
    zero_error error;
    fuzz_must(zr_sim_catalogue_open(&catalogue, &error) == ZERO_OK);
    atexit(close_catalogue);
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_sim_table table;
    zr_buffer score = {0};
    if (!catalogue.machines)
        open_catalogue();
    zero_status status =
        zr_sim_table_read(&catalogue, fuzz_put("runs.csv", data, size), NULL, &table, error);
    for (int i = 0; i < table.count && status == ZERO_OK; i++) {
        const zr_sim_row *row = &table.rows[i];
        fuzz_must(isfinite(row->predicted) && row->predicted >= 0);
        fuzz_must(isfinite(row->predicted_memory) && row->predicted_memory >= 0);
        fuzz_must(row->id && row->why && (row->simulated || row->why[0]));
    }
    if (status == ZERO_OK)
        zr_sim_table_score(&table, &score);
    zr_buffer_free(&score);
    zr_sim_table_free(&table);
    return status;
}
