// GELU by the hyperbolic tangent, and its slope. Both are written with the logistic function of
// twice the tangent's argument, which is exact to a few units also where the tangent is near -1.
#ifndef ZR_CUDA_GELU_H
#define ZR_CUDA_GELU_H

#include "kernel.h"

namespace zr {

// 1 + tanh(u) is twice the logistic function of 2u.
__device__ __forceinline__ float gelu_logistic(float x)
{
    const float u = 0.79788456f * (x + 0.044715f * x * x * x);
    return 1.0f / (1.0f + expf(-2.0f * u));
}

__device__ __forceinline__ float gelu_tanh(float x) { return x * gelu_logistic(x); }

__device__ __forceinline__ float gelu_tanh_slope(float x)
{
    if (fabsf(x) > 16.0f) // where fp32 has nothing but the ends left
        return x > 0 ? 1.0f : 0.0f;
    const float s = gelu_logistic(x);
    return s + x * s * (1.0f - s) * (2.0f * 0.79788456f) * (1.0f + 0.134145f * x * x);
}

} // namespace zr

#endif
