// GELU by the hyperbolic tangent.
#ifndef ZR_CUDA_GELU_H
#define ZR_CUDA_GELU_H

#include "kernel.h"

namespace zr {

// By what gelu (with tanh) multiplies x, 1 / (1 + e^-2u): without the cancellation in 1 + tanh(u).
__device__ __forceinline__ float gelu_gate(float x)
{
    const float slope = 0.797884561f, cubic = 0.044715f;
    return 1 / (1 + expf(-2 * slope * (x + cubic * x * x * x)));
}

__device__ __forceinline__ float gelu_tanh_slope(float x)
{
    const float slope = 0.797884561f, cubic = 0.044715f, gate = gelu_gate(x);
    // Far out, where the gate is 0 or 1, its own slope is 0.
    const float bent =
        fabsf(x) > 14 ? 0 : x * 2 * gate * (1 - gate) * slope * (1 + 3 * cubic * x * x);
    return gate + bent;
}

} // namespace zr

#endif
