// The score of a table: how far predictions are from what was measured, by family.
#include "base/numbers.h"
#include "simulate/score_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scored_row {
    const zr_sim_row *row;
    double own, constant; // |log| of our prediction and of a constant's, over the measured time
    double usual;         // log of the rate of its device that is the constant
} scored_row;

static double done_rate(const zr_sim_row *row)
{ // FLOP/s of a device
    const zr_sim_run *run = &row->run;
    double tokens = (double)run->global_batch * (double)run->seq;
    double attention = 12.0 * (double)run->layers * (double)run->width * (double)run->seq;
    double again = run->recompute == ZR_SIM_FULL ? 4.0 / 3 : 1; // forward twice
    return (6 * run->parameters + attention) * again * tokens / run->devices / row->measured;
}

static bool have_one_device(const scored_row *a, const scored_row *b)
{
    return strcmp(a->row->run.machine.device, b->row->run.machine.device) == 0;
}

// Returns the median of the logarithms of the rates of rows[at]'s device, which is that of the
// nearest row before it with that device, if there is one.
static double usual_rate(const scored_row *rows, int count, int at, double *room)
{
    int same = 0;
    for (int i = at - 1; i >= 0; i--)
        if (have_one_device(&rows[i], &rows[at]))
            return rows[i].usual;
    for (int i = at; i < count; i++)
        if (have_one_device(&rows[i], &rows[at]))
            room[same++] = log(done_rate(rows[i].row));
    return zr_median(room, same);
}

// Sets what a constant fitted to each device, the median of its rates, would predict.
static void set_constants(scored_row *rows, int count, double *room)
{
    for (int i = 0; i < count; i++) {
        rows[i].usual = usual_rate(rows, count, i, room);
        rows[i].constant = fabs(log(done_rate(rows[i].row)) - rows[i].usual);
    }
}

// Writes a line: of the rows of a family, or of all of them.
static void write_score_line(const scored_row *rows, int count, const char *family, double *room,
                             zr_buffer *out)
{
    double at[4];
    int same = 0;
    for (int constant = 0; constant < 2; constant++) {
        same = 0;
        for (int i = 0; i < count; i++)
            if (family == NULL || strcmp(rows[i].row->family, family) == 0)
                room[same++] = constant ? rows[i].constant : rows[i].own;
        at[2 * constant] = zr_median(room, same);
        at[2 * constant + 1] = zr_quantile(room, same, 0.9);
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
            write_score_line(rows, count, rows[i].row->family, room, out);
    write_score_line(rows, count, NULL, room, out);
}

void zr_sim_table_score(const zr_sim_table *table, zr_buffer *out)
{
    scored_row *rows = zr_alloc((size_t)ZR_MAX(1, table->count) * sizeof *rows, NULL);
    double *room = zr_alloc((size_t)ZR_MAX(1, table->count) * sizeof *room, NULL);
    int count = 0, failed = 0;
    for (int i = 0; rows != NULL && i < table->count; i++) {
        const zr_sim_row *row = &table->rows[i];
        failed += row->scored && row->predicted <= 0;
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
    zr_sim_score_memory(table, out);
    zr_sim_score_choice(table, out);
    if (failed > 0)
        zr_buffer_printf(out,
                         "%5d rows could not be predicted; the column why of --out FILE "
                         "tells the reasons\n",
                         failed);
    zr_free(rows);
    zr_free(room);
}
