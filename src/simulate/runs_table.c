// Tables of runs: read, predicted and written.
#include "simulate/runs_table.h"

#include "base/file.h"
#include "base/json.h"
#include "simulate/row.h"
#include "simulate/text.h"

#include <string.h>

// Returns the seconds of a step that a row measured; 0: it does not say them.
static double measured_seconds(const zr_sim_csv *csv, int row, const zr_sim_run *run)
{
    double seconds = zr_sim_text_number(zr_sim_csv_cell(csv, row, "iter_s"));
    double tokens = zr_sim_text_number(zr_sim_csv_cell(csv, row, "tokens_per_s_per_gpu"));
    bool batch = zr_sim_text_number(zr_sim_csv_cell(csv, row, "global_batch")) > 0;
    bool devices = zr_sim_text_number(zr_sim_csv_cell(csv, row, "gpus")) > 0;
    if (seconds > 0 || tokens <= 0 || !batch || !devices)
        return seconds;
    return (double)run->global_batch * (double)run->seq / (tokens * run->devices);
}

// Names a row: by its id, or its line where it has none. The caller frees it.
static char *name_row(const zr_sim_csv *csv, int row, zero_error *error)
{
    const char *id = zr_sim_csv_cell(csv, row, "id");
    return *id != 0 ? zr_strdup(id, error) : zr_sprintf(error, "line %d", csv->lines[row]);
}

static zero_status read_row(const zr_sim_catalogue *catalogue, const zr_sim_csv *csv, int row,
                            const zr_sim_machine *machine, zr_sim_row *out, zero_error *error)
{
    zr_buffer why = {0};
    zero_error reason = {0};
    const char *system = zr_sim_csv_cell(csv, row, "system");
    const char *device = zr_sim_csv_cell(csv, row, "gpu");
    out->id = name_row(csv, row, error);
    out->family = zr_sprintf(error, "%s x %s", *system != 0 ? system : "(not said)",
                             *device == 0 && machine != NULL ? machine->device : device);
    out->simulated =
        zr_sim_row_make(catalogue, csv, row, machine, &out->run, &why, &reason) == ZERO_OK;
    if (out->simulated)
        out->measured = measured_seconds(csv, row, &out->run);
    out->measured_memory = zr_sim_text_number(zr_sim_csv_cell(csv, row, "memory_GB_per_gpu")) * 1e9;
    out->allocated = zr_sim_text_has(zr_sim_csv_cell(csv, row, "memory_kind"), "peak allocated");
    out->scored = strncmp(zr_sim_csv_cell(csv, row, "set"), "context", 7) != 0 &&
                  zr_sim_csv_cell(csv, row, "quality")[0] != 'N';
    const char *text = why.length > 0 ? why.data : "";
    out->why = zr_strdup(out->simulated ? text : reason.message, error);
    bool failed = why.failed || out->id == NULL || out->family == NULL || out->why == NULL;
    zr_buffer_free(&why);
    return failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a table of runs") : ZERO_OK;
}

zero_status zr_sim_table_read(const zr_sim_catalogue *catalogue, const char *path,
                              const zr_sim_machine *machine, zr_sim_table *out, zero_error *error)
{
    *out = (zr_sim_table){0};
    zr_sim_csv csv;
    zero_status status = zr_sim_csv_read(path, &csv, error);
    if (status == ZERO_OK && machine == NULL && !zr_sim_csv_has(&csv, "gpu"))
        status =
            zr_fail(error, ZERO_ERR_DATA,
                    "%s, line 1: there is no column \"gpu\", and no machine for all rows", path);
    if (status == ZERO_OK && csv.rows > 0) {
        out->rows = zr_alloc((size_t)csv.rows * sizeof(zr_sim_row), error);
        status = out->rows == NULL ? ZERO_ERR_MEMORY : ZERO_OK;
    }
    for (int i = 0; status == ZERO_OK && i < csv.rows; i++) {
        out->count = i + 1;
        status = read_row(catalogue, &csv, i, machine, &out->rows[i], error);
    }
    zr_sim_csv_free(&csv);
    ZERO_TRY(status);
    zr_sim_table_predict(out);
    return ZERO_OK;
}

// Makes the reason for which a row is not predicted what it tells.
static void tell_failure(zr_sim_row *row, const zero_error *reason)
{
    char *told = zr_strdup(reason->message, NULL);
    if (told == NULL)
        return;
    zr_free(row->why);
    row->why = told;
}

void zr_sim_table_predict(zr_sim_table *table)
{
    for (int i = 0; i < table->count; i++) {
        zr_sim_row *row = &table->rows[i];
        if (!row->simulated || row->predicted > 0)
            continue;
        // A run that does not fit has a time nevertheless: our memory may be what is wrong.
        zr_sim_step step;
        zero_error reason = {0};
        zero_status status = zr_sim_step_find(&row->run, &step, &reason);
        bool found = status == ZERO_OK || status == ZERO_ERR_LIMIT;
        row->predicted = found ? step.seconds : 0;
        row->predicted_memory = found ? step.memory : 0;
        if (!found)
            tell_failure(row, &reason);
    }
}

void zr_sim_table_free(zr_sim_table *table)
{
    for (int i = 0; i < table->count; i++) {
        zr_free(table->rows[i].id);
        zr_free(table->rows[i].family);
        zr_free(table->rows[i].why);
    }
    zr_free(table->rows);
    *table = (zr_sim_table){0};
}

// Writes a cell, in quotes where it needs them.
static void write_cell(zr_buffer *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        zr_buffer_printf(out, "%s", text);
        return;
    }
    zr_buffer_append(out, "\"", 1);
    for (; *text != 0; text++)
        zr_buffer_append(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    zr_buffer_append(out, "\"", 1);
}

zero_status zr_sim_table_write(const zr_sim_table *table, const char *path, zero_error *error)
{
    zr_buffer out = {0};
    zr_buffer_printf(&out, "id,predicted_s,predicted_GB,why\n");
    for (int i = 0; i < table->count; i++) {
        const zr_sim_row *row = &table->rows[i];
        write_cell(&out, row->id);
        zr_buffer_printf(&out, ",");
        if (row->predicted > 0)
            zr_json_append_digits(&out, 6, row->predicted);
        zr_buffer_printf(&out, ",");
        if (row->predicted > 0)
            zr_json_append_digits(&out, 4, row->predicted_memory / 1e9);
        zr_buffer_printf(&out, ",");
        write_cell(&out, row->why);
        zr_buffer_printf(&out, "\n");
    }
    zero_status status = ZERO_OK;
    if (out.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the predictions");
    else
        status = zr_file_write_durable(path, out.data, out.length, error);
    zr_buffer_free(&out);
    return status;
}
