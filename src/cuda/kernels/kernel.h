// What kernels share: elements of every type, sixteen bytes at a time. NVRTC compiles it, and g++
// for the emulated driver (tests/cuda/simt.h is read before it). No float atomics, and no grid that
// a result depends on: bits follow from shapes alone.
#ifndef ZR_CUDA_KERNEL_H
#define ZR_CUDA_KERNEL_H

#include "kernels.h"

// The head of a kernel with its structure, `a`; threads: the most of a block; blocks: as many as a
// multiprocessor should hold, where a compiler that chooses itself would rather have local memory.
#define ZR_GLOBAL_OF(kernel, bounds)                                                               \
    extern "C" __global__ void __launch_bounds__ bounds zr_##kernel(                               \
        const __grid_constant__ zr_##kernel##_args a)
#define ZR_GLOBAL(kernel, threads) ZR_GLOBAL_OF(kernel, (threads))
#define ZR_GLOBAL_HELD(kernel, threads, blocks) ZR_GLOBAL_OF(kernel, (threads, blocks))

#ifdef __CUDACC__ // for the CPU, simt.h has them
__device__ __forceinline__ float zr_half_to_float(uint16_t bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ __forceinline__ uint16_t zr_float_to_half(float value)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

namespace zr {

// The number of this thread among all of the grid's, and how many there are.
__device__ __forceinline__ int64_t thread_number()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t thread_count() { return (int64_t)gridDim.x * blockDim.x; }

__device__ __forceinline__ float float_of_bits(uint32_t bits) { return __uint_as_float(bits); }
__device__ __forceinline__ uint32_t bits_of_float(float value) { return __float_as_uint(value); }

__device__ __forceinline__ float bf16_to_float(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

// To nearest even, as the host rounds; a NaN stays one.
__device__ __forceinline__ uint16_t float_to_bf16(float value)
{
    const uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

// Of fp16: by the processor's own conversions.
__device__ __forceinline__ float f16_to_float(uint16_t bits) { return zr_half_to_float(bits); }
__device__ __forceinline__ uint16_t float_to_f16(float value) { return zr_float_to_half(value); }

// Element i of an array of a type that all threads share.
__device__ __forceinline__ float get(const void *array, int type, int64_t i)
{
    if (type == ZR_TYPE_F32)
        return ((const float *)array)[i];
    const uint16_t bits = ((const uint16_t *)array)[i];
    return type == ZR_TYPE_BF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

__device__ __forceinline__ void put(void *array, int type, int64_t i, float value)
{
    if (type == ZR_TYPE_F32)
        ((float *)array)[i] = value;
    else
        ((uint16_t *)array)[i] = type == ZR_TYPE_BF16 ? float_to_bf16(value) : float_to_f16(value);
}

// Eight elements as they lie: one load of sixteen bytes, of fp32 two. `at` is aligned to them.
struct raw_eight {
    uint4 word[2];
};

__device__ __forceinline__ raw_eight load_eight(const void *array, int type, int64_t i)
{
    raw_eight raw;
    if (type == ZR_TYPE_F32) {
        raw.word[0] = ((const uint4 *)array)[i / 4];
        raw.word[1] = ((const uint4 *)array)[i / 4 + 1];
    } else {
        raw.word[0] = ((const uint4 *)array)[i / 8];
    }
    return raw;
}

__device__ __forceinline__ void widen_pair(uint32_t word, int type, float *out)
{
    if (type == ZR_TYPE_BF16) {
        out[0] = float_of_bits(word << 16);
        out[1] = float_of_bits(word & 0xffff0000u);
    } else {
        out[0] = f16_to_float((uint16_t)(word & 0xffff));
        out[1] = f16_to_float((uint16_t)(word >> 16));
    }
}

__device__ __forceinline__ void widen_eight(const raw_eight &raw, int type, float out[8])
{
    if (type == ZR_TYPE_F32) {
        const uint32_t words[8] = {raw.word[0].x, raw.word[0].y, raw.word[0].z, raw.word[0].w,
                                   raw.word[1].x, raw.word[1].y, raw.word[1].z, raw.word[1].w};
        for (int i = 0; i < 8; i++)
            out[i] = float_of_bits(words[i]);
        return;
    }
    widen_pair(raw.word[0].x, type, out);
    widen_pair(raw.word[0].y, type, out + 2);
    widen_pair(raw.word[0].z, type, out + 4);
    widen_pair(raw.word[0].w, type, out + 6);
}

__device__ __forceinline__ uint32_t narrow_pair(const float *in, int type)
{
    return type == ZR_TYPE_BF16
               ? (uint32_t)float_to_bf16(in[0]) | (uint32_t)float_to_bf16(in[1]) << 16
               : (uint32_t)float_to_f16(in[0]) | (uint32_t)float_to_f16(in[1]) << 16;
}

__device__ __forceinline__ void store_eight(void *array, int type, int64_t i, const float in[8])
{
    if (type == ZR_TYPE_F32) {
        uint4 *to = (uint4 *)array + i / 4;
        to[0] = uint4{bits_of_float(in[0]), bits_of_float(in[1]), bits_of_float(in[2]),
                      bits_of_float(in[3])};
        to[1] = uint4{bits_of_float(in[4]), bits_of_float(in[5]), bits_of_float(in[6]),
                      bits_of_float(in[7])};
    } else {
        ((uint4 *)array)[i / 8] = uint4{narrow_pair(in, type), narrow_pair(in + 2, type),
                                        narrow_pair(in + 4, type), narrow_pair(in + 6, type)};
    }
}

} // namespace zr

#endif
