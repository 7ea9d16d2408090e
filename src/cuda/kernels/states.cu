// Optimizer updates. Compiled without fused multiply-adds, as compute/state_blocks.h asks for: the
// bits of updates of eight-bit states are those of the host, and no element's bits depend on where
// a range is cut.
#include "eights.h"
#include "spans.h"

using namespace zr;

namespace {

// ---- element by element ----

// Updates the states of an element and returns its new weight, or LAMB's direction. Multiplies and
// additions are fused where compute/cpu/cpu_optimizer.c fuses them on processors with such
// instructions, so that states have the same bits on the card and on its host.
template <int kind>
__device__ __forceinline__ float updated(const zr_update_args &a, float g, float p, float &s0,
                                         float &s1)
{
    if (kind == ZR_UPDATES_LION) {
        g *= a.scale;
        const float c = __fmaf_rn(s0, a.keep0, g * a.take0);
        const float sign = c > 0 ? 1 : c < 0 ? -1 : c; // zero stays zero, and NaN stays NaN
        s0 = __fmaf_rn(s0, a.keep1, g * a.take1);
        return __fmaf_rn(p, a.keep_p, -(sign * a.step));
    }
    if (kind == ZR_UPDATES_LAMB) {
        g *= a.scale;
        s0 = __fmaf_rn(s0, a.keep0, g * a.take0);
        s1 = __fmaf_rn(s1, a.keep1, g * g * a.take1);
        return __fmaf_rn(p, a.weight_decay, s0 * a.step / __fmaf_rn(sqrtf(s1), a.root, a.epsilon));
    }
    g = __fmaf_rn(g, a.scale, p * a.weight_decay);
    if (kind == ZR_UPDATES_ADAM) {
        s0 = __fmaf_rn(s0, a.keep0, g * a.take0);
        s1 = __fmaf_rn(s1, a.keep1, g * g * a.take1);
        return __fmaf_rn(p, a.keep_p, -(a.step * s0 / __fmaf_rn(sqrtf(s1), a.root, a.epsilon)));
    }
    if (kind == ZR_UPDATES_ADAGRAD) {
        s0 = __fmaf_rn(g, g, s0);
        return p - g * a.step / (sqrtf(s0) + a.epsilon);
    }
    if (a.state0) { // SGD
        s0 = a.first ? g : __fmaf_rn(s0, a.keep0, g * a.take0);
        g = a.nesterov ? __fmaf_rn(s0, a.keep0, g) : s0;
    }
    return __fmaf_rn(-g, a.step, p);
}

template <int kind> struct updating {
    const zr_update_args &a;

    template <int width> __device__ __forceinline__ void at(int64_t i) const
    {
        constexpr bool two = kind == ZR_UPDATES_ADAM || kind == ZR_UPDATES_LAMB;
        raw_eight raw_g = load_part<width>(a.gradient, a.gradient_type, i), raw0 = {}, raw1 = {};
        const raw_eight raw_p = load_part<width>(a.master, ZR_TYPE_F32, i);
        if (a.state0)
            raw0 = load_part<width>(a.state0, a.states_type, i);
        if (two)
            raw1 = load_part<width>(a.state1, a.states_type, i);
        float g[width], p[width], s0[width], s1[width];
        widen_part<width>(raw_g, a.gradient_type, g);
        widen_part<width>(raw_p, ZR_TYPE_F32, p);
        widen_part<width>(raw0, a.states_type, s0);
        widen_part<width>(raw1, a.states_type, s1);
        for (int k = 0; k < width; k++)
            p[k] = updated<kind>(a, g[k], p[k], s0[k], s1[k]);
        store_part<width>(a.out, ZR_TYPE_F32, i, p);
        if (a.state0)
            store_part<width>(a.state0, a.states_type, i, s0);
        if (two)
            store_part<width>(a.state1, a.states_type, i, s1);
        if (a.parameters)
            store_part<width>(a.parameters, a.parameters_type, i, p);
    }
};

template <int kind> __device__ __forceinline__ void update_all(const zr_update_args &a)
{
    const uint32_t aligned =
        aligned_elements(a.master, ZR_TYPE_F32) & aligned_elements(a.out, ZR_TYPE_F32) &
        aligned_elements(a.state0, a.states_type) & aligned_elements(a.state1, a.states_type) &
        aligned_elements(a.gradient, a.gradient_type) &
        aligned_elements(a.parameters, a.parameters_type);
    walk_span(span_of(aligned, a.n), updating<kind>{a});
}

struct subtracting {
    const zr_subtract_scaled_args &a;

