// Work on rows: norms, softmax and the loss. A block has a row, and reads it again from its cache.
#include "block_sums.h"
#include "eights.h"
#include "mma.h"

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
// a block's threads apart. Rows are long, and their work is counted in instructions an element: the
// type is a template's, and rounds of a whole block ask for no end.

namespace {

enum { LOGIT_THREADS = 512, ROUND = 8 * LOGIT_THREADS };

template <int TYPE> struct stored {
    typedef uint16_t word;
};
template <> struct stored<ZR_TYPE_F32> {
    typedef uint32_t word;
};
template <int TYPE> using word = typename stored<TYPE>::word;

template <int TYPE> __device__ __forceinline__ word<TYPE> narrow(float value)
{
    return TYPE == ZR_TYPE_F32    ? (word<TYPE>)bits_of_float(value)
           : TYPE == ZR_TYPE_BF16 ? (word<TYPE>)zr_pack_bf16(value, 0)
                                  : (word<TYPE>)float_to_f16(value);
}

// Calls f(at, step, left) for each eight elements of this thread, at[k * step] where k * step is
// below `left`. Smaller blocks are for rows that are no more than a round.
template <class T, class F> __device__ __forceinline__ void each_round(T *row, int64_t width, F f)
{
    T *at = row + threadIdx.x;
    const int64_t rounds = blockDim.x == LOGIT_THREADS ? width / ROUND : 0;
    for (int64_t round = 0; round < rounds; round++, at += ROUND)
        f(at, LOGIT_THREADS, ROUND);
    const int step = (int)blockDim.x;
    for (int64_t left = row + width - at; left > 0; left -= 8 * step, at += 8 * step)
        f(at, step, left < ROUND ? (int)left : (int)ROUND);
}

// What is not there is -infinity.
template <int TYPE>
__device__ __forceinline__ void load_apart(const word<TYPE> *at, int step, int left, float out[8])
{
    uint32_t raw[8];
    for (int k = 0; k < 8; k++)
        raw[k] = k * step < left ? at[k * step] : 0;
    for (int k = 0; k < 8; k++)
        out[k] = k * step < left ? widen_one(raw[k], TYPE) : -infinity();
}

// The largest element of a row, and the sum of e^(x - largest).
struct row_peak {
    float largest;
    double sum;
};

// In one reading: whenever a larger element comes, what was summed up is made smaller. A row
// without an element above -infinity has the sum 0.
template <int TYPE>
__device__ __forceinline__ row_peak find_peak(const word<TYPE> *row, int64_t width)
{
    float largest = -infinity();
    double sum = 0;
    each_round(row, width, [&](const word<TYPE> *at, int step, int left) {
        float value[8], most = largest, some = 0;
        load_apart<TYPE>(at, step, left, value);
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
    });
    const float of_all = block_largest(largest);
    sum *= largest == of_all ? 1 : expf(largest - of_all);
    return {of_all, block_sum(sum)};
}

__device__ __forceinline__ double loss_of(double sum, float largest, float aimed)
{
    return log(sum) + ((double)largest - (double)aimed);
}

template <int TYPE> __device__ __forceinline__ void zero_row(word<TYPE> *row, int64_t width)
{
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x)
        row[j] = 0;
}

// x = e^(x - largest) * by
template <int TYPE>
__device__ __forceinline__ void scale_powers(word<TYPE> *row, int64_t width, float largest,
                                             float by)
{
    each_round(row, width, [&](word<TYPE> *at, int step, int left) {
        float value[8];
        load_apart<TYPE>(at, step, left, value);
        for (int k = 0; k < 8; k++)
            if (k * step < left)
                at[k * step] = narrow<TYPE>(expf(value[k] - largest) * by);
    });
}

// x = (e^(x - largest) / sum - (1 at the target)) * factor; the thread that has written the
// target's writes it again.
template <int TYPE>
__device__ __forceinline__ void turn_into_gradient(word<TYPE> *row, int64_t width, int32_t target,
                                                   const row_peak &peak, float aimed, float factor)
{
    scale_powers<TYPE>(row, width, peak.largest, (float)(factor / peak.sum));
    if (target >= 0 && target < width && (uint32_t)target % blockDim.x == threadIdx.x)
        row[target] =
            narrow<TYPE>((float)((expf(aimed - peak.largest) - peak.sum) / peak.sum * factor));
}

