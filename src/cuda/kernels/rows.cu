// Work on rows: norms, softmax and the loss. A block has a row, and reads it again from its cache.
#include "block_sums.h"
#include "eights.h"

using namespace zr;

// ---- norms ----

// The sums of a row's elements, and of their squares, each element less `mean`: N 2, or the first
// alone.
template <int N>
__device__ __forceinline__ void sum_row(const void *x, int type, int64_t at, int64_t width,
                                        bool whole, float mean, float (&sums)[N])
{
    for (int n = 0; n < N; n++)
        sums[n] = 0;
    each_eight_of_row(width, [&](int64_t j, int64_t left) {
        float value[8];
        load_some(x, type, at + j, left, whole, value);
        for (int k = 0; k < 8; k++) {
            const float distance = k < left ? value[k] - mean : 0;
            sums[0] += distance;
            if (N > 1)
                sums[N - 1] += distance * distance;
        }
    });
    block_sums(sums);
}

__device__ __forceinline__ void add_branch(const zr_norm_forward_args &a, int64_t at, bool whole)
{
    each_eight_of_row(a.width, [&](int64_t j, int64_t left) {
        float x[8], branch[8];
        load_some(a.x, a.stream_type, at + j, left, whole, x);
        load_some(a.branch, a.type, at + j, left, whole, branch);
        for (int k = 0; k < 8; k++)
            x[k] += branch[k];
        store_some(a.sum, a.stream_type, at + j, left, whole, x);
    });
}

// The squares are summed around the mean, and what rounding left in it is taken from both, and from
// each element on its own: far from zero the sum of the two would be rounded again.
ZR_GLOBAL(norm_forward, 256)
{
    const bool whole =
        a.width % 8 == 0 && are_whole(a.x, a.branch, a.sum, a.y) && are_whole(a.gamma, a.beta);
    const int64_t at = blockIdx.x * a.width;
    const void *x = a.branch ? a.sum : a.x;
    if (a.branch)
        add_branch(a, at, whole);
    float sum[1] = {0}, around[2];
    if (!a.rms)
        sum_row(x, a.stream_type, at, a.width, whole, 0, sum);
    const float mean = sum[0] / a.width;
    sum_row(x, a.stream_type, at, a.width, whole, mean, around);
    const float rest = a.rms ? 0 : around[0] / a.width,
                variance = around[1] / a.width - rest * rest;
    const float rstd = 1 / sqrtf((variance < 0 ? 0 : variance) + a.epsilon);
    each_eight_of_row(a.width, [&](int64_t j, int64_t left) {
        float y[8], gamma[8], beta[8] = {};
        load_some(x, a.stream_type, at + j, left, whole, y);
        load_some(a.gamma, a.type, j, left, whole, gamma);
        if (a.beta)
            load_some(a.beta, a.type, j, left, whole, beta);
        for (int k = 0; k < 8; k++)
            y[k] = ((y[k] - mean) - rest) * rstd * gamma[k] + beta[k];
        store_some(a.y, a.type, at + j, left, whole, y);
    });
    if (threadIdx.x == 0 && a.mean && !a.rms)
        a.mean[blockIdx.x] = mean + rest;
    if (threadIdx.x == 0 && a.rstd)
        a.rstd[blockIdx.x] = rstd;
}

// The gradient of eight elements' normal values, and these.
__device__ __forceinline__ void load_gradients(const zr_norm_backward_args &a, int64_t at,
                                               int64_t j, int64_t left, bool whole, float mean,
                                               float rstd, float g[8], float normal[8])
{
    float gamma[8];
    load_some(a.dy, a.type, at + j, left, whole, g);
    load_some(a.gamma, a.type, j, left, whole, gamma);
    load_some(a.x, a.stream_type, at + j, left, whole, normal);
    for (int k = 0; k < 8; k++) {
        g[k] *= gamma[k];
        normal[k] = (normal[k] - mean) * rstd;
    }
}

