// Which probabilities dropout keeps: zr_dropout_keep, with the threshold of zr_dropout_threshold.
#ifndef ZR_CUDA_ATTENTION_DROPOUT_H
#define ZR_CUDA_ATTENTION_DROPOUT_H

#include "philox.h"

namespace zr {

// words[which], which stays in a register
__device__ __forceinline__ uint32_t word_of(const uint32_t words[4], uint32_t which)
{
    return which & 2 ? which & 1 ? words[3] : words[2] : which & 1 ? words[1] : words[0];
}

__device__ __forceinline__ bool dropout_keep(uint64_t key, uint64_t index, uint64_t threshold)
{
    uint32_t words[4];
    philox(key, index / 4, words);
    return word_of(words, (uint32_t)index % 4) >= threshold;
}

// The same of elements index (bit 0) and index + 1 (bit 1), which mostly share their words.
__device__ __forceinline__ uint32_t dropout_keep_pair(uint64_t key, uint64_t index,
                                                      uint64_t threshold)
{
    uint32_t words[4];
    philox(key, index / 4, words);
    const uint32_t at = (uint32_t)index % 4, kept = word_of(words, at) >= threshold;
    if (at == 3)
        philox(key, index / 4 + 1, words);
    return kept | (uint32_t)(word_of(words, (at + 1) % 4) >= threshold) << 1;
}

// Which of a counter's four elements are kept, a bit each.
__device__ __forceinline__ uint32_t dropout_keep_four(uint64_t key, uint64_t counter,
                                                      uint64_t threshold)
{
    uint32_t words[4];
    philox(key, counter, words);
    return (uint32_t)(words[0] >= threshold) | (uint32_t)(words[1] >= threshold) << 1 |
           (uint32_t)(words[2] >= threshold) << 2 | (uint32_t)(words[3] >= threshold) << 3;
}

} // namespace zr

#endif
