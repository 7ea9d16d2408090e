// Exact sums of squares, and sums over ranks: kernels of sums.cu.
#include "cuda/launch.h"

#include <string.h>

static_assert((int)ZR_CHUNK_ELEMENTS == ZR_SQUARES_CHUNK && ZR_EXACT_NUMBER_WORDS == ZR_EXACT_WORDS,
              "the kernels' chunks and accumulators are the library's");

enum { THREADS = 256, CHUNK_THREADS = 8 };

ZR_KERNEL(zr_cuda_square_sums, square_sums, squares)
{
    const int64_t chunks = zr_squares_parts(shape);
    ZR_LAUNCH(queue, square_sums, THREADS, zr_cuda_blocks(queue, chunks * CHUNK_THREADS, THREADS),
              1, .g = g, .sums = sums, .first = shape->first, .count = shape->count,
              .chunks = chunks, .type = (int)shape->dtype);
}

// Adds as many parts as a launch holds.
static void add_parts(zr_queue *queue, const zr_square_parts *of, const zr_square_part *parts,
                      int count, const void *g, zr_exact *sums)
{
    zr_square_sums_exact_args a = {
        .g = g, .sums = sums->limb, .first = of->first, .parts = count, .type = (int)of->dtype};
    for (int p = 0; p < count; p++) {
        const zr_squares part = {of->dtype, parts[p].first, parts[p].count};
        a.part_first[p] = part.first;
        a.part_count[p] = part.count;
        a.chunks += zr_squares_parts(&part);
        a.end[p] = a.chunks;
        a.sum[p] = (int32_t)parts[p].sum;
    }
    const int64_t blocks = zr_cuda_blocks(queue, a.chunks * CHUNK_THREADS, THREADS);
    zr_cuda_launch(queue, ZR_KERNEL_square_sums_exact, (const int64_t[3]){blocks, 1, 1}, THREADS,
                   &a);
}

ZR_KERNEL(zr_cuda_square_sums_exact, square_sums_exact, square_parts)
{
    for (int64_t p = 0; p < shape->parts; p += ZR_MOST_PARTS)
        add_parts(queue, shape, parts + p, (int)ZR_MIN(shape->parts - p, (int64_t)ZR_MOST_PARTS), g,
                  sums);
}

ZR_KERNEL(zr_cuda_tree_sum, tree_sum, tree)
{
    zr_tree_sum_args a = {.out = out,
                          .n = shape->count,
                          .stride = shape->to.stride,
                          .sources = shape->ranks,
                          .adds = shape->to.adds,
                          .source_type = (int)shape->dtype,
                          .out_type = (int)shape->to.dtype};
    if (shape->source_bits || shape->to.bits) {
        zr_cuda_queue_refuse(queue, "of contributions in blocks of codes");
        return;
    }
    if (shape->ranks > ZR_MOST_TREE_SOURCES) {
        zr_cuda_queue_refuse(queue, "of more than 256 ranks");
        return;
    }
    memcpy(a.source, sources, (size_t)shape->ranks * sizeof *sources);
    const int64_t blocks = zr_cuda_blocks(queue, (shape->count + 7) / 8, THREADS);
    zr_cuda_launch(queue, ZR_KERNEL_tree_sum, (const int64_t[3]){blocks, 1, 1}, THREADS, &a);
}