ZR_GLOBAL(norm_backward, 256)
{
    const bool whole = a.width % 8 == 0 && are_whole(a.dy, a.x, a.gamma, a.past, a.dx);
    const int64_t at = blockIdx.x * a.width;
    const float mean = a.rms ? 0 : a.mean[blockIdx.x], rstd = a.rstd[blockIdx.x];
    float sums[2] = {0, 0};
    each_eight_of_row(a.width, [&](int64_t j, int64_t left) {
        float g[8], normal[8];
        load_gradients(a, at, j, left, whole, mean, rstd, g, normal);
        for (int k = 0; k < 8; k++) {
            sums[0] += g[k]; // 0 past the end
            sums[1] += g[k] * normal[k];
        }
    });
    block_sums(sums);
    const float sum = a.rms ? 0 : sums[0] / a.width, dot = sums[1] / a.width;
    each_eight_of_row(a.width, [&](int64_t j, int64_t left) {
        float g[8], normal[8], past[8] = {};
        load_gradients(a, at, j, left, whole, mean, rstd, g, normal);
        if (a.past)
            load_some(a.past, a.stream_type, at + j, left, whole, past);
        for (int k = 0; k < 8; k++)
            g[k] = (g[k] - sum - normal[k] * dot) * rstd + past[k];
        store_some(a.dx, a.stream_type, at + j, left, whole, g);
    });
}

// ---- softmax and the loss ----
//
// Rows of odd widths begin anywhere, so threads take single elements, eight of them at a time, each
// a block's threads apart.

__device__ __forceinline__ void load_apart(const void *x, int type, int64_t at, int64_t j,
                                           int64_t width, float out[8])
{
    uint32_t raw[8];
    for (int k = 0; k < 8; k++) {
        const int64_t i = j + k * (int64_t)blockDim.x;
        raw[k] = i < width ? load_one(x, type, at + i) : 0;
    }
    for (int k = 0; k < 8; k++) {
        const int64_t i = j + k * (int64_t)blockDim.x;
        out[k] = i < width ? widen_one(raw[k], type) : -infinity();
    }
}

__device__ __forceinline__ void store_apart(void *x, int type, int64_t at, int64_t j, int64_t width,
                                            const float in[8])
{
    for (int k = 0; k < 8; k++) {
        const int64_t i = j + k * (int64_t)blockDim.x;
        if (i < width)
            put(x, type, at + i, in[k]);
    }
}

// The largest element of a row, and the sum of e^(x - largest).
struct row_peak {
    float largest;
    double sum;
};

// In one reading: whenever a larger element comes, what was summed up is made smaller. A row
// without an element above -infinity has the sum 0.
__device__ __forceinline__ row_peak find_peak(const void *x, int type, int64_t at, int64_t width)
{
    float largest = -infinity();
    double sum = 0;
    for (int64_t j = threadIdx.x; j < width; j += 8 * (int64_t)blockDim.x) {
        float value[8], most = largest, some = 0;
        load_apart(x, type, at, j, width, value);
        for (int k = 0; k < 8; k++)
            most = fmaxf(most, value[k]);
        if (most > largest) {
            sum *= expf(largest - most);
            largest = most;
        }
        const float shift = largest == -infinity() ? 0 : largest;
        for (int k = 0; k < 8; k++)
            some += expf(value[k] - shift);
        sum += some;
    }
    const float of_all = block_largest(largest);
    sum *= largest == of_all ? 1 : expf(largest - of_all);
    return {of_all, block_sum(sum)};
}

__device__ __forceinline__ double loss_of(double sum, float largest, float aimed)
{
    return log(sum) + ((double)largest - (double)aimed);
}

__device__ __forceinline__ void zero_row(void *x, int type, int64_t at, int64_t width)
{
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x)
        put(x, type, at + j, 0);
}

// x = (e^(x - largest) / sum - (1 at the target)) * factor
__device__ __forceinline__ void turn_into_gradient(void *x, int type, int64_t at, int64_t width,
                                                   int64_t target, const row_peak &peak,
                                                   float aimed, float factor)
{
    const float by = (float)(factor / peak.sum);
    for (int64_t j = threadIdx.x; j < width; j += 8 * (int64_t)blockDim.x) {
        float value[8];
        load_apart(x, type, at, j, width, value);
        for (int k = 0; k < 8; k++)
            value[k] = expf(value[k] - peak.largest) * by;
        const int64_t place = (target - j) / blockDim.x;
        if (target >= j && (target - j) % blockDim.x == 0)
            for (int k = 0; k < 8; k++)
                if (k == place)
                    value[k] = (float)((expf(aimed - peak.largest) - peak.sum) / peak.sum * factor);
        store_apart(x, type, at, j, width, value);
    }
}

ZR_GLOBAL(loss, 512)
{
    const int64_t row = blockIdx.x, at = row * a.vocab, target = a.target[row];
    if (target < 0) {
        if (threadIdx.x == 0)
            a.row_loss[row] = 0;
        if (a.gradient)
            zero_row(a.logits, a.type, at, a.vocab);
        return;
    }
    // Read by all threads before the first of them writes: find_peak has barriers.
    const float aimed = target < a.vocab ? get(a.logits, a.type, at + target) : -infinity();
    const row_peak peak = find_peak(a.logits, a.type, at, a.vocab);
    if (threadIdx.x == 0)
        a.row_loss[row] = (float)loss_of(peak.sum, peak.largest, aimed);
    if (a.gradient)
        turn_into_gradient(a.logits, a.type, at, a.vocab, target, peak, aimed,
                           a.weight ? a.factor * a.weight[row] : a.factor);
}

