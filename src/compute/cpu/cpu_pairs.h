// Pairs of bf16 in a word of 32 bits.
//
// With bf16's instructions the panels of bf16 operands hold pairs: a word is two elements that
// follow each other in the direction of a sum, and one instruction multiplies both and adds them.
// Where the number of elements is odd, the second one of the last pair is zero.
#ifndef ZR_COMPUTE_CPU_PAIRS_H
#define ZR_COMPUTE_CPU_PAIRS_H

#include "compute/cpu/cpu_storage.h"

// ZR_CPU_PAIRS is defined by tests alone: it computes pairs, with the same bits, where there is no
// such instruction.
#if defined(__AVX512BF16__) || defined(ZR_CPU_PAIRS)
#define HAS_PAIRS 1
#else
#define HAS_PAIRS 0
#endif

// Returns the words of `count` elements.
static inline int64_t words_of(bool pairs, int64_t count)
{
    return pairs ? (count + 1) / 2 : count;
}

// sum + a * b, or of pairs both products, the second element's first.
INLINE vf vf_add_product(bool pairs, vf sum, vf a, vf b)
{
#if defined(__AVX512BF16__)
    if (pairs)
        return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#elif defined(ZR_CPU_PAIRS)
    const vw upper = (vw){0} + 0xffff0000;
    if (pairs) {
        sum = vf_multiply_add((vf)((vw)a & upper), (vf)((vw)b & upper), sum);
        return vf_multiply_add((vf)((vw)a << 16), (vf)((vw)b << 16), sum);
    }
#endif
    return vf_multiply_add(a, b, sum);
}

// Returns words whose lower halves are those of x and upper halves those of y, both bf16 widened.
INLINE vf pairs_of(vf x, vf y) { return (vf)((vw)x >> 16 | ((vw)y & 0xffff0000)); }

// Rounds factors and results of pairs; the instruction makes subnormals zero.
INLINE vh vf_to_factor(vf v)
{
#if defined(__AVX512BF16__)
    return (vh)_mm512_cvtneps_pbh(v);
#else
    return vf_to_bf16(v);
#endif
}

#endif
