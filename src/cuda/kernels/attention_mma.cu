// Causal attention of 16-bit types on tensor cores (FlashAttention-2: Dao, 2023), for heads of up
// to 128 elements, a multiple of 8. Heads are filled up to WIDTH with zeros.
//
// A block has 64 rows, 16 a warp: queries in forward and for dQ, keys for dK and dV. It goes
// through the rows of the other side tile by tile; the next tile comes while one is worked on. A
// tile lies in pieces of sixteen bytes, piece c of row r at c ^ r % 8, so that the eight rows that
// a load names lie in different banks. Factors of products are rounded to the type, probabilities
// and their gradients too; sums are fp32. Rows that are not there are zeros, and never seen.
// attention.cu says what is computed.
#include "attention.h"
#include "mma.h"

using namespace zr;

enum {
    BLOCK_ROWS = 64, // 16 a warp
    THREADS = 128
};

namespace {

#define ZR_LOG2_E 1.44269504088896340736f
#define ZR_LN_2 0.693147180559945309417f

// Where a thread is: rows `row` and row + 8 of a block are those of its fragments.
struct place {
    int lane, warp, group, pair, row;
};

__device__ __forceinline__ place place_of_thread()
{
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    return place{lane, warp, lane / 4, lane % 4, 16 * warp + lane / 4};
}

template <int WIDTH> __device__ __forceinline__ int piece_at(int row, int piece)
{
    return row * (WIDTH / 8) + (piece ^ (row & 7));
}

// Begins to copy rows first to first + ROWS - 1.
template <int WIDTH, int ROWS>
__device__ __forceinline__ void fetch(uint4 *tile, const uint16_t *from, int64_t step, int first,
                                      int end, int dim)
{
    ZR_UNROLL
    for (int n = 0; n < ROWS * WIDTH / 8 / THREADS; n++) {
        const int i = n * THREADS + (int)threadIdx.x, row = i / (WIDTH / 8), piece = i % (WIDTH / 8);
        const bool there = first + row < end && 8 * piece < dim;
        zr_copy_async(tile + piece_at<WIDTH>(row, piece),
                      there ? from + (first + row) * step + 8 * piece : from, !there);
    }
}

// Of columns 16 c of a tile: the rows 16 n of the right factor x', as two fragments of 8 rows.
template <int WIDTH>
__device__ __forceinline__ void load_right(uint32_t b[4], const uint4 *tile, const place &at, int n,
                                           int c)
{
    const int matrix = at.lane / 8;
    zr_load_matrices(
        b, tile + piece_at<WIDTH>(16 * n + 8 * (matrix / 2) + at.lane % 8, 2 * c + matrix % 2));
}

// The right factor x itself: its rows 16 n, as two fragments of 8 columns from 16 c on.
template <int WIDTH>
__device__ __forceinline__ void load_right_transposed(uint32_t b[4], const uint4 *tile,
                                                      const place &at, int n, int c)
{
    const int matrix = at.lane / 8;
    zr_load_transposed(
        b, tile + piece_at<WIDTH>(16 * n + 8 * (matrix % 2) + at.lane % 8, 2 * c + matrix / 2));
}

// The left factor: the warp's 16 rows, columns from 16 c on.
template <int WIDTH>
__device__ __forceinline__ void load_left(uint32_t a[4], const uint4 *tile, const place &at, int c)
{
    const int matrix = at.lane / 8;
    zr_load_matrices(a, tile + piece_at<WIDTH>(16 * at.warp + 8 * (matrix % 2) + at.lane % 8,
                                               2 * c + matrix / 2));
}

// The same from memory.
template <int WIDTH>
__device__ __forceinline__ void fetch_left(uint32_t a[WIDTH / 16][4], const uint16_t *from,
                                           int64_t step, int row, int end, int dim, int pair)
{
    ZR_UNROLL
    for (int c = 0; c < WIDTH / 16; c++)
        ZR_UNROLL
    for (int i = 0; i < 4; i++) {
        const int r = row + 8 * (i % 2), column = 16 * c + 8 * (i / 2);
        a[c][i] = r < end && column < dim
                      ? *(const uint32_t *)(from + r * step + column + 2 * pair)
                      : 0;
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

// sums (16 x WIDTH) += weights (16 x COLUMNS) tile
template <int TYPE, int WIDTH, int COLUMNS>
__device__ __forceinline__ void multiply_columns(float (*sums)[4], const float (*weights)[4],
                                                 const uint4 *tile, const place &at)
{
    ZR_UNROLL
    for (int n = 0; n < COLUMNS / 16; n++) {
        const float *left = weights[2 * n], *right = weights[2 * n + 1];
        const uint32_t a[4] = {pack<TYPE>(left[0], left[1]), pack<TYPE>(left[2], left[3]),
                               pack<TYPE>(right[0], right[1]), pack<TYPE>(right[2], right[3])};
        ZR_UNROLL
        for (int c = 0; c < WIDTH / 16; c++) {
            uint32_t b[4];
            load_right_transposed<WIDTH>(b, tile, at, n, c);
            ZR_MMA_OF(TYPE, sums[2 * c], a, b);
            ZR_MMA_OF(TYPE, sums[2 * c + 1], a, b + 2);
        }
    }
}

// Bit 4 n + i: whether dropout keeps element i of fragment n of scores, whose rows are queries.
template <int FRAGMENTS>
__device__ __forceinline__ uint32_t kept_keys(const attention_head &at, int row, int key, int pair)
{
    uint32_t bits = 0;
    ZR_NO_UNROLL
    for (int n = 0; n < 2 * FRAGMENTS; n++)
        bits |= dropout_keep_pair(at.key,
                                  mask_element(at, row + n % 2 * 8, key + n / 2 * 8 + 2 * pair),
                                  at.threshold)
                << 2 * n;
    return bits;
}

// The same where columns are queries.
template <int FRAGMENTS>
__device__ __forceinline__ uint32_t kept_queries(const attention_head &at, int row, int key,
                                                 int pair)
{
    uint32_t bits = 0;
    ZR_NO_UNROLL
    for (int n = 0; n < 4 * FRAGMENTS; n++) {
        const int query = row + n / 4 * 8 + 2 * pair + n % 2;
        bits |= (uint32_t)dropout_keep(at.key, mask_element(at, query, key + n / 2 % 2 * 8),
                                       at.threshold)
                << n;
    }
    return bits;
}

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

template <int WIDTH> struct forward_state {
    float out[WIDTH / 8][4];
    float most[2], sum[2]; // of each row's scores, times log2 e
};

// Scales scores, and leaves out those of keys that are not seen.
template <int WIDTH>
__device__ __forceinline__ void mask_scores(float (*scores)[4], const query_block<WIDTH> &block,
                                            const place &at, int key, float scale)
{
    ZR_UNROLL
    for (int n = 0; n < key_tiles<WIDTH>::FRAGMENTS; n++)
        ZR_UNROLL
    for (int i = 0; i < 4; i++)
        scores[n][i] = block.sees(at, i / 2, key + 8 * n + 2 * at.pair + i % 2)
                           ? scores[n][i] * scale
                           : no_score();
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

template <int TYPE, int WIDTH>
__device__ __forceinline__ void store_rows(const float (*sums)[4], const float factor[2],
                                           uint16_t *to, int64_t step, int row, int end, int dim,
                                           int pair)
{
    ZR_UNROLL
    for (int r = 0; r < 2; r++)
        ZR_UNROLL
    for (int n = 0; n < WIDTH / 8; n++)
        if (row + 8 * r < end && 8 * n < dim)
            *(uint32_t *)(to + (row + 8 * r) * step + 8 * n + 2 * pair) =
                pack<TYPE>(sums[n][2 * r] * factor[r], sums[n][2 * r + 1] * factor[r]);
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
    store_rows<TYPE, WIDTH>(state.out, factor, (uint16_t *)a.out + block.of.out, block.of.out_row,
                            block.first + at.row, block.of.seq, block.dim, at.pair);
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

// Makes gradients of scores (in `scores`) of them and of those of probabilities.
template <int WIDTH, class A>
__device__ __forceinline__ void score_gradients(float (*scores)[4], const float (*gradients)[4],
                                                const query_block<WIDTH> &block, const A &a,
                                                const place &at, int key, const float lse[2],
                                                const float delta[2])
{
    enum { FRAGMENTS = key_tiles<WIDTH>::FRAGMENTS };
    const uint32_t kept =
        a.threshold ? kept_keys<FRAGMENTS>(block.of, block.first + at.row, key, at.pair) : ~0u;
    ZR_UNROLL
    for (int n = 0; n < FRAGMENTS; n++)
        ZR_UNROLL
    for (int i = 0; i < 4; i++) {
        const float weight = zr_exp2(scores[n][i] * (a.scale * ZR_LOG2_E) - lse[i / 2]);
        const float factor = kept >> (4 * n + i) & 1 ? a.kept : 0;
        scores[n][i] = block.sees(at, i / 2, key + 8 * n + 2 * at.pair + i % 2)
                           ? weight * (gradients[n][i] * factor - delta[i / 2])
                           : 0;
    }
}

template <int TYPE, int WIDTH, class A>
__device__ __forceinline__ void run_queries(key_tiles<WIDTH> &room, const A &a)
{
    enum { KEYS = key_tiles<WIDTH>::KEYS, FRAGMENTS = KEYS / 8 };
    const place at = place_of_thread();
    const query_block<WIDTH> block(a, at);
    const int row = block.first + at.row, end = block.of.seq;
    float sums[WIDTH / 8][4] = {}, lse[2], delta[2];
    uint32_t queries[WIDTH / 16][4], douts[WIDTH / 16][4];
    block.fetch_tile(room, 0);
    fetch_left<WIDTH>(queries, block.qkv + block.of.q, block.of.row, row, end, block.dim, at.pair);
    fetch_left<WIDTH>(douts, (const uint16_t *)a.dout + block.of.out, block.of.out_row, row, end,
                      block.dim, at.pair);
    for (int r = 0; r < 2; r++) {
        lse[r] = row + 8 * r < end ? a.lse[block.of.sums + row + 8 * r] * ZR_LOG2_E : 0;
        delta[r] = row + 8 * r < end ? a.delta[block.of.sums + row + 8 * r] : 0;
    }
    for (int tile = 0; tile < block.tiles; tile++) {
        block.fetch_tile(room, tile + 1);
        zr_copy_wait(1);
        __syncthreads();
        float scores[FRAGMENTS][4] = {}, gradients[FRAGMENTS][4] = {};
        multiply_rows<TYPE, WIDTH, KEYS>(scores, queries, room.keys[tile % 2], at);
        multiply_rows<TYPE, WIDTH, KEYS>(gradients, douts, room.values[tile % 2], at);
        score_gradients<WIDTH>(scores, gradients, block, a, at, block.begin + tile * KEYS, lse,
                               delta);
        multiply_columns<TYPE, WIDTH, KEYS>(sums, scores, room.keys[tile % 2], at);
        __syncthreads();
    }
    const float factor[2] = {a.scale, a.scale};
    store_rows<TYPE, WIDTH>(sums, factor, (uint16_t *)a.dqkv + block.of.q, block.of.row, row, end,
                            block.dim, at.pair);
}

template <int WIDTH> struct query_tiles { // and the block's own keys and values
    enum { QUERIES = 2048 / WIDTH, FRAGMENTS = QUERIES / 8, PIECES = QUERIES * WIDTH / 8 };
    uint4 keys[BLOCK_ROWS * WIDTH / 8], values[BLOCK_ROWS * WIDTH / 8];
    uint4 queries[2][PIECES], douts[2][PIECES];
};

template <int WIDTH> struct key_block {
    const uint16_t *qkv, *dout;
    int64_t sample, kv_head, sharing;
    int dim, first, end;     // keys from `first` on; `end`: after the last row that sees one
    int begin, tiles, steps; // the first row of the first tile; tiles of a head, and of all

    template <class A> __device__ __forceinline__ key_block(const A &a)
    {
        enum { QUERIES = query_tiles<WIDTH>::QUERIES };
        const int blocks = (int)((a.seq + BLOCK_ROWS - 1) / BLOCK_ROWS), seq = (int)a.seq;
        const int64_t index = blockIdx.x / blocks;
        sample = index / a.kv_heads;
        kv_head = index % a.kv_heads;
        sharing = a.heads / a.kv_heads;
        qkv = (const uint16_t *)a.qkv;
        dout = (const uint16_t *)a.dout;
        dim = (int)a.head_dim;
        first = (int)(blockIdx.x % blocks) * BLOCK_ROWS;
        end = rows_seeing(head_of(a, sample, kv_head * sharing),
                          (first + BLOCK_ROWS < seq ? first + BLOCK_ROWS : seq) - 1);
        begin = first;
        tiles = (end - begin + QUERIES - 1) / QUERIES;
        steps = tiles * (int)sharing;
    }

    template <class A> __device__ __forceinline__ attention_head head_at(const A &a, int step) const
    {
        return head_of(a, sample, kv_head * sharing + step / tiles);
    }

    __device__ __forceinline__ int row_at(int step) const
    {
        return begin + step % tiles * query_tiles<WIDTH>::QUERIES;
    }

    template <class A>
    __device__ __forceinline__ void fetch_tile(query_tiles<WIDTH> &room, const A &a, int step) const
    {
        enum { QUERIES = query_tiles<WIDTH>::QUERIES };
        if (step < steps) {
            const attention_head of = head_at(a, step);
            fetch<WIDTH, QUERIES>(room.queries[step % 2], qkv + of.q, of.row, row_at(step), end,
                                  dim);
            fetch<WIDTH, QUERIES>(room.douts[step % 2], dout + of.out, of.out_row, row_at(step),
                                  end, dim);
        }
        zr_copy_commit();
    }
};

// Makes probabilities (in `scores`) and gradients of scores (in `gradients`) of scores and
// gradients of probabilities, all transposed: rows are keys.
template <int WIDTH, class A>
__device__ __forceinline__ void transposed_gradients(float (*scores)[4], float (*gradients)[4],
                                                     const attention_head &of, const A &a,
                                                     const place &at, int key, int first, int end)
{
    enum { FRAGMENTS = query_tiles<WIDTH>::FRAGMENTS };
    const uint32_t kept = a.threshold ? kept_queries<FRAGMENTS>(of, first, key, at.pair) : ~0u;
    ZR_UNROLL
    for (int m = 0; m < 2 * FRAGMENTS; m++) {
        const int n = m / 2, row = first + 8 * n + 2 * at.pair + m % 2;
        const bool there = row < end;
        const float lse = there ? a.lse[of.sums + row] * ZR_LOG2_E : 0;
        const float delta = there ? a.delta[of.sums + row] : 0;
        const int start = there ? first_seen(of, row) : 0;
        ZR_UNROLL
        for (int r = 0; r < 2; r++) {
            const int i = 2 * r + m % 2, own = key + 8 * r;
            const bool seen = there && own <= row && own >= start;
            const float weight =
                seen ? zr_exp2(scores[n][i] * (a.scale * ZR_LOG2_E) - lse) : 0;
            const float factor = kept >> (4 * n + i) & 1 ? a.kept : 0;
            scores[n][i] = weight * factor;
            gradients[n][i] = seen ? weight * (gradients[n][i] * factor - delta) : 0;
        }
    }
}

// scores (16 x COLUMNS) += the block's own rows tile'
template <int TYPE, int WIDTH, int COLUMNS>
__device__ __forceinline__ void multiply_own(float (*scores)[4], const uint4 *own,
                                             const uint4 *tile, const place &at)
{
    ZR_UNROLL
    for (int c = 0; c < WIDTH / 16; c++) {
        uint32_t left[4];
        load_left<WIDTH>(left, own, at, c);
        ZR_UNROLL
        for (int n = 0; n < COLUMNS / 16; n++) {
            uint32_t b[4];
            load_right<WIDTH>(b, tile, at, n, c);
            ZR_MMA_OF(TYPE, scores[2 * n], left, b);
            ZR_MMA_OF(TYPE, scores[2 * n + 1], left, b + 2);
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

template <int TYPE, int WIDTH, class A>
__device__ __forceinline__ void store_keys(const float (*dk)[4], const float (*dv)[4],
                                           const key_block<WIDTH> &block, const A &a,
                                           const place &at)
{
    const int row = block.first + at.row, seq = (int)a.seq;
    const int64_t keys = a.kv_heads * block.dim;
    if (a.d_shared) {
        float *to = a.d_shared + block.sample * seq * 2 * keys + block.kv_head * block.dim;
        store_shared<WIDTH>(dk, a.scale, to, 2 * keys, row, seq, block.dim, at.pair);
        store_shared<WIDTH>(dv, 1, to + keys, 2 * keys, row, seq, block.dim, at.pair);
        return;
    }
    const attention_head of = block.head_at(a, 0);
    const float scales[2] = {a.scale, a.scale}, ones[2] = {1, 1};
    uint16_t *to = (uint16_t *)a.dqkv;
    store_rows<TYPE, WIDTH>(dk, scales, to + of.k, of.row, row, seq, block.dim, at.pair);
    store_rows<TYPE, WIDTH>(dv, ones, to + of.v, of.row, row, seq, block.dim, at.pair);
}

// The heads that share a key add to it one after another.
template <int TYPE, int WIDTH, class A>
__device__ __forceinline__ void run_keys(query_tiles<WIDTH> &room, const A &a)
{
    enum { QUERIES = query_tiles<WIDTH>::QUERIES, FRAGMENTS = QUERIES / 8 };
    const place at = place_of_thread();
    const key_block<WIDTH> block(a);
    const attention_head any = block.head_at(a, 0);
    float dk[WIDTH / 8][4] = {}, dv[WIDTH / 8][4] = {};
    fetch<WIDTH, BLOCK_ROWS>(room.keys, block.qkv + any.k, any.row, block.first, any.seq, block.dim);
    fetch<WIDTH, BLOCK_ROWS>(room.values, block.qkv + any.v, any.row, block.first, any.seq,
                             block.dim);
    block.fetch_tile(room, a, 0); // a group with the block's own
    for (int step = 0; step < block.steps; step++) {
        const uint4 *queries = room.queries[step % 2], *douts = room.douts[step % 2];
        block.fetch_tile(room, a, step + 1);
        zr_copy_wait(1);
        __syncthreads();
        float scores[FRAGMENTS][4] = {}, gradients[FRAGMENTS][4] = {};
        multiply_own<TYPE, WIDTH, QUERIES>(scores, room.keys, queries, at);
        multiply_own<TYPE, WIDTH, QUERIES>(gradients, room.values, douts, at);
        transposed_gradients<WIDTH>(scores, gradients, block.head_at(a, step), a, at,
                                    block.first + at.row, block.row_at(step), block.end);
        multiply_columns<TYPE, WIDTH, QUERIES>(dv, scores, douts, at);
        multiply_columns<TYPE, WIDTH, QUERIES>(dk, gradients, queries, at);
        __syncthreads();
    }
    store_keys<TYPE, WIDTH>(dk, dv, block, a, at);
}

} // namespace

// run(room, a) for the type.
#define ZR_ATTENTION_OF_TYPE(run, width)                                                           \
    if (a.type == ZR_TYPE_BF16)                                                                    \
        run<ZR_TYPE_BF16, width>(room, a);                                                         \
    else                                                                                           \
        run<ZR_TYPE_F16, width>(room, a);

#define ZR_ATTENTION_OF_WIDTH(width)                                                               \
    ZR_GLOBAL(attention_forward_##width, THREADS)                                                  \
    {                                                                                              \
        __shared__ __align__(16) key_tiles<width> room;                                            \
        ZR_ATTENTION_OF_TYPE(run_forward, width)                                                   \
    }                                                                                              \
    ZR_GLOBAL(attention_queries_##width, THREADS)                                                  \
    {                                                                                              \
        __shared__ __align__(16) key_tiles<width> room;                                            \
        ZR_ATTENTION_OF_TYPE(run_queries, width)                                                   \
    }                                                                                              \
    ZR_GLOBAL(attention_keys_##width, THREADS)                                                     \
    {                                                                                              \
        __shared__ __align__(16) query_tiles<width> room;                                          \
        ZR_ATTENTION_OF_TYPE(run_keys, width)                                                      \
    }
ZR_ATTENTION_OF_WIDTH(64)
ZR_ATTENTION_OF_WIDTH(128)
