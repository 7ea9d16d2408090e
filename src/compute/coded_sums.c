// Codes in blocks (base/blocks.h) become numbers, as they arrive or are summed, and sums become
// codes, with the bits of compute/block_ops.h: products of codes and scales are exact in fp32.
#include "base/blocks.h"
#include "base/dtype.h"
#include "base/errors.h"
#include "compute/tree_sum.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PART 1024               // elements that are widened at a time
#define PARALLEL_FROM (1 << 16) // elements

static void widen_portable(int bits, const void *encoded, int64_t first, int64_t count, float *out)
{
    const char *block = (const char *)encoded + first / ZR_BLOCK * zr_block_stride(bits);
    for (; count > 0; count -= ZR_BLOCK, block += zr_block_stride(bits), out += ZR_BLOCK) {
        const int8_t *codes = (const int8_t *)block + ZR_BLOCK_SCALE_BYTES;
        float scale;
        memcpy(&scale, block, sizeof scale);
        if (bits == 8)
            for (int i = 0; i < ZR_BLOCK; i++)
                out[i] = (float)codes[i] * scale;
        else
            for (int i = 0; i < ZR_BLOCK / 2; i++) {
                out[2 * i] = (float)((int8_t)((uint8_t)codes[i] << 4) >> 4) * scale;
                out[2 * i + 1] = (float)(codes[i] >> 4) * scale;
            }
    }
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline void put_eight(float *out, __m128i codes, __m256 scale)
{
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)), scale));
}

// Returns the 16 codes of 8 bytes, in their order.
AVX2 static inline __m128i codes_of_pairs(__m128i pairs)
{
    const __m128i half = _mm_set1_epi8(15), sign = _mm_set1_epi8(8);
    __m128i low = _mm_and_si128(pairs, half), high = _mm_and_si128(_mm_srli_epi16(pairs, 4), half);
    return _mm_sub_epi8(_mm_xor_si128(_mm_unpacklo_epi8(low, high), sign), sign);
}

AVX2 static void widen_avx2(int bits, const void *encoded, int64_t first, int64_t count, float *out)
{
    const char *block = (const char *)encoded + first / ZR_BLOCK * zr_block_stride(bits);
    for (; count > 0; count -= ZR_BLOCK, block += zr_block_stride(bits), out += ZR_BLOCK) {
        const char *codes = block + ZR_BLOCK_SCALE_BYTES;
        float of_block;
        memcpy(&of_block, block, sizeof of_block);
        const __m256 scale = _mm256_set1_ps(of_block);
        for (int i = 0; i < ZR_BLOCK; i += 16) {
            __m128i some = bits == 8 ? _mm_loadu_si128((const __m128i *)(const void *)(codes + i))
                                     : codes_of_pairs(_mm_loadl_epi64(
                                           (const __m128i *)(const void *)(codes + i / 2)));
            put_eight(out + i, some, scale);
            put_eight(out + i + 8, _mm_srli_si128(some, 8), scale);
        }
    }
}
#endif

void zr_widen_block_range(int bits, const void *encoded, int64_t first, int64_t count, float *out)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        widen_avx2(bits, encoded, first, count, out);
        return;
    }
#endif
    widen_portable(bits, encoded, first, count, out);
}

// Writes the nearest whole numbers, ties to even, of a block's quotients; all fit.
static void nearest_codes(const float *x, float inverse, int8_t *codes)
{
#if defined(__SSE2__)
    const __m128 by = _mm_set1_ps(inverse);
    for (int i = 0; i < ZR_BLOCK; i += 16) {
        __m128i fours[4];
        for (int k = 0; k < 4; k++)
            fours[k] = _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(x + i + 4 * k), by));
        _mm_storeu_si128((__m128i *)(void *)(codes + i),
                         _mm_packs_epi16(_mm_packs_epi32(fours[0], fours[1]),
                                         _mm_packs_epi32(fours[2], fours[3])));
    }
#else
    for (int i = 0; i < ZR_BLOCK; i++) {
        float quotient = x[i] * inverse;
        codes[i] = (int8_t)nearbyintf(quotient);
    }
#endif
}

static uint32_t largest_magnitude(const float *x)
{
    uint32_t largest = 0, bits[ZR_BLOCK];
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < ZR_BLOCK; i++)
        largest = ZR_MAX(largest, bits[i] & 0x7fffffff);
    return largest;
}

static void narrow_block(int bits, const float *x, uint8_t *out)
{
    int8_t codes[ZR_BLOCK] = {0};
    const float scale = zr_block_scale(bits, largest_magnitude(x));
    if (!isnan(scale))
        nearest_codes(x, zr_block_reciprocal(scale), codes);
    memcpy(out, &scale, sizeof scale);
    out += ZR_BLOCK_SCALE_BYTES;
    if (bits == 8)
        memcpy(out, codes, sizeof codes);
    else
        for (int i = 0; i < ZR_BLOCK / 2; i++)
            out[i] = (uint8_t)((codes[2 * i] & 15) | (uint8_t)codes[2 * i + 1] << 4);
}

void zr_narrow_blocks(int bits, const float *x, int64_t count, void *out)
{
    uint8_t *block = out;
    for (int64_t i = 0; i < count; i += ZR_BLOCK, block += zr_block_stride(bits))
        narrow_block(bits, x + i, block);
}

static void widen_part(int bits, const void *encoded, int64_t first, int64_t count,
                       zero_dtype dtype, char *out)
{
    float wide[PART];
    zr_widen_block_range(bits, encoded, first, count, wide);
    zr_narrow(dtype, wide, count, out + first * (int64_t)zero_dtype_bytes(dtype));
}

// Returns the part before which all parts from `first` on may be written before any of them is
// read: they end before the codes that are not read yet.
static int64_t parts_end(int bits, const char *codes, int64_t first, int64_t parts,
                         int64_t part_bytes, const char *out)
{
    const char *unread = codes + zr_block_bytes(bits, first * PART);
    bool apart = unread <= out || unread >= out + parts * part_bytes;
    return apart ? parts : ZR_MIN(ZR_MAX((unread - out) / part_bytes, first + 1), parts);
}

void zr_widen_blocks(int bits, const void *encoded, int64_t elems, zero_dtype dtype, void *out,
                     int threads)
{
    int64_t parts = (elems + PART - 1) / PART, part_bytes = PART * (int64_t)zero_dtype_bytes(dtype);
    for (int64_t first = 0, last; first < parts; first = last) {
        last = parts_end(bits, encoded, first, parts, part_bytes, out);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)                                                          \
    num_threads(ZR_MAX(threads, 1)) if ((last - first) * PART >= PARALLEL_FROM)
#endif
        for (int64_t p = first; p < last; p++)
            widen_part(bits, encoded, p * PART, ZR_MIN(PART, elems - p * PART), dtype, out);
    }
}
