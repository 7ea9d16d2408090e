// Causal attention of any type and head size in fp32, with a cache, too, and the rotation of
// queries and keys by their positions. attention_mma.cu has most sizes of 16-bit types.
//
// A block has one row a warp, and goes through the rows of the other side 32 at a time, one a lane:
// they are staged in shared memory for the scores. The sums over them have the elements of a head
// in the lanes. Backward, with P the probabilities, M the mask of dropout, O = (P*M) V:
//   dV = (P*M)' dO;  dP = (dO V')*M;  dS = P*(dP - rowsum(dO*O));  dQ = scale dS K;
//   dK = scale dS' Q
#include "attention.h"

using namespace zr;

constexpr int ROWS = 4, // of a block, a warp each
    STAGED = 32,        // rows of the other side, a lane each
    MOST_DIM = 256,     // elements of a head
    PARTS = MOST_DIM / 32, DECODE_WARPS = 8;

namespace {

struct plain_room {
    float staged[STAGED * (MOST_DIM + 1)];
    float own[ROWS][2][MOST_DIM];
    float weight[ROWS][2][STAGED];
};

__device__ __forceinline__ int lane_of() { return (int)(threadIdx.x % 32); }
__device__ __forceinline__ int warp_of() { return (int)(threadIdx.x / 32); }

__device__ __forceinline__ float warp_sum(float value)
{
    for (int with = 16; with; with /= 2)
        value += __shfl_xor_sync(~0u, value, with);
    return value;
}

__device__ __forceinline__ float warp_most(float value)
{
    for (int with = 16; with; with /= 2)
        value = fmaxf(value, __shfl_xor_sync(~0u, value, with));
    return value;
}

// Stages rows first to first + 31 of an array; those from `end` on as zeros. Waits for the block
// before and after.
__device__ __forceinline__ void stage(plain_room &room, const void *array, int type, int64_t from,
                                      int64_t step, int first, int end, int dim)
{
    const int pitch = dim | 1; // odd, so that lanes read from as many banks
    __syncthreads();
    for (int i = (int)threadIdx.x; i < STAGED * dim; i += (int)blockDim.x) {
        const int row = i / dim, column = i % dim;
        room.staged[row * pitch + column] =
            first + row < end ? get(array, type, from + (first + row) * step + column) : 0;
    }
    __syncthreads();
}

// The product of the lane's staged row with one of the warp's own.
__device__ __forceinline__ float dot_staged(const plain_room &room, int which, int dim)
{
    const float *own = room.own[warp_of()][which], *other = room.staged + lane_of() * (dim | 1);
    float sums[4] = {}; // several, which err less than one
    int c = 0;
    ZR_UNROLL_TWO
    for (; c + 4 <= dim; c += 4)
        ZR_UNROLL
    for (int i = 0; i < 4; i++)
        sums[i] += own[c + i] * other[c + i];
    for (; c < dim; c++)
        sums[0] += own[c] * other[c];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

__device__ __forceinline__ void load_own(plain_room &room, int which, const void *array, int type,
                                         int64_t from, bool there, int dim)
{
    for (int c = lane_of(); c < dim; c += 32)
        room.own[warp_of()][which][c] = there ? get(array, type, from + c) : 0;
}

// sums[m], of element lane + 32 m, plus the weighted rows [first, end) of an array; `weight` is
// that of row `origin`.
__device__ __forceinline__ void add_rows(float sums[PARTS], const float *weight, int origin,
                                         int first, int end, const void *array, int type,
                                         int64_t from, int64_t step, int dim)
{
    for (int j = first; j < end; j++) {
        const int64_t row = from + j * step + lane_of();
        const float by = weight[j - origin];
        ZR_UNROLL
        for (int m = 0; m < PARTS; m++)
            if (lane_of() + 32 * m < dim)
                sums[m] += by * get(array, type, row + 32 * m);
    }
}

__device__ __forceinline__ void put_row(const float sums[PARTS], float factor, void *array,
                                        int type, int64_t to, int dim)
{
    ZR_UNROLL
    for (int m = 0; m < PARTS; m++)
        if (lane_of() + 32 * m < dim)
            put(array, type, to + lane_of() + 32 * m, factor * sums[m]);
}

__device__ __forceinline__ float mask_factor(const attention_head &at, int row, int key)
{
    return !at.threshold || dropout_keep(at.key, mask_element(at, row, key), at.threshold) ? at.kept
                                                                                           : 0;
}

// A row's softmax as it goes: the largest score, and what was added up relative to it.
struct running {
    float most, sum;
};

// Takes a score of each lane; returns its weight, and in *factor what earlier sums are worth now.
__device__ __forceinline__ float take_scores(running &of, float score, float *factor)
{
    const float most = fmaxf(of.most, warp_most(score));
    const float base = most == no_score() ? 0 : most; // nothing was seen so far
    *factor = expf(of.most - base);
    of.most = most;
    const float weight = expf(score - base);
    of.sum = of.sum * *factor + weight;
    return weight;
}

} // namespace

// Blocks of late rows, which see the most, come first.
ZR_GLOBAL(attention_forward, 128)
{
    __shared__ plain_room room;
    const int tiles = (int)((a.seq + ROWS - 1) / ROWS), dim = (int)a.head_dim;
    const int64_t of = blockIdx.x / tiles;
    const attention_head at = head_of(a, of / a.heads, of % a.heads);
    const int first = (tiles - 1 - (int)(blockIdx.x % tiles)) * ROWS, row = first + warp_of();
    const bool there = row < at.seq;
    const int begin = there ? first_seen(at, row) : 0, end = there ? row + 1 : 0;
    const int last = first + ROWS < at.seq ? first + ROWS : at.seq;
    float sums[PARTS] = {};
    running softmax = {no_score(), 0};
    load_own(room, 0, a.qkv, a.type, at.q + row * at.row, there, dim);
    for (int j0 = first_seen(at, first); j0 < last; j0 += STAGED) {
        stage(room, a.qkv, a.type, at.k, at.row, j0, last, dim);
        const int j = j0 + lane_of();
        const bool seen = j >= begin && j < end;
        const float score = seen ? dot_staged(room, 0, dim) * a.scale : no_score();
        float factor;
        const float weight = take_scores(softmax, score, &factor);
        ZR_UNROLL
        for (int m = 0; m < PARTS; m++)
            sums[m] *= factor;
        room.weight[warp_of()][0][lane_of()] = seen ? weight * mask_factor(at, row, j) : 0;
        __syncwarp();
        add_rows(sums, room.weight[warp_of()][0], j0, j0 > begin ? j0 : begin,
                 j0 + STAGED < end ? j0 + STAGED : end, a.qkv, a.type, at.v, at.row, dim);
        __syncwarp();
    }
    const float sum = warp_sum(softmax.sum);
    if (!there)
        return;
    put_row(sums, 1 / sum, a.out, a.type, at.out + row * at.out_row, dim);
    if (a.lse && lane_of() == 0)
        a.lse[at.sums + row] = softmax.most + logf(sum);
}

// A warp has one row of one head.
ZR_GLOBAL(attention_delta, 128)
{
    const int64_t all = a.batch * a.seq * a.heads, item = blockIdx.x * (int64_t)4 + warp_of();
    const bool there = item < all;
    float sum = 0;
    for (int64_t c = lane_of(); there && c < a.head_dim; c += 32)
        sum +=
            get(a.out, a.type, item * a.head_dim + c) * get(a.dout, a.type, item * a.head_dim + c);
    sum = warp_sum(sum);
    const int64_t head = item % a.heads, row = item / a.heads % a.seq,
                  sample = item / a.heads / a.seq;
    if (there && lane_of() == 0)
        a.delta[(sample * a.heads + head) * a.seq + row] = sum;
}

ZR_GLOBAL(attention_queries, 128)
{
    __shared__ plain_room room;
    const int tiles = (int)((a.seq + ROWS - 1) / ROWS), dim = (int)a.head_dim;
    const int64_t of = blockIdx.x / tiles;
    const attention_head at = head_of(a, of / a.heads, of % a.heads);
    const int first = (tiles - 1 - (int)(blockIdx.x % tiles)) * ROWS, row = first + warp_of();
    const bool there = row < at.seq;
    const int begin = there ? first_seen(at, row) : 0, end = there ? row + 1 : 0;
    const int last = first + ROWS < at.seq ? first + ROWS : at.seq;
    const float lse = there ? a.lse[at.sums + row] : 0, delta = there ? a.delta[at.sums + row] : 0;
    float sums[PARTS] = {};
    load_own(room, 0, a.qkv, a.type, at.q + row * at.row, there, dim);
    load_own(room, 1, a.dout, a.type, at.out + row * at.out_row, there, dim);
    for (int j0 = first_seen(at, first); j0 < last; j0 += STAGED) {
        const int j = j0 + lane_of();
        const bool seen = j >= begin && j < end;
        stage(room, a.qkv, a.type, at.k, at.row, j0, last, dim);
        const float weight = seen ? expf(dot_staged(room, 0, dim) * a.scale - lse) : 0;
        stage(room, a.qkv, a.type, at.v, at.row, j0, last, dim);
        room.weight[warp_of()][0][lane_of()] =
            seen ? weight * (dot_staged(room, 1, dim) * mask_factor(at, row, j) - delta) : 0;
        __syncwarp();
        add_rows(sums, room.weight[warp_of()][0], j0, j0 > begin ? j0 : begin,
                 j0 + STAGED < end ? j0 + STAGED : end, a.qkv, a.type, at.k, at.row, dim);
        __syncwarp();
    }
    if (there)
        put_row(sums, a.scale, a.dqkv, a.type, at.q + row * at.row, dim);
}

namespace {

// Adds what the rows of one query head give a warp's key.
__device__ void add_queries(plain_room &room, const zr_attention_keys_args &a,
                            const attention_head &at, int key, int first, int end, float dk[PARTS],
                            float dv[PARTS])
{
    const int dim = (int)a.head_dim;
    float *weights = room.weight[warp_of()][0], *gradients = room.weight[warp_of()][1];
    for (int i0 = first; i0 < end; i0 += STAGED) {
        const int i = i0 + lane_of();
        const bool seen = key < at.seq && i >= key && i < end && first_seen(at, i) <= key;
        stage(room, a.qkv, a.type, at.q, at.row, i0, end, dim);
        const float weight =
            seen ? expf(dot_staged(room, 0, dim) * a.scale - a.lse[at.sums + i]) : 0;
        stage(room, a.dout, a.type, at.out, at.out_row, i0, end, dim);
        const float factor = seen ? mask_factor(at, i, key) : 0;
        weights[lane_of()] = weight * factor;
        gradients[lane_of()] =
            seen ? weight * (dot_staged(room, 1, dim) * factor - a.delta[at.sums + i]) : 0;
        __syncwarp();
        const int from = i0 > key ? i0 : key, to = i0 + STAGED < end ? i0 + STAGED : end;
        add_rows(dk, gradients, i0, from, to, a.qkv, a.type, at.q, at.row, dim);
        add_rows(dv, weights, i0, from, to, a.dout, a.type, at.out, at.out_row, dim);
        __syncwarp();
    }
}

} // namespace

// The heads that share a key add to it one after another.
ZR_GLOBAL(attention_keys, 128)
{
    __shared__ plain_room room;
    const int tiles = (int)((a.seq + ROWS - 1) / ROWS), dim = (int)a.head_dim;
    const int64_t of = blockIdx.x / tiles, sample = of / a.kv_heads, kv_head = of % a.kv_heads;
    const int64_t sharing = a.heads / a.kv_heads;
    const attention_head any = head_of(a, sample, kv_head * sharing);
    const int first = (int)(blockIdx.x % tiles) * ROWS, key = first + warp_of();
    const bool there = key < any.seq;
    const int last = first + ROWS < any.seq ? first + ROWS : any.seq;
    const int end = rows_seeing(any, last - 1);
    float dk[PARTS] = {}, dv[PARTS] = {};
    load_own(room, 0, a.qkv, a.type, any.k + key * any.row, there, dim);
    load_own(room, 1, a.qkv, a.type, any.v + key * any.row, there, dim);
    for (int64_t h = kv_head * sharing; h < (kv_head + 1) * sharing; h++)
        add_queries(room, a, head_of(a, sample, h), key, first, end, dk, dv);
    if (!there)
        return;
    void *to = a.d_shared ? (void *)a.d_shared : a.dqkv;
    const int type = a.d_shared ? (int)ZR_TYPE_F32 : a.type;
    const int64_t keys = a.kv_heads * dim,
                  k = a.d_shared ? (sample * a.seq + key) * 2 * keys + kv_head * dim
                                 : any.k + key * any.row;
    put_row(dk, a.scale, to, type, k, dim);
    put_row(dv, 1, to, type, k + keys, dim);
}

namespace {

template <class A> __device__ __forceinline__ int run_of(const A &a, int64_t row)
{
    int low = 0, high = (int)a.runs; // begin[low] <= row < begin[high]
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (a.begin[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The product of a query with a cached key.
__device__ __forceinline__ float dot_cached(const float *query, const float *key, int dim)
{
    float sums[4] = {};
    int c = 0;
    ZR_UNROLL_TWO
    for (; dim % 4 == 0 && c < dim; c += 4) {
        const uint4 four = *(const uint4 *)(key + c);
        sums[0] += query[c] * float_of_bits(four.x);
        sums[1] += query[c + 1] * float_of_bits(four.y);
        sums[2] += query[c + 2] * float_of_bits(four.z);
        sums[3] += query[c + 3] * float_of_bits(four.w);
    }
    for (; c < dim; c++)
        sums[0] += query[c] * key[c];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

struct decode_room {
    float query[MOST_DIM];
    float weight[DECODE_WARPS][STAGED];
    float sums[DECODE_WARPS][MOST_DIM];
    float most[DECODE_WARPS], sum[DECODE_WARPS];
};

// What a warp finds at positions first to last, of which it has each eighth 32.
__device__ __forceinline__ void decode_part(decode_room &room, const float *k, const float *v,
                                            int64_t first, int64_t last, float scale, int dim)
{
    const int warp = warp_of();
    float sums[PARTS] = {};
    running softmax = {no_score(), 0};
    for (int64_t j0 = first + warp * STAGED; j0 <= last; j0 += DECODE_WARPS * STAGED) {
        const int64_t j = j0 + lane_of();
        const int count = (int)(last - j0 < STAGED - 1 ? last - j0 + 1 : STAGED);
        const float score =
            j <= last ? dot_cached(room.query, k + j * dim, dim) * scale : no_score();
        float factor;
        room.weight[warp][lane_of()] = take_scores(softmax, score, &factor);
        __syncwarp();
        ZR_UNROLL
        for (int m = 0; m < PARTS; m++)
            sums[m] *= factor;
        add_rows(sums, room.weight[warp], 0, 0, count, v + j0 * dim, ZR_TYPE_F32, 0, dim, dim);
        __syncwarp();
    }
    softmax.sum = warp_sum(softmax.sum);
    put_row(sums, 1, room.sums[warp], ZR_TYPE_F32, 0, dim);
    room.most[warp] = softmax.most;
    room.sum[warp] = softmax.sum;
}

} // namespace

ZR_GLOBAL(attention_append, 256)
{
    const int64_t keys = a.kv_heads * a.head_dim, row_elements = a.heads * a.head_dim + 2 * keys;
    const int64_t all = (a.begin[a.runs] - a.begin[0]) * keys;
    for (int64_t i = thread_number(); i < all; i += thread_count()) {
        const int64_t row = a.begin[0] + i / keys, element = i % keys;
        const int run = run_of(a, row);
        const int64_t position = a.first[run] + row - a.begin[run],
                      head = a.sequence[run] * a.kv_heads + element / a.head_dim,
                      to = (head * a.capacity + position) * a.head_dim + element % a.head_dim,
                      from = row * row_elements + a.heads * a.head_dim + element;
        a.k[to] = get(a.qkv, a.type, from);
        a.v[to] = get(a.qkv, a.type, from + keys);
    }
}

// A block has one row of one head. Its bits depend on the sequence alone: each warp has the same
// positions, however many rows there are.
ZR_GLOBAL(attention_decode, 32 * DECODE_WARPS)
{
    __shared__ decode_room room;
    const int dim = (int)a.head_dim;
    const int64_t row = a.begin[0] + blockIdx.x, head = blockIdx.y;
    const int run = run_of(a, row);
    const int64_t position = a.first[run] + row - a.begin[run],
                  first = a.window && position >= a.window ? position - a.window + 1 : 0;
    const int64_t cached =
        (a.sequence[run] * a.kv_heads + head / (a.heads / a.kv_heads)) * a.capacity * dim;
    const int64_t from = (row * (a.heads + 2 * a.kv_heads) + head) * dim;
    for (int c = (int)threadIdx.x; c < dim; c += (int)blockDim.x)
        room.query[c] = get(a.qkv, a.type, from + c);
    __syncthreads();
    decode_part(room, a.k + cached, a.v + cached, first, position, a.scale, dim);
    __syncthreads();
    float most = room.most[0], sum = 0;
    for (int w = 1; w < DECODE_WARPS; w++)
        most = fmaxf(most, room.most[w]);
    for (int w = 0; w < DECODE_WARPS; w++)
        sum += room.sum[w] * expf(room.most[w] - most);
    for (int c = (int)threadIdx.x; c < dim; c += (int)blockDim.x) {
        float element = 0;
        for (int w = 0; w < DECODE_WARPS; w++)
            element += room.sums[w][c] * expf(room.most[w] - most);
        put(a.out, a.type, (row * a.heads + head) * dim + c, element / sum);
    }
}

namespace {

// The cosine and the sine of a float, to about the last bit of double. Those of the library have a
// table of what large angles need, in local memory; those of half turns need none.
__device__ __forceinline__ void turn(float angle, double &cosine, double &sine)
{
    const double inverse = 0x1.45f306dc9c883p-2, rest = -0x1.6b01ec5417056p-56; // their sum: 1/pi
    const double turns = angle * inverse, whole = 2 * rint(turns / 2);
    const double lost = fma((double)angle, inverse, -turns) + angle * rest;
    sincospi(turns - whole + lost, &sine, &cosine);
}

} // namespace

// Angles are products rounded to fp32, their cosines and sines those of double: positions may be
// large.
ZR_GLOBAL(rotary_table, 256)
{
    const int64_t half = a.rotated / 2, all = a.seq * half;
    for (int64_t i = thread_number(); i < all; i += thread_count()) {
        const int64_t row = i / half, at = i % half;
        double cosine, sine;
        turn((float)(a.first + row) * a.frequency[at], cosine, sine);
        a.table[row * a.rotated + at] = (float)cosine * a.factor;
        a.table[row * a.rotated + half + at] = (float)sine * a.factor;
    }
}

namespace {

__device__ __forceinline__ void rotate_pair(float cosine, float sine, float &x1, float &x2)
{
    const float first = x1 * cosine - x2 * sine;
    x2 = x2 * cosine + x1 * sine;
    x1 = first;
}

// Eight pairs of a head, or eight elements of its rest.
__device__ __forceinline__ void rotate_eight(const zr_rotate_args &a, const float *angles,
                                             int64_t x, int64_t y, int64_t at)
{
    const int64_t half = a.rotated / 2;
    float x1[8], x2[8], cosine[8], sine[8];
    if (8 * at >= half) {
        const int64_t element = a.rotated + 8 * at - half;
        widen_eight(load_eight(a.x, a.from_type, x + element), a.from_type, x1);
        store_eight(a.y, a.to_type, y + element, x1);
        return;
    }
    widen_eight(load_eight(a.x, a.from_type, x + 8 * at), a.from_type, x1);
    widen_eight(load_eight(a.x, a.from_type, x + half + 8 * at), a.from_type, x2);
    widen_eight(load_eight(angles, ZR_TYPE_F32, 8 * at), ZR_TYPE_F32, cosine);
    widen_eight(load_eight(angles, ZR_TYPE_F32, half + 8 * at), ZR_TYPE_F32, sine);
    for (int i = 0; i < 8; i++)
        rotate_pair(cosine[i], a.sign * sine[i], x1[i], x2[i]);
    store_eight(a.y, a.to_type, y + 8 * at, x1);
    store_eight(a.y, a.to_type, y + half + 8 * at, x2);
}

__device__ __forceinline__ void rotate_one(const zr_rotate_args &a, const float *angles, int64_t x,
                                           int64_t y, int64_t at)
{
    const int64_t half = a.rotated / 2;
    if (at >= half) {
        const int64_t element = a.rotated + at - half;
        put(a.y, a.to_type, y + element, get(a.x, a.from_type, x + element));
        return;
    }
    float x1 = get(a.x, a.from_type, x + at), x2 = get(a.x, a.from_type, x + half + at);
    rotate_pair(angles[at], a.sign * angles[half + at], x1, x2);
    put(a.y, a.to_type, y + at, x1);
    put(a.y, a.to_type, y + half + at, x2);
}

} // namespace

// A thread has what it reads, so that y may be x.
ZR_GLOBAL(rotate, 256)
{
    const int64_t pieces = (a.rotated / 2 + a.rest) / (a.eights ? 8 : 1),
                  all = a.rows * a.heads * pieces;
    for (int64_t i = thread_number(); i < all; i += thread_count()) {
        const int64_t at = i % pieces, head = i / pieces % a.heads, row = i / pieces / a.heads,
                      x = row * a.x_step + head * a.x_head, y = row * a.y_step + head * a.y_head;
        const float *angles = a.table + row % a.seq * a.rotated;
        if (a.eights)
            rotate_eight(a, angles, x, y, at);
        else
            rotate_one(a, angles, x, y, at);
    }
}
