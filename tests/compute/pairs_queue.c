#include "pairs_queue.h"

#ifdef ZR_COMPUTE_X86
extern const zr_backend zr_cpu_backend_pairs;

zr_queue *pairs_queue(int threads)
{
    zr_queue *queue = check_queue("cpu", "avx2", threads);
    if (queue)
        queue->backend = &zr_cpu_backend_pairs; // both have nothing in queue->impl
    return queue;
}
#else
zr_queue *pairs_queue(int threads) { return NULL; }
#endif
