// Randomness as a pure function of a key: Philox4x32-10 (Salmon et al., 2011). Nothing here keeps
// state.
#ifndef ZR_BASE_RANDOM_H
#define ZR_BASE_RANDOM_H

#include "base/errors.h"

typedef struct zr_philox {
    uint32_t v[4];
} zr_philox;
// Returns four random words, a function of key and counter alone. The tests compare it with
// Random123's test vectors.
zr_philox zr_philox4x32(uint64_t key, uint64_t counter_high, uint64_t counter_low);

// xxh64 of bytes, and of a text with seed 0.
uint64_t zr_hash_bytes(const void *data, size_t length, uint64_t seed);
uint64_t zr_hash_text(const char *text);

// Returns the key of (seed, step, micro-batch, unit, site) of a run's randomness.
static inline uint64_t zr_site_key(uint64_t seed, uint64_t step, uint64_t micro_batch,
                                   uint64_t unit, uint64_t site)
{
    const uint64_t words[] = {step, micro_batch, unit, site};
    return zr_hash_bytes(words, sizeof words, seed);
}

// Write elements [start, start+count) of the standard normal (or uniform (-1,1)) vector named by
// key, scaled. An element has the same value whatever range it is computed in.
void zr_random_normal(uint64_t key, int64_t start, int64_t count, float deviation, float *out);
void zr_random_uniform(uint64_t key, int64_t start, int64_t count, float half_width, float *out);

// Returns position i (0 <= i < n) of the pseudo-random permutation of 0..n-1 named by key (a
// Feistel network with cycle walking, no memory).
uint64_t zr_permute(uint64_t key, uint64_t i, uint64_t n);

// The most blocks that are read of a file that is too large to be read whole: those at positions
// 0, 1, ... of zr_permute over all its blocks.
#define ZR_SAMPLED_BLOCKS 4096

// normal.c
enum { ZR_NORMAL_BLOCK = 32 };
// Makes a block of standard normal numbers from random bits (Box-Muller), with the same bits on
// every machine. Each radius and each angle takes 64 random bits, whose upper 52 count;
// out[2i] and out[2i+1] are two independent numbers, accurate to about 1e-15. It uses no math
// library, because those differ in the last digits.
void zr_normal_block(const uint64_t radius[ZR_NORMAL_BLOCK], const uint64_t angle[ZR_NORMAL_BLOCK],
                     double out[2 * ZR_NORMAL_BLOCK]);

#endif
