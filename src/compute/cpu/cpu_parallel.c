// The only place where the cpu backend's own kernels become parallel: an OpenMP team, so that
// oneDNN's threads and ours are the same.
#include "compute/cpu/cpu_kernels.h"

#ifdef _OPENMP
#include <omp.h>
#endif

static void run_range(int64_t count, int workers, int worker, zr_cpu_body *body, const void *job)
{
    int64_t first = count * worker / workers, last = count * (worker + 1) / workers;
    if (first < last)
        body(job, first, last, worker);
}

// The team always has queue->threads members, since a pool that shrinks and grows costs more than
// idle members.
void zr_cpu_for(const zr_queue *queue, int64_t count, int64_t least, zr_cpu_body *body,
                const void *job)
{
#ifdef _OPENMP
    if (queue->threads > 1 && count >= 2 * least) {
        int64_t useful = ZR_MIN(count / least, queue->threads);
#pragma omp parallel num_threads(queue->threads)
        {
            int workers = (int)ZR_MIN(useful, omp_get_num_threads());
            if (omp_get_thread_num() < workers)
                run_range(count, workers, omp_get_thread_num(), body, job);
        }
        return;
    }
#endif
    run_range(count, 1, 0, body, job);
}
