// What optimizers do with weights and directions beside the update itself: the average of the
// weights. Bound by memory, one pass over each array.
//
// Invariant: an element's result depends neither on its place in a range nor on the number of
// threads.
#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_storage.h"

#define UNIT 64         // elements per task
#define WORTH (1 << 14) // elements worth a thread
#define AHEAD 256       // elements between what is fetched and what is used

typedef struct average_job {
    int64_t n;
    const float *master;
    float *average;
    float take;
} average_job;

static void average_tasks(const void *job_, int64_t first, int64_t last, int worker)
{
    const average_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES) {
        int64_t left = end - i;
        __builtin_prefetch(job->master + i + AHEAD);
        __builtin_prefetch(job->average + i + AHEAD, 1);
        vf e = vf_get(job->average + i, left), p = vf_get(job->master + i, left);
        vf_put(job->average + i, left, job->take == 1 ? p : e + (p - e) * job->take);
    }
}

void ZR_CPU_TABLE(zr_cpu_average)(zr_queue *queue, const zr_update *update,
                                  const zr_update_values *values, const float *master,
                                  float *average)
{
    const average_job job = {.n = update->n,
                             .master = master,
                             .average = average,
                             .take = values->first ? 1 : (float)(1 - update->average_decay)};
    zr_cpu_for(queue, (job.n + UNIT - 1) / UNIT, WORTH / UNIT, average_tasks, &job);
}
