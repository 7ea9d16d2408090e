// Kernels of the probe: a copy, an exact sum by integer atomics, attention by mma.sync. nvcc and
// NVRTC compile them for a GPU (sm_80 and newer); g++ compiles the same text where a header before
// it gives it CUDA's words (__shared__, threadIdx, mma_16816, ...) on a CPU.
#include "kernels.h"

#ifdef __CUDACC__
#define PROBE_UNROLL _Pragma("unroll")

// d (16 x 8) += a (16 x 16) b (16 x 8): bf16 in, fp32 out, in the fragments of the PTX manual.
__device__ __forceinline__ void mma_16816(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
#define PROBE_UNROLL
#endif

extern "C" __global__ void probe_copy(const __grid_constant__ probe_copy_args a)
{
    const uint4 *from = (const uint4 *)a.from;
    uint4 *to = (uint4 *)a.to;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < a.words; i += step)
        to[i] = from[i];
}

static __device__ __forceinline__ double sum_squares(const float *x, int64_t first, int64_t count)
{
    double sum = 0;
    for (int64_t at = first; at < first + PROBE_CHUNK / PROBE_LIMB_THREADS && at < count; at++)
        sum += (double)x[at] * x[at];
    return sum;
}

// A chunk is added up in double, always in the same order; chunks are added as integers, whose sum
// no order changes.
extern "C" __global__ void probe_limbs(const __grid_constant__ probe_limb_args a)
{
    __shared__ double part[PROBE_LIMB_THREADS];
    const int mine = threadIdx.x;
    for (int64_t first = blockIdx.x * (int64_t)PROBE_CHUNK; first < a.count;
         first += gridDim.x * (int64_t)PROBE_CHUNK) {
        part[mine] = sum_squares(a.x, first + mine * (PROBE_CHUNK / PROBE_LIMB_THREADS), a.count);
        __syncthreads();
        for (int half = PROBE_LIMB_THREADS / 2; half; half /= 2) {
            if (mine < half)
                part[mine] += part[mine + half];
            __syncthreads();
        }
        if (mine == 0)
            atomicAdd((unsigned long long *)a.sum,
                      (unsigned long long)(int64_t)(part[0] * 1048576.0));
        __syncthreads();
    }
}

typedef uint16_t bf16;

