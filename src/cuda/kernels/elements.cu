// Elementwise work: activation functions, sums, conversions, dropout, the embedding, copies.
#include "block_sums.h"
#include "eights.h"
#include "gelu.h"
#include "philox.h"

using namespace zr;

// ---- activation functions ----

// By what gelu with the error function multiplies x: the part of a normal distribution below x.
__device__ __forceinline__ float normal_below(float x) { return erfcf(x * -0.707106781f) / 2; }

__device__ __forceinline__ float gelu_erf_slope(float x)
{
    const float density = fabsf(x) > 14 ? 0 : x * expf(-x * x / 2) * 0.398942280f;
    return normal_below(x) + density;
}

ZR_GLOBAL(gelu, 256)
{
    const bool whole = are_whole(a.pre, a.out);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        float x[8];
        load_some(a.pre, a.type, i, left, whole, x);
        for (int k = 0; k < 8; k++)
            x[k] = x[k] * (a.by ? normal_below(x[k]) : gelu_gate(x[k]));
        store_some(a.out, a.type, i, left, whole, x);
    });
}

ZR_GLOBAL(gelu_slope, 256)
{
    const bool whole = are_whole(a.pre, a.d, a.d_pre);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        float x[8], d[8];
        load_some(a.pre, a.type, i, left, whole, x);
        load_some(a.d, a.type, i, left, whole, d);
        for (int k = 0; k < 8; k++)
            d[k] *= a.by ? gelu_erf_slope(x[k]) : gelu_tanh_slope(x[k]);
        store_some(a.d_pre, a.type, i, left, whole, d);
    });
}

__device__ __forceinline__ float logistic(float x) { return 1 / (1 + expf(-x)); }

ZR_GLOBAL(silu_gate, 256)
{
    const bool whole = are_whole(a.gate, a.up, a.out);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        float gate[8], up[8];
        load_some(a.gate, a.type, i, left, whole, gate);
        load_some(a.up, a.type, i, left, whole, up);
        for (int k = 0; k < 8; k++)
            up[k] *= gate[k] * logistic(gate[k]);
        store_some(a.out, a.type, i, left, whole, up);
    });
}

ZR_GLOBAL(silu_gate_slopes, 256)
{
    const bool whole = are_whole(a.gate, a.up, a.d, a.d_gate, a.d_up);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        float gate[8], up[8], d[8];
        load_some(a.gate, a.type, i, left, whole, gate);
        load_some(a.up, a.type, i, left, whole, up);
        load_some(a.d, a.type, i, left, whole, d);
        for (int k = 0; k < 8; k++) {
            const float g = gate[k], s = logistic(g);
            gate[k] = d[k] * up[k] * s * (1 + g * (1 - s));
            up[k] = d[k] * g * s;
        }
        store_some(a.d_gate, a.type, i, left, whole, gate);
        store_some(a.d_up, a.type, i, left, whole, up);
    });
}

// ---- sums, conversions, dropout ----

ZR_GLOBAL(add, 256)
{
    const bool whole = are_whole(a.x, a.branch, a.out);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        float x[8], branch[8];
        load_some(a.x, a.stream_type, i, left, whole, x);
        load_some(a.branch, a.branch_type, i, left, whole, branch);
        for (int k = 0; k < 8; k++)
            x[k] += branch[k];
        store_some(a.out, a.stream_type, i, left, whole, x);
    });
}

ZR_GLOBAL(convert, 256)
{
    const bool whole = are_whole(a.x, a.out);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        float x[8];
        load_some(a.x, a.x_type, i, left, whole, x);
        store_some(a.out, a.out_type, i, left, whole, x);
    });
}

ZR_GLOBAL(scale, 256)
{
    const bool whole = are_whole(a.x, a.out);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        float x[8];
        load_some(a.x, ZR_TYPE_F32, i, left, whole, x);
        for (int k = 0; k < 8; k++)
            x[k] *= a.by;
        store_some(a.out, a.out_type, i, left, whole, x);
    });
}

ZR_GLOBAL(dropout, 256)
{
    const bool whole = are_whole(a.x, a.out);
    each_eight(a.n, [&](int64_t i, int64_t left) {
        uint32_t words[8];
        float x[8];
        load_some(a.x, a.x_type, i, left, whole, x);
        philox_eight(a.key, (uint64_t)(a.first + i), words);
        for (int k = 0; k < 8; k++)
            x[k] = words[k] >= a.threshold ? x[k] * a.factor : 0;
        store_some(a.out, a.out_type, i, left, whole, x);
    });
}

ZR_GLOBAL(add_bias, 256)
{
    const bool whole = a.width % 8 == 0 && are_whole(a.sum, a.bias, a.out);
    const int64_t at = blockIdx.x * a.width;
    each_eight_of_row(a.width, [&](int64_t j, int64_t left) {
        float x[8], bias[8] = {};
        load_some(a.sum, ZR_TYPE_F32, at + j, left, whole, x);
        if (a.bias)
            load_some(a.bias, a.type, j, left, whole, bias);
        for (int k = 0; k < 8 && a.bias; k++)
            x[k] += bias[k];
        store_some(a.out, a.type, at + j, left, whole, x);
    });
}

// ---- the embedding ----

