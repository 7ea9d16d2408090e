// Rotary embedding: a table of cosines and sines by position, and the rotation of rows by it.
// Angles are products rounded to fp32, as in torch. A task is one position or one row.
#include "compute/cpu/cpu_attention.h"

#define WORTH (1 << 13) // pairs worth a thread

typedef struct table_job {
    const zr_rotary *rotary;
    const float *frequency;
    float *table;
} table_job;

static void table_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const table_job *job = job_;
    const zr_rotary *rotary = job->rotary;
    int64_t half = rotary->rotated / 2;
    for (int64_t i = first; i < last; i++) {
        float *cosines = job->table + i * 2 * half, *sines = cosines + half;
        for (int64_t j = 0; j < half; j++) {
            double angle = (float)(rotary->first + i) * job->frequency[j];
            cosines[j] = (float)cos(angle) * rotary->factor;
            sines[j] = (float)sin(angle) * rotary->factor;
        }
    }
}

void ZR_CPU_TABLE(zr_cpu_rotary_table)(zr_queue *queue, const zr_rotary *rotary,
                                       const float *frequency, float *table)
{
    table_job job = {.rotary = rotary, .frequency = frequency, .table = table};
    zr_cpu_for(queue, rotary->seq, 1 + 512 / ZR_MAX(1, rotary->rotated), table_rows, &job);
}

typedef struct rotate_job {
    const zr_rotary *rotary;
    const float *table;
    const void *x;
    void *y;
} rotate_job;

INLINE void rotate_head(zero_dtype from, zero_dtype to, const rotate_job *job, const float *cosines,
                        int64_t x, int64_t y)
{
    int64_t half = job->rotary->rotated / 2, rest = job->rotary->rest;
    for (int64_t j = 0; j < half; j += LANES) {
        int64_t left = half - j;
        vf c = vf_get(cosines + j, left), s = vf_get(cosines + half + j, left);
        vf x1 = vf_get_as(from, job->x, x + j, left),
           x2 = vf_get_as(from, job->x, x + half + j, left);
        if (job->rotary->back)
            s = -s;
        vf_put_as(to, job->y, y + j, left, x1 * c - x2 * s);
        vf_put_as(to, job->y, y + half + j, left, x2 * c + x1 * s);
    }
    for (int64_t j = 0; j < rest; j += LANES)
        vf_put_as(to, job->y, y + 2 * half + j, rest - j,
                  vf_get_as(from, job->x, x + 2 * half + j, rest - j));
}

INLINE void rotate_row(zero_dtype from, zero_dtype to, const rotate_job *job, int64_t row)
{
    const zr_rotary *by = job->rotary;
    const float *angles = by->rotated ? job->table + row % by->seq * by->rotated : NULL;
    for (int64_t h = 0; h < by->heads; h++)
        rotate_head(from, to, job, angles, row * by->x_step + h * by->x_head,
                    row * by->y_step + h * by->y_head);
}

static void rotate_rows(const void *job_, int64_t first, int64_t last, int worker)
{
    const rotate_job *job = job_;
    for (int64_t row = first; row < last; row++)
        WITH_TYPE(F, job->rotary->from, WITH_TYPE(T, job->rotary->to, rotate_row(F, T, job, row)));
}

void ZR_CPU_TABLE(zr_cpu_rotate)(zr_queue *queue, const zr_rotary *rotary, const float *table,
                                 const void *x, void *y)
{
    const rotate_job job = {.rotary = rotary, .table = table, .x = x, .y = y};
    zr_cpu_for(queue, rotary->batch * rotary->seq,
               1 + WORTH / ZR_MAX(1, rotary->heads * (rotary->rotated + rotary->rest) / 2),
               rotate_rows, &job);
}
