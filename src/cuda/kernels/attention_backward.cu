// The backward pass of causal attention of 16-bit types on tensor cores (FlashAttention-2: Dao,
// 2023): one kernel for dK and dV, whose blocks have keys, and one for dQ, whose blocks have
// queries. attention_tiles.h says how, attention.cu what is computed.
#include "attention_tiles.h"

using namespace zr;

namespace {

// Two arrays of the block's own rows, and two of the other side, which are there twice: one comes
// while the other is read. Of dK and dV: keys, values; queries, douts. Of dQ the other way round.
template <int WIDTH> struct pair_tiles {
    enum { ROWS = 2048 / WIDTH, FRAGMENTS = ROWS / 8, PIECES = ROWS * WIDTH / 8 };
    uint4 own[2][BLOCK_ROWS * WIDTH / 8], other[2][2][PIECES];
};

// Rows of two arrays, which lie `first_step` and `second_step` elements apart.
struct row_pair {
    const uint16_t *first, *second;
    int64_t first_step, second_step;
};

template <class A>
__device__ __forceinline__ row_pair queries_of(const A &a, const attention_head &of)
{
    return row_pair{(const uint16_t *)a.qkv + of.q, (const uint16_t *)a.dout + of.out, of.row,
                    of.out_row};
}

template <class A> __device__ __forceinline__ row_pair keys_of(const A &a, const attention_head &of)
{
    const uint16_t *qkv = (const uint16_t *)a.qkv;
    return row_pair{qkv + of.k, qkv + of.v, of.row, of.row};
}

template <int WIDTH, int ROWS>
__device__ __forceinline__ void fetch_pair(uint4 *first, uint4 *second, const row_pair &from,
                                           int row, int end, int dim)
{
    fetch<WIDTH, ROWS>(first, from.first, from.first_step, row, end, dim);
    fetch<WIDTH, ROWS>(second, from.second, from.second_step, row, end, dim);
}

// scores (16 x the tile's rows) += the warp's own rows tile'
template <int TYPE, int WIDTH>
__device__ __forceinline__ void multiply_own(float (*scores)[4], const uint4 *own,
                                             const uint4 *tile, const place &at)
{
    ZR_UNROLL
    for (int c = 0; c < WIDTH / 16; c++) {
        uint32_t left[4];
        load_left<WIDTH>(left, own, at, c);
        ZR_UNROLL
        for (int n = 0; n < pair_tiles<WIDTH>::ROWS / 16; n++) {
            uint32_t b[4];
            load_right<WIDTH>(b, tile, at, n, c);
            ZR_MMA_OF(TYPE, scores[2 * n], left, b);
            ZR_MMA_OF(TYPE, scores[2 * n + 1], left, b + 2);
        }
    }
}

// ---- the gradients of queries ----

// What each of the thread's rows has, and sees.
struct own_queries {
    int row, start[2];      // start: the first key; after the row where there is no such row
    float lse[2], delta[2]; // lse times log2 e
};

template <class A>
__device__ __forceinline__ own_queries own_queries_of(const A &a, const attention_head &of, int row)
{
    own_queries own;
    own.row = row;
    ZR_UNROLL
    for (int r = 0; r < 2; r++) {
        const int i = row + 8 * r;
        const bool there = i < of.seq;
        own.start[r] = there ? first_seen(of, i) : i + 1;
        own.lse[r] = there ? a.lse[of.sums + i] * ZR_LOG2_E : 0;
        own.delta[r] = there ? a.delta[of.sums + i] : 0;
    }
    return own;
}

// Makes gradients of scores, in `scores`, of scores and gradients of probabilities.
template <int WIDTH, class A>
__device__ __forceinline__ void score_gradients(float (*scores)[4], const float (*gradients)[4],
                                                const attention_head &of, const own_queries &own,
                                                const A &a, int key, int pair)
{
    enum { FRAGMENTS = pair_tiles<WIDTH>::FRAGMENTS };
    const uint32_t kept = a.threshold ? kept_keys<FRAGMENTS>(of, own.row, key, pair) : ~0u;
    ZR_UNROLL
    for (int n = 0; n < FRAGMENTS; n++)
        ZR_UNROLL
    for (int i = 0; i < 4; i++) {
        const int r = i / 2, j = key + 8 * n + 2 * pair + i % 2;
        const float weight = zr_exp2(scores[n][i] * (a.scale * ZR_LOG2_E) - own.lse[r]);
        const float factor = kept >> (4 * n + i) & 1 ? a.kept : 0;
        scores[n][i] = j >= own.start[r] && j <= own.row + 8 * r
                           ? weight * (gradients[n][i] * factor - own.delta[r])
                           : 0;
    }
}

// Blocks of late rows, which see the most, come first.
template <int TYPE, int WIDTH, class A>
__device__ __forceinline__ void run_queries(pair_tiles<WIDTH> &room, const A &a)
{
    enum { KEYS = pair_tiles<WIDTH>::ROWS, FRAGMENTS = KEYS / 8 };
    const place at = place_of_thread();
    const int blocks = (int)((a.seq + BLOCK_ROWS - 1) / BLOCK_ROWS), dim = (int)a.head_dim;
    const int64_t head = blockIdx.x / blocks;
    const attention_head of = head_of(a, head / a.heads, head % a.heads);
    const int first = (blocks - 1 - (int)(blockIdx.x % blocks)) * BLOCK_ROWS;
    const int end = first + BLOCK_ROWS < of.seq ? first + BLOCK_ROWS : of.seq;
    const int begin = first_seen(of, first) / KEYS * KEYS, tiles = (end - begin + KEYS - 1) / KEYS;
    const own_queries own = own_queries_of(a, of, first + at.row);
    const row_pair keys = keys_of(a, of);
    float sums[WIDTH / 8][4] = {};
    fetch_pair<WIDTH, BLOCK_ROWS>(room.own[0], room.own[1], queries_of(a, of), first, of.seq, dim);
    fetch_pair<WIDTH, KEYS>(room.other[0][0], room.other[0][1], keys, begin, of.seq, dim);
    zr_copy_commit();
    for (int tile = 0; tile < tiles; tile++) {
        const int key = begin + tile * KEYS;
        uint4(*now)[pair_tiles<WIDTH>::PIECES] = room.other[tile % 2],
        (*next)[pair_tiles<WIDTH>::PIECES] = room.other[(tile + 1) % 2];
        if (tile + 1 < tiles)
            fetch_pair<WIDTH, KEYS>(next[0], next[1], keys, key + KEYS, of.seq, dim);
        zr_copy_commit();
        zr_copy_wait(1);
        __syncthreads();
        float scores[FRAGMENTS][4] = {}, gradients[FRAGMENTS][4] = {};
        multiply_own<TYPE, WIDTH>(scores, room.own[0], now[0], at);
        multiply_own<TYPE, WIDTH>(gradients, room.own[1], now[1], at);
        score_gradients<WIDTH>(scores, gradients, of, own, a, key, at.pair);
        multiply_columns<TYPE, WIDTH, KEYS>(sums, scores, now[0], at);
        __syncthreads();
    }
    store_rows<TYPE, WIDTH>(sums, a.scale, a.scale, (uint16_t *)a.dqkv + of.q, of.row,
                            first + at.row, of.seq, dim, at.pair);
}

// ---- the gradients of keys and values ----

// kept_queries with shared counters. Four lanes have four keys of the same queries: of the four
// counters of a fragment, two queries of `key` and two of key + 8, each finds one's bits, and takes
// from each lane its own key's.
template <int FRAGMENTS>
__device__ __forceinline__ uint32_t kept_queries_shared(const attention_head &of, int row, int key,
                                                        int pair)
{
    const int own = key % 4;
    const uint64_t counter =
        mask_element(of, row + 2 * pair + own % 2, key - own + own / 2 * 8) / 4;
    uint32_t mine = 0, bits = 0;
    ZR_NO_UNROLL
    for (int n = 0; n < FRAGMENTS; n++)
        mine |=
            dropout_keep_four(of.key, counter + (uint64_t)(2 * n) * (uint32_t)of.seq, of.threshold)
            << 4 * n;
    ZR_UNROLL
    for (int away = 0; away < 4; away++) {
        const uint32_t theirs = __shfl_xor_sync(~0u, mine, 4 * away);
        bits |= (theirs >> own & 0x11111111u) << (own ^ away);
    }
    return bits;
}

// Bit 4 n + i: whether dropout keeps element i of fragment n of scores, whose columns are queries.
// All lanes of the warp come here.
template <int FRAGMENTS>
__device__ __forceinline__ uint32_t kept_queries(const attention_head &of, int row, int key,
                                                 int pair)
{
    if (shares_counters(of))
        return kept_queries_shared<FRAGMENTS>(of, row, key, pair);
    const uint64_t first = mask_element(of, row + 2 * pair, key);
    uint32_t bits = 0;
    ZR_NO_UNROLL
    for (int n = 0; n < 4 * FRAGMENTS; n++) {
        const uint64_t away = (uint64_t)(n / 4 * 8 + n % 2) * (uint32_t)of.seq;
        bits |=
            (uint32_t)dropout_keep(of.key, first + away + (uint32_t)(n / 2 % 2 * 8), of.threshold)
            << n;
    }
    return bits;
}

// What a tile's queries have, as it lies in memory: one's a lane, which gives it to those that work
// on that query. It is read before a tile is waited for, and first used when products are there.
struct tile_query {
    float lse, delta;
    int start;
};

template <int WIDTH, class A>
__device__ __forceinline__ tile_query tile_query_of(const A &a, const attention_head &of, int first,
                                                    int end, int lane)
{
    const int row = first + lane % pair_tiles<WIDTH>::ROWS;
    const bool there = row < end;
    return tile_query{there ? a.lse[of.sums + row] : 0, there ? a.delta[of.sums + row] : 0,
                      there && of.starts ? of.starts[row] : 0};
}

// Makes probabilities, in `scores`, and gradients of scores, in `gradients`, of scores and
// gradients of probabilities, whose rows are keys: `key` and key + 8. end: after the last query.
template <int WIDTH, class A>
__device__ __forceinline__ void key_gradients(float (*scores)[4], float (*gradients)[4],
                                              const attention_head &of, const A &a,
                                              const tile_query &query, int key, int first, int end,
                                              int pair)
{
    enum { FRAGMENTS = pair_tiles<WIDTH>::FRAGMENTS };
    const uint32_t kept = a.threshold ? kept_queries<FRAGMENTS>(of, first, key, pair) : ~0u;
    ZR_UNROLL
    for (int m = 0; m < 2 * FRAGMENTS; m++) {
        const int n = m / 2, row = first + 8 * n + 2 * pair + m % 2;
        const float lse = __shfl_sync(~0u, query.lse, row - first) * ZR_LOG2_E;
        const float delta = __shfl_sync(~0u, query.delta, row - first);
        const int document = __shfl_sync(~0u, query.start, row - first);
        const int start = row < end ? first_seen(of, row, document) : row + 1;
        ZR_UNROLL
        for (int r = 0; r < 2; r++) {
            const int i = 2 * r + m % 2, own = key + 8 * r;
            const bool seen = own >= start && own <= row;
            const float weight = seen ? zr_exp2(scores[n][i] * (a.scale * ZR_LOG2_E) - lse) : 0;
            const float factor = kept >> (4 * n + i) & 1 ? a.kept : 0;
            scores[n][i] = weight * factor;
            gradients[n][i] = seen ? weight * (gradients[n][i] * factor - delta) : 0;
        }
    }
}

template <int WIDTH>
__device__ __forceinline__ void store_shared(const float (*sums)[4], float factor, float *to,
                                             int64_t step, int row, int end, int dim, int pair)
{
    ZR_UNROLL
    for (int n = 0; n < WIDTH / 8; n++)
        ZR_UNROLL
    for (int i = 0; i < 4; i++)
        if (row + 8 * (i / 2) < end && 8 * n < dim)
            to[(row + 8 * (i / 2)) * step + 8 * n + 2 * pair + i % 2] = sums[n][i] * factor;
}

// A block's keys, and the steps that it takes: the tiles of each query head that shares them, one
// head after another.
struct key_block {
    int64_t sample, kv_head, sharing;
    int first, end;   // the first key; after the last query that sees one
    int tiles, steps; // of a head, of all; the first tile begins at `first`
};

template <int WIDTH, class A> __device__ __forceinline__ key_block key_block_of(const A &a)
{
    enum { QUERIES = pair_tiles<WIDTH>::ROWS };
    const int blocks = (int)((a.seq + BLOCK_ROWS - 1) / BLOCK_ROWS), seq = (int)a.seq;
    const int64_t index = blockIdx.x / blocks;
    key_block block;
    block.sample = index / a.kv_heads;
    block.kv_head = index % a.kv_heads;
    block.sharing = a.heads / a.kv_heads;
    block.first = (int)(blockIdx.x % blocks) * BLOCK_ROWS;
    block.end = rows_seeing(head_of(a, block.sample, block.kv_head * block.sharing),
                            (block.first + BLOCK_ROWS < seq ? block.first + BLOCK_ROWS : seq) - 1);
    block.tiles = (block.end - block.first + QUERIES - 1) / QUERIES;
    block.steps = block.tiles * (int)block.sharing;
    return block;
}

template <class A>
__device__ __forceinline__ attention_head head_at(const A &a, const key_block &block, int step)
{
    return head_of(a, block.sample, block.kv_head * block.sharing + step / block.tiles);
}

template <int WIDTH, class A>
__device__ __forceinline__ void fetch_step(pair_tiles<WIDTH> &room, const A &a,
                                           const key_block &block, int step)
{
    enum { QUERIES = pair_tiles<WIDTH>::ROWS };
    if (step < block.steps)
        fetch_pair<WIDTH, QUERIES>(room.other[step % 2][0], room.other[step % 2][1],
                                   queries_of(a, head_at(a, block, step)),
                                   block.first + step % block.tiles * QUERIES, block.end,
                                   (int)a.head_dim);
    zr_copy_commit();
}

template <int TYPE, int WIDTH, class A>
__device__ __forceinline__ void store_keys(const float (*dk)[4], const float (*dv)[4],
                                           const key_block &block, const A &a, const place &at)
{
    const int row = block.first + at.row, seq = (int)a.seq, dim = (int)a.head_dim;
    const int64_t keys = a.kv_heads * dim;
    if (a.d_shared) {
        float *to = a.d_shared + block.sample * seq * 2 * keys + block.kv_head * dim;
        store_shared<WIDTH>(dk, a.scale, to, 2 * keys, row, seq, dim, at.pair);
        store_shared<WIDTH>(dv, 1, to + keys, 2 * keys, row, seq, dim, at.pair);
        return;
    }
    const attention_head of = head_at(a, block, 0);
    uint16_t *to = (uint16_t *)a.dqkv;
    store_rows<TYPE, WIDTH>(dk, a.scale, a.scale, to + of.k, of.row, row, seq, dim, at.pair);
    store_rows<TYPE, WIDTH>(dv, 1, 1, to + of.v, of.row, row, seq, dim, at.pair);
}

template <int TYPE, int WIDTH, class A>
__device__ __forceinline__ void run_keys(pair_tiles<WIDTH> &room, const A &a)
{
    enum { QUERIES = pair_tiles<WIDTH>::ROWS, FRAGMENTS = QUERIES / 8 };
    const place at = place_of_thread();
    const key_block block = key_block_of<WIDTH>(a);
    float dk[WIDTH / 8][4] = {}, dv[WIDTH / 8][4] = {};
    fetch_pair<WIDTH, BLOCK_ROWS>(room.own[0], room.own[1], keys_of(a, head_at(a, block, 0)),
                                  block.first, (int)a.seq, (int)a.head_dim);
    fetch_step(room, a, block, 0); // a group with the block's own
    for (int step = 0; step < block.steps; step++) {
        const uint4 *queries = room.other[step % 2][0], *douts = room.other[step % 2][1];
        const attention_head of = head_at(a, block, step);
        const int first = block.first + step % block.tiles * QUERIES;
        const tile_query query = tile_query_of<WIDTH>(a, of, first, block.end, at.lane);
        fetch_step(room, a, block, step + 1);
        zr_copy_wait(1);
        __syncthreads();
        float scores[FRAGMENTS][4] = {}, gradients[FRAGMENTS][4] = {};
        multiply_own<TYPE, WIDTH>(scores, room.own[0], queries, at);
        multiply_own<TYPE, WIDTH>(gradients, room.own[1], douts, at);
        key_gradients<WIDTH>(scores, gradients, of, a, query, block.first + at.row, first,
                             block.end, at.pair);
        multiply_columns<TYPE, WIDTH, QUERIES>(dv, scores, douts, at);
        multiply_columns<TYPE, WIDTH, QUERIES>(dk, gradients, queries, at);
        __syncthreads();
    }
    store_keys<TYPE, WIDTH>(dk, dv, block, a, at);
}

} // namespace

// run(room, a) for the type.
#define ZR_BACKWARD(kernel, run, width)                                                            \
    ZR_GLOBAL(kernel, THREADS)                                                                     \
    {                                                                                              \
        __shared__ __align__(16) pair_tiles<width> room;                                           \
        if (a.type == ZR_TYPE_BF16)                                                                \
            run<ZR_TYPE_BF16, width>(room, a);                                                     \
        else                                                                                       \
            run<ZR_TYPE_F16, width>(room, a);                                                      \
    }
ZR_BACKWARD(attention_queries_64, run_queries, 64)
ZR_BACKWARD(attention_queries_128, run_queries, 128)
ZR_BACKWARD(attention_keys_64, run_keys, 64)
ZR_BACKWARD(attention_keys_128, run_keys, 128)