    template <int width> __device__ __forceinline__ void at(int64_t i) const
    {
        float p[width], by[width];
        widen_part<width>(load_part<width>(a.master, ZR_TYPE_F32, i), ZR_TYPE_F32, p);
        widen_part<width>(load_part<width>(a.direction, ZR_TYPE_F32, i), ZR_TYPE_F32, by);
        for (int k = 0; k < width; k++)
            p[k] = __fmaf_rn(-a.step, by[k], p[k]);
        store_part<width>(a.master, ZR_TYPE_F32, i, p);
        if (a.parameters)
            store_part<width>(a.parameters, a.parameters_type, i, p);
    }
};

struct averaging {
    const zr_average_args &a;

    template <int width> __device__ __forceinline__ void at(int64_t i) const
    {
        float p[width], e[width];
        widen_part<width>(load_part<width>(a.master, ZR_TYPE_F32, i), ZR_TYPE_F32, p);
        widen_part<width>(load_part<width>(a.average, ZR_TYPE_F32, i), ZR_TYPE_F32, e);
        for (int k = 0; k < width; k++)
            e[k] = __fmaf_rn(p[k] - e[k], a.take, e[k]);
        store_part<width>(a.average, ZR_TYPE_F32, i, e);
    }
};

// ---- states of eight bits ----

constexpr int block_elements = ZR_STATE_ELEMENTS, codes = ZR_STATE_CODES;

// What a block of threads has of a map. border_at(c) is half way from code c to the next.
struct coder {
    float map[codes], border[codes + codes / 32];
};

// Where a border lies: each 32 of them begin in another bank of shared memory, because a search
// looks at borders that are a power of two apart.
__device__ __forceinline__ int border_at(int code) { return code + code / 32; }

__device__ __forceinline__ void fill_coder(coder &to, const float *map)
{
    for (int c = threadIdx.x; c < codes; c += blockDim.x) {
        to.map[c] = map[c];
        to.border[border_at(c)] = 0.5f * (map[c] + map[c < codes - 1 ? c + 1 : c]);
    }
}

// The code of a number is the number of borders that lie below it (base/dynamic_map.c): the least
// code where it is below all values of the map, or no number. The last border is never looked at.
__device__ __forceinline__ uint32_t code_of(const coder &by, float value)
{
    int code = 0;
#pragma unroll
    for (int step = codes / 2; step > 0; step /= 2)
        code += by.border[border_at(code + step - 1)] < value ? step : 0;
    return code;
}

// Encodes eight of a block's elements, times `inverse`.
__device__ __forceinline__ void encode(const coder &by, const float values[8], float inverse,
                                       uint32_t out[8])
{
    for (int k = 0; k < 8; k++)
        out[k] = code_of(by, values[k] * inverse);
}

// The largest magnitude that a warp's lanes have; numbers that are none do not count.
__device__ __forceinline__ float largest_of(const float values[8])
{
    float largest = 0;
    for (int k = 0; k < 8; k++)
        largest = fabsf(values[k]) > largest ? fabsf(values[k]) : largest;
    for (int with = 16; with > 0; with /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, largest, with);
        largest = other > largest ? other : largest;
    }
    return largest;
}

__device__ __forceinline__ float inverse_of(float scale)
{
    return 1 / (scale > 1e-38f ? scale : 1e-38f);
}

__device__ __forceinline__ float updated_in_blocks(const zr_update_blocks_args &a, float g, float p,
                                                   float &m, float &v)
{
    g = g * a.scale + p * a.weight_decay;
    m = m * a.keep0 + g * a.take0;
    v = v * a.keep1 + g * g * a.take1;
    return p * a.keep_p - a.step * m / (sqrtf(v) * a.root + a.epsilon);
}

// Eight codes in two words, the first in the low byte.
__device__ __forceinline__ void load_codes(const uint8_t *from, bool aligned, int left,
                                           uint32_t out[8])
{
    const uint2 two = aligned ? *(const uint2 *)from : uint2{0, 0};
    for (int k = 0; k < 8; k++)
        out[k] = aligned ? (k < 4 ? two.x : two.y) >> 8 * (k % 4) & 0xff : k < left ? from[k] : 0;
}

