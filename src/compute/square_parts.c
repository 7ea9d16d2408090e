// Exact sums of squares, from those of chunks that every backend has: the order in which parts,
// chunks and ranks are added does not count (contract 3).
#include "compute/backends.h"

enum { CHUNKS = 512 }; // of one operation

static void add_part(zr_queue *queue, const zr_square_parts *of, const zr_square_part *part,
                     const void *g, zr_exact *sum)
{
    double squares[CHUNKS];
    int64_t size = (int64_t)zero_dtype_bytes(of->dtype), end = part->first + part->count, stop;
    for (int64_t first = part->first; first < end; first = stop) {
        stop = ZR_MIN(end, (first / ZR_SQUARES_CHUNK + CHUNKS) * ZR_SQUARES_CHUNK);
        const zr_squares chunks = {.dtype = of->dtype, .first = first, .count = stop - first};
        zr_run(queue,
               zr_op_square_sums(&chunks, (const char *)g + (first - of->first) * size, squares));
        for (int64_t k = 0; k < zr_squares_parts(&chunks); k++)
            zr_exact_add(sum, squares[k]);
    }
}

void zr_square_parts_add(zr_queue *queue, const zr_square_parts *of, const zr_square_part *parts,
                         const void *g, zr_exact *sums)
{
    for (int64_t i = 0; i < of->parts; i++)
        add_part(queue, of, &parts[i], g, &sums[parts[i].sum]);
}
