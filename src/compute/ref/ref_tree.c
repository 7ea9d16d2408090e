// The sum over the ranks' contributions, element by element.
#include "base/dtype.h"
#include "compute/backends.h"
#include "compute/ref/ref.h"
#include "compute/tree_sum.h"

enum { PART = ZR_BLOCK }; // elements at a time: what codes are rounded together

static float source_at(const zr_tree *of, const void *source, int64_t i)
{
    float block[ZR_BLOCK];
    if (!of->source_bits)
        return (float)ref_get(of->dtype, source, i);
    zr_widen_block_range(of->source_bits, source, i / ZR_BLOCK * ZR_BLOCK, ZR_BLOCK, block);
    return block[i % ZR_BLOCK];
}

static float sum_of(const zr_tree *of, const void *const *sources, int ranks, int64_t i)
{
    int left = 1;
    if (ranks == 1)
        return source_at(of, sources[0], i);
    while (2 * left < ranks)
        left *= 2;
    return sum_of(of, sources, left, i) + sum_of(of, sources + left, ranks - left, i);
}

void zr_ref_tree_sum(zr_queue *queue, const zr_tree *of, const void *const *sources, void *out)
{
    for (int64_t first = 0; first < of->count; first += PART) {
        int64_t count = ZR_MIN(PART, of->count - first);
        float sums[PART];
        for (int64_t i = 0; i < count; i++) {
            sums[i] = sum_of(of, sources, of->ranks, first + i);
            for (int k = of->to.adds - 1; k >= 0; k--)
                sums[i] += (float)ref_get(of->to.dtype, out, k * of->to.stride + first + i);
        }
        for (int64_t i = 0; i < count && !of->to.bits; i++)
            ref_put(of->to.dtype, out, first + i, sums[i]);
        if (of->to.bits)
            zr_narrow_blocks(of->to.bits, sums, count,
                             (char *)out + zr_block_bytes(of->to.bits, first));
    }
}
