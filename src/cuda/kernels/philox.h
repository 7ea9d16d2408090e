// The random words of dropout: Philox4x32-10, word for word as base/random.h has it.
#ifndef ZR_CUDA_PHILOX_H
#define ZR_CUDA_PHILOX_H

#include "kernel.h"

namespace zr {

// The four words of a counter whose upper half is 0.
__device__ __forceinline__ void philox(uint64_t key, uint64_t counter, uint32_t out[4])
{
    uint32_t v0 = (uint32_t)counter, v1 = (uint32_t)(counter >> 32), v2 = 0, v3 = 0;
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)0xd2511f53u * v0, product1 = (uint64_t)0xcd9e8d57u * v2;
        v0 = (uint32_t)(product1 >> 32) ^ v1 ^ key0;
        v1 = (uint32_t)product1;
        v2 = (uint32_t)(product0 >> 32) ^ v3 ^ key1;
        v3 = (uint32_t)product0;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    out[0] = v0;
    out[1] = v1;
    out[2] = v2;
    out[3] = v3;
}

// The words of elements first .. first + 7, which may begin within the four of a counter.
__device__ __forceinline__ void philox_eight(uint64_t key, uint64_t first, uint32_t out[8])
{
    const int begin = (int)(first % 4);
    uint32_t words[12] = {};
    philox(key, first / 4, words);
    philox(key, first / 4 + 1, words + 4);
    if (begin)
        philox(key, first / 4 + 2, words + 8);
    for (int k = 0; k < 8; k++) // with constant places, so that all words stay in registers
        out[k] = begin == 0   ? words[k]
                 : begin == 1 ? words[k + 1]
                 : begin == 2 ? words[k + 2]
                              : words[k + 3];
}

} // namespace zr

#endif
