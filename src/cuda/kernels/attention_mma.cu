// The forward pass of causal attention of 16-bit types on tensor cores (FlashAttention-2: Dao,
// 2023), for heads of up to 128 elements, a multiple of 8. attention_tiles.h says how.
#include "attention_tiles.h"

using namespace zr;

namespace {

template <int WIDTH> struct key_tiles { // two of each: one comes while the other is read
    enum { KEYS = 4096 / WIDTH, FRAGMENTS = KEYS / 8, PIECES = KEYS * WIDTH / 8 };
    uint4 keys[2][PIECES], values[2][PIECES];
};

// What the blocks of queries share: the first row, the tiles that its rows see, what each thread's
// rows see.
template <int WIDTH> struct query_block {
    attention_head of;
    const uint16_t *qkv;
    int64_t sample, head;
    int dim, first, begin, tiles; // begin: the first key of the first tile
    int start[2];                 // the first key that each of the thread's rows sees

    template <class A> __device__ __forceinline__ query_block(const A &a, const place &at)
    {
        // blocks of late rows, which see the most, come first
        const int blocks = (int)((a.seq + BLOCK_ROWS - 1) / BLOCK_ROWS);
        const int64_t index = blockIdx.x / blocks;
        sample = index / a.heads;
        head = index % a.heads;
        of = head_of(a, sample, head);
        qkv = (const uint16_t *)a.qkv;
        dim = (int)a.head_dim;
        first = (blocks - 1 - (int)(blockIdx.x % blocks)) * BLOCK_ROWS;
        const int last = first + BLOCK_ROWS < of.seq ? first + BLOCK_ROWS : of.seq;
        begin = first_seen(of, first) / key_tiles<WIDTH>::KEYS * key_tiles<WIDTH>::KEYS;
        tiles = (last - begin + key_tiles<WIDTH>::KEYS - 1) / key_tiles<WIDTH>::KEYS;
        for (int r = 0; r < 2; r++) {
            const int row = first + at.row + 8 * r;
            start[r] = row < of.seq ? first_seen(of, row) : row + 1; // none
        }
    }

    __device__ __forceinline__ void fetch_tile(key_tiles<WIDTH> &room, int tile) const
    {
        enum { KEYS = key_tiles<WIDTH>::KEYS };
        if (tile < tiles) {
            fetch<WIDTH, KEYS>(room.keys[tile % 2], qkv + of.k, of.row, begin + tile * KEYS, of.seq,
                               dim);
            fetch<WIDTH, KEYS>(room.values[tile % 2], qkv + of.v, of.row, begin + tile * KEYS,
                               of.seq, dim);
        }
        zr_copy_commit();
    }

    __device__ __forceinline__ bool sees(const place &at, int r, int key) const
    {
        return key >= start[r] && key <= first + at.row + 8 * r;
    }
};

// The left factor from memory: rows `row` and row + 8.
template <int WIDTH>
__device__ __forceinline__ void fetch_left(uint32_t a[WIDTH / 16][4], const uint16_t *from,
                                           int64_t step, int row, int end, int dim, int pair)
{
    ZR_UNROLL
    for (int c = 0; c < WIDTH / 16; c++)
        ZR_UNROLL
    for (int i = 0; i < 4; i++) {
        const int r = row + 8 * (i % 2), column = 16 * c + 8 * (i / 2);
        a[c][i] =
            r < end && column < dim ? *(const uint32_t *)(from + r * step + column + 2 * pair) : 0;
    }
}

// scores (16 x COLUMNS) += left tile'
template <int TYPE, int WIDTH, int COLUMNS>
__device__ __forceinline__ void multiply_rows(float (*scores)[4], const uint32_t (*left)[4],
                                              const uint4 *tile, const place &at)
{
    ZR_UNROLL
    for (int c = 0; c < WIDTH / 16; c++)
        ZR_UNROLL
    for (int n = 0; n < COLUMNS / 16; n++) {
        uint32_t b[4];
        load_right<WIDTH>(b, tile, at, n, c);
        ZR_MMA_OF(TYPE, scores[2 * n], left[c], b);
        ZR_MMA_OF(TYPE, scores[2 * n + 1], left[c], b + 2);
    }
}

template <int WIDTH> struct forward_state {
    float out[WIDTH / 8][4];
    float most[2], sum[2]; // of each row's scores, times log2 e
};

// Scales scores, and leaves out those of keys that are not seen.
template <int WIDTH>
__device__ __forceinline__ void mask_scores(float (*scores)[4], const query_block<WIDTH> &block,
                                            const place &at, int key, float scale)
{
    enum { KEYS = key_tiles<WIDTH>::KEYS, FRAGMENTS = KEYS / 8 };
    const bool all_seen =
        block.sees(at, 0, key) && block.sees(at, 1, key) && block.sees(at, 0, key + KEYS - 1);
    ZR_UNROLL
    for (int n = 0; n < 4 * FRAGMENTS; n++)
        scores[n / 4][n % 4] *= scale;
    if (all_seen)
        return;
    ZR_UNROLL
    for (int n = 0; n < FRAGMENTS; n++)
        ZR_UNROLL
    for (int i = 0; i < 4; i++)
        if (!block.sees(at, i / 2, key + 8 * n + 2 * at.pair + i % 2))
            scores[n][i] = no_score();
}

// Makes weights of scores, relative to each row's largest so far; scales what was added up.
template <int WIDTH>
__device__ __forceinline__ void take_scores(forward_state<WIDTH> &state, float (*scores)[4])
{
    enum { FRAGMENTS = key_tiles<WIDTH>::FRAGMENTS };
    ZR_UNROLL
    for (int r = 0; r < 2; r++) {
        float most = state.most[r];
        ZR_UNROLL
        for (int n = 0; n < FRAGMENTS; n++)
            most = fmaxf(most, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        const float base = most == no_score() ? 0 : most; // nothing was seen so far
        const float factor = zr_exp2(state.most[r] - base);
        state.most[r] = most;
        state.sum[r] *= factor;
        ZR_UNROLL
        for (int n = 0; n < WIDTH / 8; n++) {
            state.out[n][2 * r] *= factor;
            state.out[n][2 * r + 1] *= factor;
        }
        ZR_UNROLL
        for (int n = 0; n < 2 * FRAGMENTS; n++) {
            float &score = scores[n / 2][2 * r + n % 2];
            score = zr_exp2(score - base);
            state.sum[r] += score;
        }
    }
}

template <int TYPE, int WIDTH, class A>
__device__ __forceinline__ void store_forward(forward_state<WIDTH> &state,
                                              const query_block<WIDTH> &block, const A &a,
                                              const place &at)
{
    float factor[2];
    ZR_UNROLL
    for (int r = 0; r < 2; r++) {
        float sum = state.sum[r];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const int row = block.first + at.row + 8 * r;
        factor[r] = a.kept / sum;
        if (a.lse && at.pair == 0 && row < block.of.seq)
            a.lse[block.of.sums + row] = state.most[r] * ZR_LN_2 + logf(sum);
    }
    store_rows<TYPE, WIDTH>(state.out, factor[0], factor[1], (uint16_t *)a.out + block.of.out,
                            block.of.out_row, block.first + at.row, block.of.seq, block.dim,
                            at.pair);
}

template <int TYPE, int WIDTH, class A>
__device__ __forceinline__ void run_forward(key_tiles<WIDTH> &room, const A &a)
{
    enum { KEYS = key_tiles<WIDTH>::KEYS, FRAGMENTS = KEYS / 8 };
    const place at = place_of_thread();
    const query_block<WIDTH> block(a, at);
    const int row = block.first + at.row;
    forward_state<WIDTH> state = {{}, {no_score(), no_score()}, {}};
    uint32_t queries[WIDTH / 16][4];
    block.fetch_tile(room, 0);
    fetch_left<WIDTH>(queries, block.qkv + block.of.q, block.of.row, row, block.of.seq, block.dim,
                      at.pair);
    for (int tile = 0; tile < block.tiles; tile++) {
        const int key = block.begin + tile * KEYS;
        block.fetch_tile(room, tile + 1);
        zr_copy_wait(1);
        __syncthreads();
        float scores[FRAGMENTS][4] = {};
        multiply_rows<TYPE, WIDTH, KEYS>(scores, queries, room.keys[tile % 2], at);
        mask_scores<WIDTH>(scores, block, at, key, a.scale * ZR_LOG2_E);
        take_scores<WIDTH>(state, scores);
        if (a.threshold) {
            const uint32_t kept = kept_keys<FRAGMENTS>(block.of, row, key, at.pair);
            ZR_UNROLL
            for (int n = 0; n < 4 * FRAGMENTS; n++)
                scores[n / 4][n % 4] = kept >> n & 1 ? scores[n / 4][n % 4] : 0;
        }
        multiply_columns<TYPE, WIDTH, KEYS>(state.out, scores, room.values[tile % 2], at);
        __syncthreads();
    }
    store_forward<TYPE, WIDTH>(state, block, a, at);
}

} // namespace

// The type is a template's.
#define ZR_FORWARD_OF_WIDTH(width, bounds)                                                         \
    ZR_GLOBAL(attention_forward_##width, bounds)                                                   \
    {                                                                                              \
        __shared__ __align__(16) key_tiles<width> room;                                            \
        if (a.type == ZR_TYPE_BF16)                                                                \
            run_forward<ZR_TYPE_BF16, width>(room, a);                                             \
        else                                                                                       \
            run_forward<ZR_TYPE_F16, width>(room, a);                                              \
    }
ZR_FORWARD_OF_WIDTH(64, THREADS)
ZR_FORWARD_OF_WIDTH(128, THREADS)