template <int TYPE> __device__ __forceinline__ void run(const zr_loss_args &a)
{
    const int64_t row = blockIdx.x;
    const int32_t target = a.target[row];
    word<TYPE> *logits = (word<TYPE> *)a.logits + row * a.step;
    if (target < 0) {
        if (threadIdx.x == 0)
            a.row_loss[row] = 0;
        if (a.gradient)
            zero_row<TYPE>(logits, a.vocab);
        return;
    }
    // Read by all threads before the first of them writes: find_peak has barriers.
    const float aimed = target < a.vocab ? widen_one(logits[target], TYPE) : -infinity();
    const row_peak peak = find_peak<TYPE>(logits, a.vocab);
    if (threadIdx.x == 0)
        a.row_loss[row] = (float)loss_of(peak.sum, peak.largest, aimed);
    if (a.gradient)
        turn_into_gradient<TYPE>(logits, a.vocab, target, peak, aimed,
                                 a.weight ? a.factor * a.weight[row] : a.factor);
}

template <int TYPE> __device__ __forceinline__ void run(const zr_loss_parts_args &a)
{
    const int64_t row = blockIdx.x;
    const int32_t target = a.target[row];
    const word<TYPE> *logits = (const word<TYPE> *)a.logits + row * a.step;
    zr_kernel_loss_part part = {-infinity(), -infinity(), 0};
    if (target != a.none) {
        const row_peak peak = find_peak<TYPE>(logits, a.vocab);
        part.largest = peak.largest;
        part.sum = peak.sum;
        if (target >= 0 && target < a.vocab)
            part.aimed = widen_one(logits[target], TYPE);
    }
    if (threadIdx.x == 0)
        a.parts[row] = part;
}

// The sum over slices, each made smaller to the largest of all, by the tree that splits at the
// largest power of two below their number: pairs are joined as soon as both halves are there. One
// thread computes it; what waits is shared memory's, because a thread's own would be local.
__device__ double join_sums(const zr_kernel_loss_part *parts, int slices, int64_t stride,
                            float largest)
{
    __shared__ double waiting[32];
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

template <int TYPE> __device__ __forceinline__ void run(const zr_loss_finish_args &a)
{
    __shared__ double shared_sum;
    const int64_t row = blockIdx.x;
    const int32_t target = a.target[row];
    word<TYPE> *logits = (word<TYPE> *)a.logits + row * a.step;
    row_peak peak = {-infinity(), 0};
    float aimed = -infinity();
    if (target == a.none) {
        if (threadIdx.x == 0)
            a.row_loss[row] = 0;
        if (a.gradient)
            zero_row<TYPE>(logits, a.vocab);
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
        turn_into_gradient<TYPE>(logits, a.vocab, target, peak, aimed,
                                 a.weight ? a.factor * a.weight[row] : a.factor);
}

template <int TYPE> __device__ __forceinline__ void run(const zr_softmax_args &a)
{
    word<TYPE> *row = (word<TYPE> *)a.x + blockIdx.x * a.width;
    const row_peak peak = find_peak<TYPE>(row, a.width);
    scale_powers<TYPE>(row, a.width, peak.largest, (float)(1 / peak.sum));
}

} // namespace

// run(a) for the type.
#define ZR_OF_LOGITS(kernel)                                                                       \
    ZR_GLOBAL(kernel, LOGIT_THREADS)                                                               \
    {                                                                                              \
        if (a.type == ZR_TYPE_F32)                                                                 \
            run<ZR_TYPE_F32>(a);                                                                   \
        else if (a.type == ZR_TYPE_BF16)                                                           \
            run<ZR_TYPE_BF16>(a);                                                                  \
        else                                                                                       \
            run<ZR_TYPE_F16>(a);                                                                   \
    }
ZR_OF_LOGITS(loss)
ZR_OF_LOGITS(loss_parts)
ZR_OF_LOGITS(loss_finish)
ZR_OF_LOGITS(softmax)

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
