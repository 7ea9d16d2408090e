// Tensor cores: products of 16-bit fragments summed in fp32, their loads from shared memory, and
// copies to there that go on beside the work. The fragments are those of the PTX manual; for the
// CPU tests/cuda/simt_tiles.h has the same words. A type is ZR_TYPE_BF16 or ZR_TYPE_F16.
#ifndef ZR_CUDA_MMA_H
#define ZR_CUDA_MMA_H

#include "kernel.h"

#ifdef __CUDACC__

// d (16 x 8) += a (16 x 16) b (16 x 8). Lane 4 group + pair has
//   a   the words of rows group and group + 8, columns 2 pair and 2 pair + 8
//   b   those of column group, rows 2 pair and 2 pair + 8
//   d   rows group and group + 8, columns 2 pair and 2 pair + 1
#define ZR_MMA(type)                                                                               \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                    \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                           \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
__device__ __forceinline__ void zr_mma_bf16(float *d, const uint32_t *a, const uint32_t *b)
{
    ZR_MMA("bf16");
}
__device__ __forceinline__ void zr_mma_f16(float *d, const uint32_t *a, const uint32_t *b)
{
    ZR_MMA("f16");
}

// Two rounded elements in a word, the lower first.
__device__ __forceinline__ uint32_t zr_pack_bf16(float low, float high)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
__device__ __forceinline__ uint32_t zr_pack_f16(float low, float high)
{
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

__device__ __forceinline__ uint32_t zr_shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

// Four matrices of 8 x 8 elements in shared memory: lane 8 m + r names row r of matrix m, and gets
// the words of row lane / 4, column lane % 4 of each; transposed, the elements of rows
// 2 (lane % 4) and the next, column lane / 4.
#define ZR_LDMATRIX(suffix)                                                                        \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" suffix ".shared.b16 {%0,%1,%2,%3}, [%4];"         \
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])                  \
                 : "r"(zr_shared_address(row))                                                     \
                 : "memory")
__device__ __forceinline__ void zr_load_matrices(uint32_t *words, const uint4 *row)
{
    ZR_LDMATRIX("");
}
__device__ __forceinline__ void zr_load_transposed(uint32_t *words, const uint4 *row)
{
    ZR_LDMATRIX(".trans");
}

// Begins to copy sixteen bytes to shared memory, or zeros. The thread's copies since the last
// commit are a group; a wait leaves its `newer` newest groups under way.
__device__ __forceinline__ void zr_copy_async(uint4 *to, const void *from, bool zeros)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(zr_shared_address(to)),
                 "l"(from), "r"(zeros ? 0 : 16)
                 : "memory");
}
__device__ __forceinline__ void zr_copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
#define zr_copy_wait(newer) asm volatile("cp.async.wait_group %0;" ::"n"(newer) : "memory")

__device__ __forceinline__ float zr_exp2(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
#endif

#define ZR_MMA_OF(type, d, a, b)                                                                   \
    do {                                                                                           \
        if (type == ZR_TYPE_BF16)                                                                  \
            zr_mma_bf16(d, a, b);                                                                  \
        else                                                                                       \
            zr_mma_f16(d, a, b);                                                                   \
    } while (0)

namespace zr {

template <int TYPE> __device__ __forceinline__ uint32_t pack(float low, float high)
{
    return TYPE == ZR_TYPE_BF16 ? zr_pack_bf16(low, high) : zr_pack_f16(low, high);
}

} // namespace zr

#endif
