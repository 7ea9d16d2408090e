// GELU by the hyperbolic tangent.
#ifndef ZR_CUDA_GELU_H
#define ZR_CUDA_GELU_H

#include "kernel.h"

namespace zr {

// Of gelu (with tanh): e^-2u. It multiplies x by 1 / (1 + e^-2u), which has no cancellation as
// 1 + tanh(u) has.
__device__ __forceinline__ float gelu_exponential(float x)
{
    return expf(-2 * 0.797884561f * (x + 0.044715f * x * x * x));
}

__device__ __forceinline__ float gelu_gate(float x) { return 1 / (1 + gelu_exponential(x)); }

__device__ __forceinline__ float gelu_tanh_slope(float x)
{
    const float e = gelu_exponential(x), gate = 1 / (1 + e), rest = e * gate; // 1 - gate
    const float u_slope = 0.797884561f * (1 + 3 * 0.044715f * x * x);
    // Far out the gate is 0 or 1, and does not change.
    return gate + (fabsf(x) > 10 ? 0 : x * 2 * gate * rest * u_slope);
}

} // namespace zr

#endif
