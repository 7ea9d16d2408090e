// Numbers in blocks: kernels of blocks.cu. Elements of a block are a warp's.
#include "cuda/launch.h"

static_assert(ZR_BLOCK == 256 && ZR_BLOCK_SCALE_BYTES == 4,
              "the kernels' blocks are the library's");

enum { THREADS = 256 };

static int64_t grid_of(zr_queue *queue, int64_t n)
{
    return zr_cuda_blocks(queue, zr_block_count(n) * 32, THREADS);
}

ZR_KERNEL(zr_cuda_blocks_encode, blocks_encode, blocks)
{
    ZR_LAUNCH(queue, blocks_encode, THREADS, grid_of(queue, shape->n), 1, .source = source,
              .carry = carry, .encoded = encoded, .n = shape->n, .bits = shape->bits,
              .type = (int)shape->dtype, .keep = shape->err_beta, .take = 1 - shape->err_beta);
}

ZR_KERNEL(zr_cuda_blocks_decode, blocks_decode, blocks)
{
    ZR_LAUNCH(queue, blocks_decode, THREADS, grid_of(queue, shape->n), 1, .encoded = encoded,
              .out = out, .n = shape->n, .bits = shape->bits, .type = (int)shape->dtype);
}

ZR_KERNEL(zr_cuda_blocks_add, blocks_add, blocks)
{
    ZR_LAUNCH(queue, blocks_decode, THREADS, grid_of(queue, shape->n), 1, .encoded = encoded,
              .out = sums, .n = shape->n, .bits = shape->bits, .type = ZR_TYPE_F32, .adds = true);
}

ZR_KERNEL(zr_cuda_blocks_round, blocks_round, blocks)
{
    ZR_LAUNCH(queue, blocks_round, THREADS, grid_of(queue, shape->n), 1, .source = source,
              .out = out, .n = shape->n, .bits = shape->bits, .type = (int)shape->dtype);
}
