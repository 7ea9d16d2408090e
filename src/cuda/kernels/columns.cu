// Sums over columns, and the factors and squares of adapters with magnitudes.
//
// A sum over columns is one over the warps of a block, each of which takes every so many rows of 32
// columns. Tall matrices are cut into parts of rows, as many as their number of rows says, whose
// sums a second kernel joins in the same way.
#include "block_sums.h"
#include "eights.h"

using namespace zr;

// Calls term(row, column, sums) for the rows [first, end) of the block's 32 columns, which adds to
// N sums, and store(column, sums) with the sums of each column.
template <int N, class Term, class Store>
__device__ __forceinline__ void fold_columns(int64_t first, int64_t end, int64_t width, Term term,
                                             Store store)
{
    __shared__ float parts[N][MOST_WARPS][WARP];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const int64_t column = (int64_t)blockIdx.x * WARP + lane, step = warps;
    float chains[4][N] = {}, sums[N];
    int64_t row = first + warp;
    for (; column < width && row + 3 * step < end; row += 4 * step)
        for (int k = 0; k < 4; k++)
            term(row + k * step, column, chains[k]);
    for (; column < width && row < end; row += step)
        term(row, column, chains[0]);
    for (int n = 0; n < N; n++)
        parts[n][warp][lane] = (chains[0][n] + chains[1][n]) + (chains[2][n] + chains[3][n]);
    __syncthreads();
    if (warp != 0 || column >= width)
        return;
    for (int n = 0; n < N; n++) {
        sums[n] = 0;
        for (unsigned w = 0; w < warps; w++)
            sums[n] += parts[n][w][lane];
    }
    store(column, sums);
}

__device__ __forceinline__ float value_at(const void *array, int type, int64_t i)
{
    return widen_one(load_one(array, type, i), type);
}

__device__ __forceinline__ int64_t end_of_part(int64_t part, int64_t part_rows, int64_t rows)
{
    return (part + 1) * part_rows < rows ? (part + 1) * part_rows : rows;
}

// ---- gradients of biases and norms ----

ZR_GLOBAL(column_parts, 256)
{
    const int64_t part = blockIdx.y;
    fold_columns<1>(
        part * a.part_rows, end_of_part(part, a.part_rows, a.rows), a.width,
        [&](int64_t row, int64_t j, float *sums) {
            sums[0] += value_at(a.x, a.type, row * a.width + j);
        },
        [&](int64_t j, const float *sums) { a.parts[part * a.width + j] = sums[0]; });
}

ZR_GLOBAL(norm_parts, 256)
{
    const int64_t part = blockIdx.y;
    fold_columns<2>(
        part * a.part_rows, end_of_part(part, a.part_rows, a.rows), a.width,
        [&](int64_t row, int64_t j, float *sums) {
            const float dy = value_at(a.dy, a.type, row * a.width + j),
                        x = value_at(a.x, a.stream_type, row * a.width + j),
                        mean = a.mean ? a.mean[row] : 0;
            sums[0] += dy * ((x - mean) * a.rstd[row]);
            sums[1] += dy;
        },
        [&](int64_t j, const float *sums) {
            a.parts[2 * part * a.width + j] = sums[0];
            a.parts[(2 * part + 1) * a.width + j] = sums[1];
        });
}

ZR_GLOBAL(join_parts, 256)
{
    fold_columns<1>(
        0, a.count, a.width,
        [&](int64_t part, int64_t j, float *sums) { sums[0] += a.parts[part * a.stride + j]; },
        [&](int64_t j, const float *sums) { a.out[j] = a.add ? a.out[j] + sums[0] : sums[0]; });
}

// ---- adapters with magnitudes ----

ZR_GLOBAL(column_products, 1024)
{
    fold_columns<1>(
        0, a.rows, a.width,
        [&](int64_t row, int64_t j, float *sums) {
            sums[0] += value_at(a.a, a.type, row * a.width + j) * a.b[row * a.width + j];
        },
        [&](int64_t j, const float *sums) {
            a.out[j] = sums[0] * a.factors[j] + (a.add ? a.out[j] : 0);
        });
}

ZR_GLOBAL(row_squares, 256)
{
    const bool whole = a.width % 8 == 0 && is_aligned(a.weight);
    const int64_t at = blockIdx.x * a.width;
    float sum = 0;
    each_eight_of_row(a.width, [&](int64_t j, int64_t left) {
        float x[8];
        load_some(a.weight, a.type, at + j, left, whole, x);
        for (int k = 0; k < 8; k++)
            sum += x[k] * x[k];
    });
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        a.squares[blockIdx.x] = sum;
}

ZR_GLOBAL(column_squares, 1024)
{
    fold_columns<1>(
        0, a.rows, a.width,
        [&](int64_t row, int64_t j, float *sums) {
            const float x = value_at(a.weight, a.type, row * a.width + j);
            sums[0] += x * x;
        },
        [&](int64_t j, const float *sums) { a.squares[j] = sums[0]; });
}

ZR_GLOBAL(adapted_squares, 256)
{
    for (int64_t i = thread_number(); i < a.out; i += thread_count()) {
        float sum = 0;
        for (int64_t k = 0; k < a.rank; k++) {
            float of_gram = 0;
            for (int64_t l = 0; l < a.rank; l++)
                of_gram += a.gram[k * a.rank + l] * value_at(a.b, a.type, i * a.rank + l);
            sum += value_at(a.b, a.type, i * a.rank + k) *
                   (2 * a.across[k * a.out + i] + a.scale * of_gram);
        }
        a.squares[i] = a.squares[i] + a.scale * sum;
    }
}

ZR_GLOBAL(magnitude_factors, 256)
{
    for (int64_t i = thread_number(); i < a.out; i += thread_count()) {
        const float square = a.squares[i], by = square > 0 ? 1 / sqrtf(square) : 0;
        a.inverse[i] = by;
        a.factors[i] = by * value_at(a.magnitude, a.type, i);
    }
}

ZR_GLOBAL(scale_columns, 256)
{
    const bool whole = a.width % 8 == 0 && are_whole(a.factors, a.x, a.past, a.bias, a.out);
    const int64_t at = blockIdx.x * a.width;
    each_eight_of_row(a.width, [&](int64_t j, int64_t left) {
        float factors[8], x[8], past[8] = {}, bias[8] = {};
        load_some(a.factors, ZR_TYPE_F32, j, left, whole, factors);
        load_some(a.x, a.x_type, at + j, left, whole, x);
        if (a.past)
            load_some(a.past, ZR_TYPE_F32, at + j, left, whole, past);
        if (a.bias)
            load_some(a.bias, a.out_type, j, left, whole, bias);
        for (int k = 0; k < 8; k++)
            x[k] = (factors[k] - a.less) * x[k] + past[k] + bias[k];
        store_some(a.out, a.out_type, at + j, left, whole, x);
    });
}