ZR_GLOBAL(embedding_rows, 256)
{
    const bool whole = a.width % 8 == 0 && are_whole(a.tokens, a.positions, a.out);
    const int64_t row = blockIdx.x, position = row % a.seq, id = a.ids[row];
    if (id < 0)
        return;
    each_eight_of_row(a.width, [&](int64_t j, int64_t left) {
        float x[8], more[8] = {};
        load_some(a.tokens, a.type, id * a.width + j, left, whole, x);
        if (a.positions)
            load_some(a.positions, a.type, position * a.width + j, left, whole, more);
        for (int k = 0; k < 8 && a.positions; k++)
            x[k] += more[k];
        store_some(a.out, a.stream_type, row * a.width + j, left, whole, x);
    });
}

ZR_GLOBAL(add_positions, 256)
{
    const bool whole = a.width % 8 == 0 && are_whole(a.positions, a.x);
    const int64_t row = blockIdx.x, position = (a.first + row) % a.seq;
    each_eight_of_row(a.width, [&](int64_t j, int64_t left) {
        float x[8], more[8] = {};
        load_some(a.x, ZR_TYPE_F32, row * a.width + j, left, whole, x);
        if (a.positions)
            load_some(a.positions, a.type, position * a.width + j, left, whole, more);
        for (int k = 0; k < 8; k++)
            x[k] = x[k] + 0.0f;
        for (int k = 0; k < 8 && a.positions; k++)
            x[k] += more[k];
        store_some(a.x, ZR_TYPE_F32, row * a.width + j, left, whole, x);
    });
}

// Adds eight columns of up to four rows, in order: all are loaded before the first is added.
template <class F>
__device__ __forceinline__ void add_four(const void *d, int type, int count, F place, int64_t left,
                                         bool whole, float sum[8])
{
    float row[4][8];
    for (int r = 0; r < 4; r++)
        if (r < count)
            load_some(d, type, place(r), left, whole, row[r]);
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 8 && r < count; k++)
            sum[k] += row[r][k];
}

// Whether the id of a row is that of an earlier one; a repeated id is most often a near one.
__device__ __forceinline__ bool stands_before(const int32_t *ids, int64_t row)
{
    const int32_t id = ids[row];
    const int64_t threads = blockDim.x;
    for (int64_t end = row; end > 0; end -= 4 * threads) {
        bool found = false;
        for (int k = 0; k < 4; k++) {
            const int64_t i = end - 1 - threadIdx.x - k * threads;
            found |= i >= 0 && ids[i] == id;
        }
        if (block_any(found))
            return true;
    }
    return false;
}

ZR_GLOBAL(token_sums, 256)
{
    __shared__ int32_t same[256]; // rows of this id among those of a round, from its first on
    const bool whole = a.width % 8 == 0 && are_whole(a.d, a.d_tokens);
    const int64_t row = blockIdx.x, id = a.ids[row],
                  j = 8 * ((int64_t)blockIdx.y * blockDim.x + threadIdx.x), left = a.width - j;
    float sum[8];
    if (id < 0 || stands_before(a.ids, row))
        return;
    load_some(a.d_tokens, ZR_TYPE_F32, id * a.width + j, left, whole, sum);
    for (int64_t first = row; first < a.rows; first += blockDim.x) {
        const int64_t mine = first + threadIdx.x;
        const int count = block_list(mine < a.rows && a.ids[mine] == id, same);
        for (int at = 0; at < count; at += 4) {
            const auto place = [&](int r) { return (first + same[at + r]) * a.width + j; };
            add_four(a.d, a.type, count - at, place, left, whole, sum);
        }
    }
    store_some(a.d_tokens, ZR_TYPE_F32, id * a.width + j, left, whole, sum);
}

ZR_GLOBAL(position_sums, 256)
{
    const bool whole = a.width % 8 == 0 && are_whole(a.d, a.d_positions);
    const int64_t position = blockIdx.x, rows = (a.rows - position + a.seq - 1) / a.seq,
                  j = 8 * ((int64_t)blockIdx.y * blockDim.x + threadIdx.x), left = a.width - j;
    float sum[8];
    load_some(a.d_positions, ZR_TYPE_F32, position * a.width + j, left, whole, sum);
    for (int64_t at = 0; at < rows; at += 4) {
        const auto place = [&](int r) { return (position + (at + r) * a.seq) * a.width + j; };
        const int count = rows - at < 4 ? (int)(rows - at) : 4;
        add_four(a.d, a.type, count, place, left, whole, sum);
    }
    store_some(a.d_positions, ZR_TYPE_F32, position * a.width + j, left, whole, sum);
}

// ---- copies ----

template <class T> __device__ __forceinline__ void copy_units(const zr_copy_rows_args &a)
{
    for (int64_t i = thread_number(); i < a.rows * a.units; i += thread_count()) {
        const int64_t row = i / a.units, at = i % a.units;
        ((T *)((char *)a.to + row * a.to_stride))[at] =
            ((const T *)((const char *)a.from + row * a.from_stride))[at];
    }
}

ZR_GLOBAL(copy_rows, 256)
{
    if (a.unit_bytes == 16)
        copy_units<uint4>(a);
    else if (a.unit_bytes == 4)
        copy_units<uint32_t>(a);
    else
        copy_units<uint8_t>(a);
}