ZR_GLOBAL(loss_parts, 512)
{
    const int64_t row = blockIdx.x, at = row * a.vocab, target = a.target[row];
    zr_kernel_loss_part part = {-infinity(), -infinity(), 0};
    if (target != a.none) {
        const row_peak peak = find_peak(a.logits, a.type, at, a.vocab);
        part.largest = peak.largest;
        part.sum = peak.sum;
        if (target >= 0 && target < a.vocab)
            part.aimed = get(a.logits, a.type, at + target);
    }
    if (threadIdx.x == 0)
        a.parts[row] = part;
}

// The sum over slices, each made smaller to the largest of all, by the tree that splits at the
// largest power of two below their number: pairs are joined as soon as both halves are there.
__device__ double join_sums(const zr_kernel_loss_part *parts, int slices, int64_t stride,
                            float largest)
{
    double waiting[32];
    int depth = 0;
    for (int t = 0; t < slices; t++) {
        const zr_kernel_loss_part &part = parts[t * stride];
        waiting[depth++] = part.sum * exp((double)part.largest - (double)largest);
        for (unsigned joined = t + 1; joined % 2 == 0; joined /= 2) {
            depth--;
            waiting[depth - 1] += waiting[depth];
        }
    }
    for (; depth > 1; depth--)
        waiting[depth - 2] += waiting[depth - 1];
    return waiting[0];
}

ZR_GLOBAL(loss_finish, 512)
{
    __shared__ double shared_sum;
    const int64_t row = blockIdx.x, at = row * a.vocab, target = a.target[row];
    row_peak peak = {-infinity(), 0};
    float aimed = -infinity();
    if (target == a.none) {
        if (threadIdx.x == 0)
            a.row_loss[row] = 0;
        if (a.gradient)
            zero_row(a.logits, a.type, at, a.vocab);
        return;
    }
    for (int t = 0; t < a.slices; t++) {
        peak.largest = fmaxf(peak.largest, a.parts[t * a.stride + row].largest);
        aimed = fmaxf(aimed, a.parts[t * a.stride + row].aimed);
    }
    if (threadIdx.x == 0) {
        shared_sum = join_sums(a.parts + row, a.slices, a.stride, peak.largest);
        a.row_loss[row] = (float)loss_of(shared_sum, peak.largest, aimed);
    }
    __syncthreads();
    peak.sum = shared_sum;
    if (a.gradient)
        turn_into_gradient(a.logits, a.type, at, a.vocab, target, peak, aimed,
                           a.weight ? a.factor * a.weight[row] : a.factor);
}

ZR_GLOBAL(softmax, 512)
{
    const int64_t at = blockIdx.x * a.width;
    const row_peak peak = find_peak(a.x, a.type, at, a.width);
    const float by = (float)(1 / peak.sum);
    for (int64_t j = threadIdx.x; j < a.width; j += 8 * (int64_t)blockDim.x) {
        float value[8];
        load_apart(a.x, a.type, at, j, a.width, value);
        for (int k = 0; k < 8; k++)
            value[k] = expf(value[k] - peak.largest) * by;
        store_apart(a.x, a.type, at, j, a.width, value);
    }
}

// ---- ids, sums of rows ----

ZR_GLOBAL(local_ids, 256)
{
    for (int64_t i = thread_number(); i < a.n; i += thread_count()) {
        const int64_t id = a.ids[i], local = id - a.first;
        a.out[i] = id < 0 ? a.none : local >= 0 && local < a.count ? (int32_t)local : -1;
    }
}

// One thread adds, because the order of additions is promised; the others load.
ZR_GLOBAL(sum_rows, 256)
{
    __shared__ float loaded[1024];
    double sum = 0;
    for (int64_t first = 0; first < a.n; first += 1024) {
        const int count = a.n - first < 1024 ? (int)(a.n - first) : 1024;
        for (int i = threadIdx.x; i < count; i += blockDim.x)
            loaded[i] = a.x[first + i];
        __syncthreads();
        for (int i = 0; i < count && threadIdx.x == 0; i++)
            sum += loaded[i];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *a.out = a.divisor != 0 ? sum / a.divisor : 0;
}
