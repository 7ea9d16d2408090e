// The score of a table: how far predictions are from what was measured, by family.
#include "simulate/sim_runs_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scored_row {
    const zr_sim_row *row;
    double own, constant; // |log| of our prediction and of a constant's, over the measured time
} scored_row;

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The part-th quantile of numbers, which it sorts.
static double quantile(double *numbers, int count, double part)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
    double at = part * (count - 1);
    int below = (int)at, above = ZR_MIN(below + 1, count - 1);
    return numbers[below] + (at - below) * (numbers[above] - numbers[below]);
}

static double done_rate(const zr_sim_row *row)
{ // FLOP/s of a device
    const zr_sim_run *run = &row->run;
    double tokens = (double)run->global_batch * (double)run->seq;
    double attention = 12.0 * (double)run->layers * (double)run->width * (double)run->seq;
    double again = run->recompute == ZR_SIM_FULL ? 4.0 / 3 : 1; // forward twice
    return (6 * run->parameters + attention) * again * tokens / run->devices / row->measured;
}

// Sets what a constant fitted to each device, the median of its rates, would predict.
static void set_constants(scored_row *rows, int count, double *room)
{
    for (int i = 0; i < count; i++) {
        const char *device = rows[i].row->run.machine.device;
        int same = 0;
        for (int j = 0; j < count; j++)
            if (strcmp(rows[j].row->run.machine.device, device) == 0)
                room[same++] = log(done_rate(rows[j].row));
        rows[i].constant = fabs(log(done_rate(rows[i].row)) - quantile(room, same, 0.5));
    }
}

// Writes a line: of the rows of a family, or of all of them.
static void write_line(const scored_row *rows, int count, const char *family, double *room,
                       zr_buffer *out)
{
    double at[4];
    int same = 0;
    for (int constant = 0; constant < 2; constant++) {
        same = 0;
        for (int i = 0; i < count; i++)
            if (family == NULL || strcmp(rows[i].row->family, family) == 0)
                room[same++] = constant ? rows[i].constant : rows[i].own;
        at[2 * constant] = quantile(room, same, 0.5);
        at[2 * constant + 1] = quantile(room, same, 0.9);
    }
    zr_buffer_printf(out, "%5d %8.1f%% %7.1f%% %11.1f%% %7.1f%%  %s\n", same, 100 * at[0],
                     100 * at[1], 100 * at[2], 100 * at[3], family == NULL ? "all" : family);
}

static bool is_first_of_family(const scored_row *rows, int at)
{
    for (int i = 0; i < at; i++)
        if (strcmp(rows[i].row->family, rows[at].row->family) == 0)
            return false;
    return true;
}

static void write_score(scored_row *rows, int count, double *room, zr_buffer *out)
{
    set_constants(rows, count, room);
    zr_buffer_printf(out, " rows   median      90th  a constant's  90th  family\n");
    for (int i = 0; i < count; i++)
        if (is_first_of_family(rows, i))
            write_line(rows, count, rows[i].row->family, room, out);
    write_line(rows, count, NULL, room, out);
}

void zr_sim_table_score(const zr_sim_table *table, zr_buffer *out)
{
    scored_row *rows = zr_alloc((size_t)ZR_MAX(1, table->count) * sizeof *rows, NULL);
    double *room = zr_alloc((size_t)ZR_MAX(1, table->count) * sizeof *room, NULL);
    int count = 0;
    for (int i = 0; rows != NULL && i < table->count; i++) {
        const zr_sim_row *row = &table->rows[i];
        if (!row->scored || row->measured <= 0 || row->predicted <= 0)
            continue;
        rows[count++] = (scored_row){.row = row, .own = fabs(log(row->predicted / row->measured))};
    }
    if (rows == NULL || room == NULL)
        out->failed = true;
    else if (count == 0)
        zr_buffer_printf(out, "no row says what was measured\n");
    else
        write_score(rows, count, room, out);
    zr_free(rows);
    zr_free(room);
}
