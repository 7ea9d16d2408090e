// Loops over a block without branches, so that any compiler can vectorise them. The coefficients of
// log, sin and cos are those of fdlibm (e_log.c, k_sin.c, k_cos.c).
#include "base/random.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off", "no-trapping-math", "no-math-errno")
#endif

INLINE double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE uint64_t to_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Converts n < 2^52 exactly: n is the mantissa of 2^52 + n.
INLINE double from_integer(uint64_t n) { return from_bits(n | 0x4330000000000000u) - 0x1p52; }

// Maps the upper 52 of 64 bits into (0, 1), both ends excluded; exact.
INLINE double open_unit(uint64_t bits) { return (from_integer(bits >> 12) + 0.5) * 0x1p-52; }

// For x in (0, 1), x = 2^e * m with m in [sqrt(1/2), sqrt(2)); log m = 2s + s^3 P(s^2) with s = (m
// - 1) / (m + 1).
INLINE double natural_log(double x)
{
    uint64_t bits = to_bits(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double exponent = from_integer(bits >> 52) - 1023;
    double m = from_bits((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double s = (m - 1) / (m + 1), z = s * s;
    double p = 1.479819860511658591e-01;
    p = p * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    return exponent * 0x1.62e42fefa39efp-1 + (s * z * p + 2 * s);
}

// Computes cos and sin of 2 pi u from the nearest quarter turn and the angle from there.
INLINE void cos_sin_turn(double u, double *cosine, double *sine)
{
    double quarters = (4 * u + 0x1.8p52) - 0x1.8p52;
    double a = (u - 0.25 * quarters) * 0x1.921fb54442d18p+2, z = a * a;
    double c = -1.13596475577881948265e-11;
    c = c * z + 2.08757232129817482790e-09;
    c = c * z - 2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z - 1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    c = 1 - (0.5 * z - z * z * c);
    double s = 1.58969099521155010221e-10;
    s = s * z - 2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z - 1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    s = s * z - 1.66666666666666324348e-01;
    s = a + a * z * s;
    bool odd = quarters == 1 || quarters == 3;
    double x = odd ? s : c, y = odd ? c : s;
    *cosine = quarters == 1 || quarters == 2 ? -x : x;
    *sine = quarters == 2 || quarters == 3 ? -y : y;
}

INLINE void block(const uint64_t radius[ZR_NORMAL_BLOCK], const uint64_t angle[ZR_NORMAL_BLOCK],
                  double out[2 * ZR_NORMAL_BLOCK])
{
    double length[ZR_NORMAL_BLOCK], cosine[ZR_NORMAL_BLOCK], sine[ZR_NORMAL_BLOCK];
    for (int i = 0; i < ZR_NORMAL_BLOCK; i++)
        length[i] = sqrt(-2.0 * natural_log(open_unit(radius[i])));
    for (int i = 0; i < ZR_NORMAL_BLOCK; i++)
        cos_sin_turn(open_unit(angle[i]), &cosine[i], &sine[i]);
    for (int i = 0; i < ZR_NORMAL_BLOCK; i++) {
        out[2 * i] = length[i] * cosine[i];
        out[2 * i + 1] = length[i] * sine[i];
    }
}

#if defined(__x86_64__)
// The same operations on wider vectors. The bits are the same, because nothing is fused into
// multiply-adds.
__attribute__((target("avx2"))) static void block_avx2(const uint64_t radius[ZR_NORMAL_BLOCK],
                                                       const uint64_t angle[ZR_NORMAL_BLOCK],
                                                       double out[2 * ZR_NORMAL_BLOCK])
{
    block(radius, angle, out);
}
#endif

void zr_normal_block(const uint64_t radius[ZR_NORMAL_BLOCK], const uint64_t angle[ZR_NORMAL_BLOCK],
                     double out[2 * ZR_NORMAL_BLOCK])
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        block_avx2(radius, angle, out);
        return;
    }
#endif
    block(radius, angle, out);
}
