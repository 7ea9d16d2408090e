#include "simulate/score_parts.h"

#include "base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void write_memory(const zr_sim_table *table, bool allocated, double *room, zr_buffer *out)
{
    int count = 0;
    for (int i = 0; i < table->count; i++) {
        const zr_sim_row *row = &table->rows[i];
        bool told = row->scored && row->measured_memory > 0 && row->predicted_memory > 0;
        if (told && row->allocated == allocated)
            room[count++] = fabs(log(row->predicted_memory / row->measured_memory));
    }
    if (count == 0)
        return;
    double median = zr_median(room, count), most = room[count - 1];
    zr_buffer_printf(out, "%5d %8.1f%% %7.1f%% (largest)  memory, where it is %s\n", count,
                     100 * median, 100 * most,
                     allocated ? "the peak allocated" : "measured otherwise");
}

void zr_sim_score_memory(const zr_sim_table *table, zr_buffer *out)
{
    double *room = zr_alloc((size_t)ZR_MAX(1, table->count) * sizeof *room, NULL);
    if (room == NULL) {
        out->failed = true;
        return;
    }
    write_memory(table, true, room, out);
    write_memory(table, false, room, out);
    zr_free(room);
}

// Orders rows by what they have in common, and those that have all of it by their prediction.
static int compare_work(const void *a, const void *b)
{
    const zr_sim_row *x = *(const zr_sim_row *const *)a, *y = *(const zr_sim_row *const *)b;
    const zr_sim_run *p = &x->run, *q = &y->run;
    const int64_t of_x[] = {p->layers, p->width, p->seq, p->devices, p->global_batch};
    const int64_t of_y[] = {q->layers, q->width, q->seq, q->devices, q->global_batch};
    int device = strcmp(p->machine.device, q->machine.device);
    if (device != 0)
        return device;
    for (int i = 0; i < ZR_COUNT(of_x); i++)
        if (of_x[i] != of_y[i])
            return of_x[i] < of_y[i] ? -1 : 1;
    return 0;
}

// Returns how much longer the row of a group takes that is predicted to be the fastest, as a part
// of the fastest.
static double regret_of(const zr_sim_row **group, int count)
{
    const zr_sim_row *chosen = group[0];
    double least = INFINITY;
    for (int i = 0; i < count; i++) {
        least = fmin(least, group[i]->measured);
        if (group[i]->predicted < chosen->predicted)
            chosen = group[i];
    }
    return chosen->measured / least - 1;
}

static void write_choice(const zr_sim_row **rows, int count, zr_buffer *out)
{
    double sum = 0, most = 0;
    int groups = 0;
    qsort(rows, (size_t)count, sizeof(*rows), compare_work);
    for (int begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count; end++)
            if (compare_work(&rows[begin], &rows[end]) != 0)
                break;
        if (end - begin < 2)
            continue;
        double regret = regret_of(&rows[begin], end - begin);
        sum += regret;
        most = fmax(most, regret);
        groups++;
    }
    if (groups > 0)
        zr_buffer_printf(out,
                         "%5d %8.1f%% %7.1f%% (mean, largest)  what choosing by prediction costs, "
                         "among rows of one model, devices and batch\n",
                         groups, 100 * sum / groups, 100 * most);
}

void zr_sim_score_choice(const zr_sim_table *table, zr_buffer *out)
{
    int count = 0;
    const zr_sim_row **rows = zr_alloc((size_t)ZR_MAX(1, table->count) * sizeof(*rows), NULL);
    if (rows == NULL) {
        out->failed = true;
        return;
    }
    for (int i = 0; i < table->count; i++) {
        const zr_sim_row *row = &table->rows[i];
        if (row->scored && row->measured > 0 && row->predicted > 0)
            rows[count++] = row;
    }
    write_choice(rows, count, out);
    zr_free(rows);
}