// Nearest, ties to even.
static __device__ __forceinline__ uint32_t narrow(float value)
{
    uint32_t bits = __float_as_uint(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static __device__ __forceinline__ uint32_t pack(float low, float high)
{
    return narrow(low) | narrow(high) << 16;
}

static __device__ __forceinline__ uint32_t load_pair(const bf16 *at)
{
    return *(const uint32_t *)at;
}

enum { WIDTH = PROBE_HEAD_WIDTH, ROWS = PROBE_ROWS, PAD = 8 };

struct attention_tiles {
    bf16 keys[ROWS][WIDTH + PAD];
    bf16 values[WIDTH][ROWS + PAD]; // transposed
};

// A warp has 16 rows; a thread has of each fragment the rows `group` and `group` + 8 and the
// columns 2 `pair` and 2 `pair` + 1.
struct attention_place {
    int group, pair;
    int row;      // of the sequence, the first of the thread's two
    int64_t step; // elements between two rows of qkv
};

struct attention_state {
    uint32_t queries[WIDTH / 16][4];
    float out[WIDTH / 8][4];
    float most[2], sum[2]; // of each row's scores
};

static __device__ __forceinline__ void load_queries(attention_state &state, const bf16 *queries,
                                                    const attention_place &at)
{
    PROBE_UNROLL
    for (int c = 0; c < WIDTH / 16; c++)
        PROBE_UNROLL
    for (int i = 0; i < 4; i++)
        state.queries[c][i] = load_pair(queries + (at.row + 8 * (i % 2)) * at.step + c * 16 +
                                        8 * (i / 2) + 2 * at.pair);
}

static __device__ __forceinline__ void load_tiles(attention_tiles &tiles, const bf16 *keys,
                                                  const bf16 *values, int64_t step)
{
    for (int i = threadIdx.x; i < ROWS * WIDTH; i += blockDim.x) {
        tiles.keys[i / WIDTH][i % WIDTH] = keys[i / WIDTH * step + i % WIDTH];
        tiles.values[i % WIDTH][i / WIDTH] = values[i / WIDTH * step + i % WIDTH];
    }
}

static __device__ __forceinline__ void multiply_keys(float scores[][4],
                                                     const attention_state &state,
                                                     const attention_tiles &tiles,
                                                     const attention_place &at)
{
    PROBE_UNROLL
    for (int n = 0; n < ROWS / 8; n++)
        PROBE_UNROLL
    for (int c = 0; c < WIDTH / 16; c++) {
        const bf16 *key = &tiles.keys[n * 8 + at.group][c * 16 + 2 * at.pair];
        const uint32_t pairs[2] = {load_pair(key), load_pair(key + 8)};
        mma_16816(scores[n], state.queries[c], pairs);
    }
}

// Scores of keys after a row count as nothing; the others are scaled.
static __device__ __forceinline__ void mask_scores(float scores[][4], int first_key, float scale,
                                                   const attention_place &at)
{
    PROBE_UNROLL
    for (int n = 0; n < ROWS / 8; n++)
        PROBE_UNROLL
    for (int i = 0; i < 4; i++) {
        bool seen = first_key + n * 8 + 2 * at.pair + i % 2 <= at.row + 8 * (i / 2);
        scores[n][i] = seen ? scores[n][i] * scale : -1e30f;
    }
}

// Raises each row's largest score, and scales what the row has added up so far accordingly.
static __device__ __forceinline__ void raise_most(attention_state &state, float scores[][4])
{
    PROBE_UNROLL
    for (int r = 0; r < 2; r++) {
        float most = state.most[r];
        PROBE_UNROLL
        for (int n = 0; n < ROWS / 8; n++)
            most = fmaxf(most, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        float factor = __expf(state.most[r] - most);
        state.most[r] = most;
        state.sum[r] *= factor;
        PROBE_UNROLL
        for (int n = 0; n < WIDTH / 8; n++) {
            state.out[n][2 * r] *= factor;
            state.out[n][2 * r + 1] *= factor;
        }
    }
}

static __device__ __forceinline__ void exponentiate(attention_state &state, float scores[][4])
{
    PROBE_UNROLL
    for (int n = 0; n < ROWS / 8; n++)
        PROBE_UNROLL
    for (int i = 0; i < 4; i++) {
        scores[n][i] = __expf(scores[n][i] - state.most[i / 2]);
        state.sum[i / 2] += scores[n][i];
    }
}

static __device__ __forceinline__ void multiply_values(attention_state &state, float scores[][4],
                                                       const attention_tiles &tiles,
                                                       const attention_place &at)
{
    PROBE_UNROLL
    for (int c = 0; c < ROWS / 16; c++) {
        const float *left = scores[2 * c], *right = scores[2 * c + 1];
        const uint32_t weights[4] = {pack(left[0], left[1]), pack(left[2], left[3]),
                                     pack(right[0], right[1]), pack(right[2], right[3])};
        PROBE_UNROLL
        for (int n = 0; n < WIDTH / 8; n++) {
            const bf16 *value = &tiles.values[n * 8 + at.group][c * 16 + 2 * at.pair];
            const uint32_t pairs[2] = {load_pair(value), load_pair(value + 8)};
            mma_16816(state.out[n], weights, pairs);
        }
    }
}

static __device__ __forceinline__ void store_rows(attention_state &state,
                                                  const probe_attention_args &a, int batch,
                                                  int head, const attention_place &at)
{
    PROBE_UNROLL
    for (int r = 0; r < 2; r++) {
        float sum = state.sum[r];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const int row = at.row + 8 * r;
        bf16 *out = a.out + (((int64_t)batch * a.seq + row) * a.heads + head) * WIDTH;
        PROBE_UNROLL
        for (int n = 0; n < WIDTH / 8; n++)
            *(uint32_t *)(out + n * 8 + 2 * at.pair) =
                pack(state.out[n][2 * r] / sum, state.out[n][2 * r + 1] / sum);
        if (at.pair == 0)
            a.log_sums[((int64_t)batch * a.heads + head) * a.seq + row] = state.most[r] + logf(sum);
    }
}

extern "C" __global__ void __launch_bounds__(128)
    probe_attention(const __grid_constant__ probe_attention_args a)
{
    __shared__ __align__(16) attention_tiles tiles;
    const int batch = blockIdx.y / a.heads, head = blockIdx.y % a.heads;
    const int first = blockIdx.x * ROWS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const attention_place at = {lane / 4, lane % 4, first + warp * 16 + lane / 4,
                                (int64_t)3 * a.heads * WIDTH};
    const bf16 *queries = a.qkv + batch * a.seq * at.step + head * WIDTH;
    const bf16 *keys = queries + a.heads * WIDTH, *values = keys + a.heads * WIDTH;
    attention_state state = {{}, {}, {-1e30f, -1e30f}, {}};
    load_queries(state, queries, at);
    for (int start = 0; start <= first; start += ROWS) {
        __syncthreads();
        load_tiles(tiles, keys + start * at.step, values + start * at.step, at.step);
        __syncthreads();
        float scores[ROWS / 8][4] = {};
        multiply_keys(scores, state, tiles, at);
        mask_scores(scores, start, a.scale, at);
        raise_most(state, scores);
        exponentiate(state, scores);
        multiply_values(state, scores, tiles, at);
    }
    store_rows(state, a, batch, head, at);
}
