// Included before the first line of a kernel: AVX-512 as SIMDe computes it, for kernels at 16 lanes
// on processors without such registers.
#ifndef TESTS_COMPUTE_SIMDE_LANES_H
#define TESTS_COMPUTE_SIMDE_LANES_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <stdint.h>

#define LANES 16

// What SIMDe 0.7.4 lacks, and what it computes through memory (kernels then compile for a minute).
#undef _mm512_shuffle_f32x4 // compilers have these two as macros
#undef _mm512_cvtps_ph
typedef uint16_t sixteen_halves __attribute__((vector_size(32)));
typedef uint8_t sixteen_bytes __attribute__((vector_size(16)));
typedef int8_t sixteen_signed __attribute__((vector_size(16)));
typedef int32_t sixteen_integers __attribute__((vector_size(64)));
typedef uint32_t sixteen_words __attribute__((vector_size(64)));
#define QUARTER(i) 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3
#define _mm512_shuffle_f32x4(a, b, i)                                                              \
    __builtin_shufflevector(a, b, QUARTER((i)&3), QUARTER((i) >> 2 & 3),                           \
                            QUARTER(4 + ((i) >> 4 & 3)), QUARTER(4 + ((i) >> 6 & 3)))
#define LOWER_HALF(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define UPPER_HALF(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#define _mm512_cvtepu16_epi32(h)                                                                   \
    ((__m512i) __builtin_convertvector((sixteen_halves)(h), sixteen_words))
#define _mm512_cvtepi32_epi16(w)                                                                   \
    ((__m256i) __builtin_convertvector((sixteen_words)(w), sixteen_halves))
#define _mm512_cvtps_pd(v) __builtin_convertvector(v, __m512d)
#define _mm512_cvtpd_ps(v) __builtin_convertvector(v, __m256)
#define _mm512_cvtepi8_epi32(b)                                                                    \
    ((__m512i) __builtin_convertvector((sixteen_signed)(b), sixteen_integers))
#define _mm512_cvtepi32_epi8(w)                                                                    \
    ((__m128i) __builtin_convertvector((sixteen_words)(w), sixteen_bytes))
#define _mm512_cvtps_epi32(v)                                                                      \
    ((__m512i)__builtin_shufflevector((__v8si)_mm256_cvtps_epi32(LOWER_HALF(v)),                   \
                                      (__v8si)_mm256_cvtps_epi32(UPPER_HALF(v)), QUARTER(0),       \
                                      QUARTER(1), QUARTER(2), QUARTER(3)))
#define _mm512_cvtph_ps(h)                                                                         \
    __builtin_shufflevector(_mm256_cvtph_ps(_mm256_castsi256_si128(h)),                            \
                            _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)), 0, 1, 2, 3, 4, 5, 6,  \
                            7, 8, 9, 10, 11, 12, 13, 14, 15)
#define _mm512_cvtps_ph(v, rounding)                                                               \
    _mm256_set_m128i(_mm256_cvtps_ph(UPPER_HALF(v), rounding),                                     \
                     _mm256_cvtps_ph(LOWER_HALF(v), rounding))

#endif
