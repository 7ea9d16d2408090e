// What the threads of a block, which are whole warps, find together. The order of additions follows
// from the number of threads alone, and every thread gets the result.
#ifndef ZR_CUDA_BLOCK_SUMS_H
#define ZR_CUDA_BLOCK_SUMS_H

#include "kernel.h"

namespace zr {

enum { WARP = 32, MOST_WARPS = 32 };

template <class T> __device__ __forceinline__ T warp_sum(T value)
{
    for (int by = WARP / 2; by; by /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, by);
    return value;
}

// Several sums at once share the barriers.
template <class T, int N> __device__ __forceinline__ void block_sums(T (&values)[N])
{
    __shared__ T parts[N][MOST_WARPS];
    for (int n = 0; n < N; n++)
        values[n] = warp_sum(values[n]);
    __syncthreads(); // the parts of earlier sums have been read
    for (int n = 0; n < N && threadIdx.x % WARP == 0; n++)
        parts[n][threadIdx.x / WARP] = values[n];
    __syncthreads();
    for (int n = 0; n < N; n++) {
        values[n] = 0;
        for (unsigned w = 0; w < blockDim.x / WARP; w++)
            values[n] += parts[n][w];
    }
}

template <class T> __device__ __forceinline__ T block_sum(T value)
{
    T values[1] = {value};
    block_sums(values);
    return values[0];
}

// Of NaNs and numbers: the largest number.
__device__ __forceinline__ float block_largest(float value)
{
    __shared__ float parts[MOST_WARPS];
    for (int by = WARP / 2; by; by /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, by));
    __syncthreads(); // the parts of an earlier call have been read
    if (threadIdx.x % WARP == 0)
        parts[threadIdx.x / WARP] = value;
    __syncthreads();
    float largest = parts[0];
    for (unsigned w = 1; w < blockDim.x / WARP; w++)
        largest = fmaxf(largest, parts[w]);
    return largest;
}

// Lists the numbers of the threads that say so, ascending, in memory of the block with room for
// all; returns how many there are.
__device__ __forceinline__ int block_list(bool says_so, int32_t *list)
{
    __shared__ uint32_t said[MOST_WARPS];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const uint32_t of_warp = __ballot_sync(0xffffffffu, says_so);
    __syncthreads(); // what an earlier call has listed has been read
    if (lane == 0)
        said[warp] = of_warp;
    __syncthreads();
    int before = 0, all = 0;
    for (unsigned w = 0; w < blockDim.x / WARP; w++) {
        before += w < warp ? __popc(said[w]) : 0;
        all += __popc(said[w]);
    }
    if (says_so)
        list[before + __popc(of_warp & ((1u << lane) - 1))] = (int32_t)threadIdx.x;
    __syncthreads();
    return all;
}

__device__ __forceinline__ bool block_any(bool says_so)
{
    __shared__ uint32_t said[MOST_WARPS];
    const uint32_t of_warp = __ballot_sync(0xffffffffu, says_so);
    __syncthreads(); // the words of an earlier call have been read
    if (threadIdx.x % WARP == 0)
        said[threadIdx.x / WARP] = of_warp;
    __syncthreads();
    uint32_t any = 0;
    for (unsigned w = 0; w < blockDim.x / WARP; w++)
        any |= said[w];
    return any != 0;
}

} // namespace zr

#endif
