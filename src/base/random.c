// Counter-based randomness: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011.
//
// Invariant: every value is a function of (key, index) alone, so that any rank can compute any
// range of a vector. The high half of Philox's counter separates the uses of one key.
#include "base/random.h"

#include <string.h>
#include <xxhash.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { USE_NORMAL, USE_UNIFORM, USE_PERMUTATION };

#define ROUNDS 10
#define FACTOR0 0xd2511f53u
#define FACTOR1 0xcd9e8d57u
#define KEY0_STEP 0x9e3779b9u // of the keys from round to round
#define KEY1_STEP 0xbb67ae85u

static void philox_round(uint32_t v[4], uint32_t key0, uint32_t key1)
{
    uint64_t product0 = (uint64_t)FACTOR0 * v[0];
    uint64_t product1 = (uint64_t)FACTOR1 * v[2];
    uint32_t v1 = v[1], v3 = v[3];
    v[0] = (uint32_t)(product1 >> 32) ^ v1 ^ key0;
    v[1] = (uint32_t)product1;
    v[2] = (uint32_t)(product0 >> 32) ^ v3 ^ key1;
    v[3] = (uint32_t)product0;
}

zr_philox zr_philox4x32(uint64_t key, uint64_t counter_high, uint64_t counter_low)
{
    zr_philox out = {.v = {(uint32_t)counter_low, (uint32_t)(counter_low >> 32),
                           (uint32_t)counter_high, (uint32_t)(counter_high >> 32)}};
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        philox_round(out.v, key0, key1);
        key0 += KEY0_STEP;
        key1 += KEY1_STEP;
    }
    return out;
}

uint64_t zr_hash_bytes(const void *data, size_t length, uint64_t seed)
{
    return XXH64(data, length, seed);
}

uint64_t zr_hash_text(const char *text) { return zr_hash_bytes(text, strlen(text), 0); }

// Draws the bits of numbers 2*pair .. 2*(pair+ZR_NORMAL_BLOCK)-1.
static void normal_draw(uint64_t key, uint64_t pair, uint64_t radius[ZR_NORMAL_BLOCK],
                        uint64_t angle[ZR_NORMAL_BLOCK])
{
    for (int i = 0; i < ZR_NORMAL_BLOCK; i++) {
        zr_philox random = zr_philox4x32(key, USE_NORMAL, pair + (uint64_t)i);
        radius[i] = (uint64_t)random.v[0] << 32 | random.v[1];
        angle[i] = (uint64_t)random.v[2] << 32 | random.v[3];
    }
}

#if defined(__x86_64__)
// The same, four at a time. Each word lies in a lane of 64 bits, whose upper half only a shift
// reads.
__attribute__((target("avx2"))) static void normal_draw_avx2(uint64_t key, uint64_t pair,
                                                             uint64_t radius[ZR_NORMAL_BLOCK],
                                                             uint64_t angle[ZR_NORMAL_BLOCK])
{
    typedef uint64_t lanes __attribute__((vector_size(32)));
    const lanes factor0 = (lanes){0} + FACTOR0, factor1 = (lanes){0} + FACTOR1;
    for (int i = 0; i < ZR_NORMAL_BLOCK; i += 4) {
        lanes v0 = (lanes){0, 1, 2, 3} + pair + (uint64_t)i, v1 = v0 >> 32,
              v2 = (lanes){0} + USE_NORMAL, v3 = {0};
        uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
        for (int round = 0; round < ROUNDS; round++, key0 += KEY0_STEP, key1 += KEY1_STEP) {
            lanes product0 = (lanes)_mm256_mul_epu32((__m256i)factor0, (__m256i)v0),
                  product1 = (lanes)_mm256_mul_epu32((__m256i)factor1, (__m256i)v2);
            v0 = product1 >> 32 ^ v1 ^ key0, v2 = product0 >> 32 ^ v3 ^ key1;
            v1 = product1, v3 = product0;
        }
        v0 = v0 << 32 | (v1 & UINT32_MAX), v2 = v2 << 32 | (v3 & UINT32_MAX);
        memcpy(radius + i, &v0, sizeof v0);
        memcpy(angle + i, &v2, sizeof v2);
    }
}
#endif

static void normal_bits(uint64_t key, uint64_t pair, uint64_t radius[ZR_NORMAL_BLOCK],
                        uint64_t angle[ZR_NORMAL_BLOCK])
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        normal_draw_avx2(key, pair, radius, angle);
        return;
    }
#endif
    normal_draw(key, pair, radius, angle);
}

void zr_random_normal(uint64_t key, int64_t start, int64_t count, float deviation, float *out)
{
    int64_t end = start + count;
    for (int64_t pair = start / 2; 2 * pair < end; pair += ZR_NORMAL_BLOCK) {
        uint64_t radius[ZR_NORMAL_BLOCK], angle[ZR_NORMAL_BLOCK];
        double normal[2 * ZR_NORMAL_BLOCK];
        normal_bits(key, (uint64_t)pair, radius, angle);
        zr_normal_block(radius, angle, normal);
        for (int64_t i = ZR_MAX(2 * pair, start); i < ZR_MIN(2 * (pair + ZR_NORMAL_BLOCK), end);
             i++)
            out[i - start] = (float)(normal[i - 2 * pair] * deviation);
    }
}

void zr_random_uniform(uint64_t key, int64_t start, int64_t count, float half_width, float *out)
{
    int64_t end = start + count;
    for (int64_t four = start / 4; 4 * four < end; four++) {
        zr_philox random = zr_philox4x32(key, USE_UNIFORM, (uint64_t)four);
        for (int64_t i = ZR_MAX(4 * four, start); i < ZR_MIN(4 * four + 4, end); i++) {
            // 24 bits are exact in a float, and never give -1 or 1.
            double unit = ((double)(random.v[i - 4 * four] >> 8) + 0.5) * 0x1p-23 - 1.0;
            out[i - start] = (float)(unit * half_width);
        }
    }
}

static uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

#define FEISTEL_ROUNDS 8

// Applies a balanced Feistel network once: a bijection of the numbers of 2 * half bits.
static uint64_t feistel(const uint32_t keys[FEISTEL_ROUNDS], int half, uint64_t x)
{
    uint64_t mask = half == 32 ? UINT32_MAX : ((uint64_t)1 << half) - 1;
    uint64_t left = x >> half, right = x & mask;
    for (int round = 0; round < FEISTEL_ROUNDS; round++) {
        uint64_t next = left ^ (mix_bits(right ^ (uint64_t)keys[round] << 32) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t zr_permute(uint64_t key, uint64_t i, uint64_t n)
{
    assert(i < n);
    int half = 1;
    while (half < 32 && (n - 1) >> (2 * half))
        half++;
    uint32_t keys[FEISTEL_ROUNDS];
    for (int four = 0; four < FEISTEL_ROUNDS / 4; four++) {
        zr_philox random = zr_philox4x32(key, USE_PERMUTATION, (uint64_t)four);
        memcpy(keys + 4 * four, random.v, sizeof random.v);
    }
    // The cycle that i lies on leads back below n, after less than four steps on average.
    do
        i = feistel(keys, half, i);
    while (i >= n);
    return i;
}