__device__ __forceinline__ void store_codes(uint8_t *to, bool aligned, int left,
                                            const uint32_t in[8])
{
    if (aligned)
        *(uint2 *)to = uint2{in[0] | in[1] << 8 | in[2] << 16 | in[3] << 24,
                             in[4] | in[5] << 8 | in[6] << 16 | in[7] << 24};
    for (int k = 0; k < 8 && !aligned; k++)
        if (k < left)
            to[k] = (uint8_t)in[k];
}

// A lane's eight elements of a block, from i on. What lies beyond the end is 0, and stays so.
__device__ __forceinline__ void update_lane(const zr_update_blocks_args &a, const coder &first,
                                            const coder &second, bool aligned, int64_t i)
{
    const int64_t block = i / block_elements, rest = a.n - i;
    const int left = rest < 0 ? 0 : rest < 8 ? (int)rest : 8;
    float p[8], g[8], m[8], v[8];
    uint32_t codes0[8], codes1[8];
    aligned = aligned && left == 8;
    load_codes(a.codes0 + i, aligned, left, codes0);
    load_codes(a.codes1 + i, aligned, left, codes1);
    load_some(a.gradient, a.gradient_type, i, left, aligned, g);
    load_some(a.master, ZR_TYPE_F32, i, left, aligned, p);
    const float scale0 = a.scales0[block], scale1 = a.scales1[block];
    for (int k = 0; k < 8; k++) {
        m[k] = k < left ? first.map[codes0[k]] * scale0 : 0;
        v[k] = k < left ? second.map[codes1[k]] * scale1 : 0;
        if (k < left)
            p[k] = updated_in_blocks(a, g[k], p[k], m[k], v[k]);
    }
    store_some(a.master, ZR_TYPE_F32, i, left, aligned, p);
    if (a.parameters)
        store_some(a.parameters, a.parameters_type, i, left, aligned, p);
    const float now0 = largest_of(m), now1 = largest_of(v); // after all lanes have read the scales
    encode(first, m, inverse_of(now0), codes0);
    encode(second, v, inverse_of(now1), codes1);
    store_codes(a.codes0 + i, aligned, left, codes0);
    store_codes(a.codes1 + i, aligned, left, codes1);
    if (i % block_elements == 0) {
        a.scales0[block] = now0;
        a.scales1[block] = now1;
    }
}

} // namespace

ZR_GLOBAL(update, 256)
{
    switch (a.kind) {
    case ZR_UPDATES_ADAM: return update_all<ZR_UPDATES_ADAM>(a);
    case ZR_UPDATES_SGD: return update_all<ZR_UPDATES_SGD>(a);
    case ZR_UPDATES_ADAGRAD: return update_all<ZR_UPDATES_ADAGRAD>(a);
    case ZR_UPDATES_LION: return update_all<ZR_UPDATES_LION>(a);
    default: return update_all<ZR_UPDATES_LAMB>(a);
    }
}

// A warp has a block of the states, eight elements a lane.
ZR_GLOBAL(update_blocks, 256)
{
    __shared__ coder first, second;
    const int64_t blocks = (a.n + block_elements - 1) / block_elements;
    const bool aligned = are_whole(a.master, a.gradient, a.parameters) &&
                         ((uintptr_t)a.codes0 | (uintptr_t)a.codes1) % 8 == 0;
    fill_coder(first, a.signed_map);
    fill_coder(second, a.unsigned_map);
    __syncthreads();
    for (int64_t k = thread_number() / 32; k < blocks; k += thread_count() / 32)
        update_lane(a, first, second, aligned, k * block_elements + threadIdx.x % 32 * 8);
}

ZR_GLOBAL(subtract_scaled, 256)
{
    const uint32_t aligned = aligned_elements(a.master, ZR_TYPE_F32) &
                             aligned_elements(a.direction, ZR_TYPE_F32) &
                             aligned_elements(a.parameters, a.parameters_type);
    walk_span(span_of(aligned, a.n), subtracting{a});
}

ZR_GLOBAL(average, 256)
{
    const uint32_t aligned =
        aligned_elements(a.master, ZR_TYPE_F32) & aligned_elements(a.average, ZR_TYPE_F32);
    walk_span(span_of(aligned, a.n), averaging{a});
}
