// Which probabilities dropout keeps: Philox4x32-10, word for word as base/random.h has it.
#ifndef ZR_CUDA_ATTENTION_DROPOUT_H
#define ZR_CUDA_ATTENTION_DROPOUT_H

#include "kernel.h"

namespace zr {

struct philox_words {
    uint32_t v0, v1, v2, v3;
};

// zr_philox4x32(key, 0, counter)
__device__ __forceinline__ philox_words philox(uint64_t key, uint64_t counter)
{
    uint32_t v0 = (uint32_t)counter, v1 = (uint32_t)(counter >> 32), v2 = 0, v3 = 0;
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)0xd2511f53u * v0, product1 = (uint64_t)0xcd9e8d57u * v2;
        v0 = (uint32_t)(product1 >> 32) ^ v1 ^ key0;
        v2 = (uint32_t)(product0 >> 32) ^ v3 ^ key1;
        v1 = (uint32_t)product1;
        v3 = (uint32_t)product0;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return philox_words{v0, v1, v2, v3};
}

__device__ __forceinline__ uint32_t word_of(const philox_words &words, uint32_t which)
{
    return which & 2 ? which & 1 ? words.v3 : words.v2 : which & 1 ? words.v1 : words.v0;
}

// zr_dropout_keep, with zr_dropout_threshold(p).
__device__ __forceinline__ bool dropout_keep(uint64_t key, uint64_t index, uint64_t threshold)
{
    return word_of(philox(key, index / 4), (uint32_t)index % 4) >= threshold;
}

// The same of elements index (bit 0) and index + 1 (bit 1), which mostly share their words.
__device__ __forceinline__ uint32_t dropout_keep_pair(uint64_t key, uint64_t index,
                                                      uint64_t threshold)
{
    philox_words words = philox(key, index / 4);
    const uint32_t at = (uint32_t)index % 4;
    uint32_t kept = word_of(words, at) >= threshold;
    if (at == 3)
        words = philox(key, index / 4 + 1);
    return kept | (uint32_t)(word_of(words, (at + 1) % 4) >= threshold) << 1;
}

} // namespace zr

#endif
