// Counter-based randomness: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011.
//
// Invariant: every value is a function of (key, index) alone, so that any rank can compute any
// range of a vector. The high half of Philox's counter separates the uses of one key.
#include "base/random.h"
#include "base/normal.h"

#include <string.h>
#include <xxhash.h>

enum { USE_NORMAL, USE_UNIFORM, USE_PERMUTATION };

static void philox_round(uint32_t v[4], uint32_t key0, uint32_t key1)
{
    uint64_t product0 = (uint64_t)0xd2511f53u * v[0];
    uint64_t product1 = (uint64_t)0xcd9e8d57u * v[2];
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
    for (int round = 0; round < 10; round++) {
        philox_round(out.v, key0, key1);
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return out;
}

uint64_t zr_hash_bytes(const void *data, size_t length, uint64_t seed)
{
    return XXH64(data, length, seed);
}

uint64_t zr_hash_text(const char *text) { return zr_hash_bytes(text, strlen(text), 0); }

void zr_random_normal(uint64_t key, int64_t start, int64_t count, float deviation, float *out)
{
    int64_t end = start + count;
    for (int64_t pair = start / 2; 2 * pair < end; pair += ZR_NORMAL_BLOCK) {
        uint64_t radius[ZR_NORMAL_BLOCK], angle[ZR_NORMAL_BLOCK];
        for (int i = 0; i < ZR_NORMAL_BLOCK; i++) {
            zr_philox random = zr_philox4x32(key, USE_NORMAL, (uint64_t)(pair + i));
            radius[i] = (uint64_t)random.v[0] << 32 | random.v[1];
            angle[i] = (uint64_t)random.v[2] << 32 | random.v[3];
        }
        double normal[2 * ZR_NORMAL_BLOCK];
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

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

#define FEISTEL_ROUNDS 8

// Goes once through a balanced Feistel network, which is a bijection of the numbers of 2 x half
// bits.
static uint64_t feistel(const uint32_t keys[FEISTEL_ROUNDS], int half, uint64_t x)
{
    uint64_t mask = half == 32 ? UINT32_MAX : ((uint64_t)1 << half) - 1;
    uint64_t left = x >> half, right = x & mask;
    for (int round = 0; round < FEISTEL_ROUNDS; round++) {
        uint64_t next = left ^ (mix(right ^ (uint64_t)keys[round] << 32) & mask);
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
