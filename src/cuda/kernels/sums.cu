// Sums whose bits are the same on every path: squares by chunks of a vector, and contributions of
// ranks by a tree (contract 3).
#include "spans.h"

using namespace zr;

namespace {

// ---- squares ----

constexpr int lanes = 8, threads = 256, groups = threads / lanes;

// The order that every backend keeps: lane k of eight sums every eighth element, beginning with k;
// then a tree. All threads of a warp call this; a lane's neighbours are those of its group. The
// square of a number of 32 bits is exact in double.
template <int type>
__device__ __forceinline__ double lane_squares(const void *g, int64_t first, int count)
{
    double sum = 0;
#pragma unroll 8
    for (int i = threadIdx.x % lanes; i < count; i += lanes) {
        const double x = get(g, type, first + i);
        sum += x * x;
    }
    return sum;
}

__device__ __forceinline__ double chunk_squares(const void *g, int type, int64_t first, int count)
{
    double sum = type == ZR_TYPE_F32    ? lane_squares<ZR_TYPE_F32>(g, first, count)
                 : type == ZR_TYPE_BF16 ? lane_squares<ZR_TYPE_BF16>(g, first, count)
                                        : lane_squares<ZR_TYPE_F16>(g, first, count);
    sum += __shfl_xor_sync(0xffffffffu, sum, 4);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    return sum + __shfl_xor_sync(0xffffffffu, sum, 1);
}

// The elements of chunk k, counted from the one in which `first` lies, of a vector's elements
// [first, first + count).
struct piece {
    int64_t first;
    int count;
};

__device__ __forceinline__ piece piece_of(int64_t first, int64_t count, int64_t k)
{
    const int64_t begin = (first / ZR_CHUNK_ELEMENTS + k) * ZR_CHUNK_ELEMENTS,
                  end = begin + ZR_CHUNK_ELEMENTS, from = begin > first ? begin : first;
    return piece{from, (int)((end < first + count ? end : first + count) - from)};
}

// The part in which chunk k lies: the first whose end is beyond it.
__device__ __forceinline__ int part_of(const zr_square_sums_exact_args &a, int64_t k)
{
    int low = 0, high = a.parts - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (a.end[middle] <= k)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// What a sum of squares adds to an accumulator (base/numbers.c): its mantissa, shifted, lies in
// three limbs. The last word counts numbers that are not finite. No sum is negative.
struct addend {
    uint64_t limb[3];
    int word; // of the first
};

__device__ __forceinline__ addend addend_of(double value)
{
    const uint64_t bits = __double_as_longlong(value), one = 1;
    const int exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent == 0x7ff)
        return addend{{0, 0, 1}, ZR_EXACT_NUMBER_WORDS - 3};
    const uint64_t mantissa = (bits & ((one << 52) - 1)) | (exponent ? one << 52 : 0);
    const int position = (exponent ? exponent : 1) - 1075 + 1088, shift = position % 32;
    const uint64_t low = (mantissa & 0xffffffffu) << shift,
                   rest = (low >> 32) + (mantissa >> 32 << shift);
    return addend{{low & 0xffffffffu, rest & 0xffffffffu, rest >> 32}, position / 32};
}

struct tile { // what a block's groups add, and to which accumulators; -1: none
    addend value[groups];
    int32_t sum[groups];
};

// What all of a tile adds to a word of accumulator `sum`.
__device__ __forceinline__ uint64_t gather_word(const tile &of, int sum, int word)
{
    uint64_t total = 0;
    for (int k = 0; k < groups; k++) {
        const unsigned limb = word - of.value[k].word;
        if (limb < 3 && of.sum[k] == sum)
            total += of.value[k].limb[limb];
    }
    return total;
}

__device__ __forceinline__ void add_word(int64_t *sums, int sum, int word, uint64_t value)
{
    if (value)
        atomicAdd((unsigned long long *)sums + (int64_t)sum * ZR_EXACT_NUMBER_WORDS + word,
                  (unsigned long long)value);
}

// ---- the tree ----

// sum(lo, n) = sum(lo, k) + sum(lo + k, n - k), k the largest power of two below n: partial[l] is
// the sum of 2^l sources that waits for as many more, as the bits of a counter do.
template <int levels, int width> struct tree {
    float partial[levels][width];

    __device__ __forceinline__ void add(int number, float value[width])
    {
        int filled = 0; // levels below the first that is free
        while (number >> filled & 1)
            filled++;
#pragma unroll
        for (int level = 0; level < levels; level++)
#pragma unroll
            for (int k = 0; k < width; k++) {
                if (level < filled)
                    value[k] = partial[level][k] + value[k];
                if (level == filled)
                    partial[level][k] = value[k];
            }
    }

    // The sum of all `count` sources: what waits, the last added first.
    __device__ __forceinline__ void finish(int count, float out[width])
    {
        bool any = false;
#pragma unroll
        for (int level = 0; level < levels; level++) {
            const bool waits = count >> level & 1;
#pragma unroll
            for (int k = 0; k < width; k++)
                if (waits)
                    out[k] = any ? partial[level][k] + out[k] : partial[level][k];
            any = any || waits;
        }
    }
};

template <int levels> struct tree_summing {
    const zr_tree_sum_args &a;
    bool whole; // the earlier sums are aligned as the first is

    template <int width> __device__ __forceinline__ void at(int64_t i) const
    {
        tree<levels, width> waiting;
        float x[width] = {};
        raw_eight now = load_part<width>(a.source[0], a.source_type, i), next = now;
        for (int r = 0; r < a.sources; r++) { // the next is under way while one is added
            if (r + 1 < a.sources)
                next = load_part<width>(a.source[r + 1], a.source_type, i);
            widen_part<width>(now, a.source_type, x);
            waiting.add(r, x);
            now = next;
        }
        waiting.finish(a.sources, x);
        for (int e = a.adds - 1; e >= 0; e--)
            add_earlier<width>(e * a.stride + i, x);
        store_part<width>(a.out, a.out_type, i, x);
    }

    template <int width>
    __device__ __forceinline__ void add_earlier(int64_t i, float x[width]) const
    {
        float earlier[width];
        if (whole)
            widen_part<width>(load_part<width>(a.out, a.out_type, i), a.out_type, earlier);
        for (int k = 0; k < width && !whole; k++)
            earlier[k] = get(a.out, a.out_type, i + k);
        for (int k = 0; k < width; k++)
            x[k] += earlier[k];
    }
};

} // namespace

ZR_GLOBAL(square_sums, 256)
{
    const int64_t group = thread_number() / lanes, count = thread_count() / lanes;
    const int64_t rounds = (a.chunks + count - 1) / count;
    for (int64_t round = 0; round < rounds; round++) {
        const int64_t k = round * count + group;
        const piece of = k < a.chunks ? piece_of(a.first, a.count, k) : piece{a.first, 0};
        const double sum = chunk_squares(a.g, a.type, of.first - a.first, of.count);
        if (k < a.chunks && threadIdx.x % lanes == 0)
            a.sums[k] = sum;
    }
}

// A block has neighbouring chunks, which mostly go to one accumulator, its home: a thread for each
// of its words adds them up, and the block adds to memory once. Integers, so no order counts. Each
// chunk adds less than 2^32 to a word, so 2^19 chunks leave words as zr_exact_add does, and 2^31
// overflow none.
ZR_GLOBAL_HELD(square_sums_exact, 256, 5)
{
    __shared__ tile now;
    const int64_t each = ((a.chunks + gridDim.x - 1) / gridDim.x + groups - 1) / groups * groups,
                  begin = blockIdx.x * each,
                  end = begin + each < a.chunks ? begin + each : a.chunks;
    const int mine = threadIdx.x / lanes, word = threadIdx.x;
    if (begin >= end)
        return;
    const int home = a.sum[part_of(a, begin)];
    uint64_t total = 0;
    for (int64_t at = begin; at < end; at += groups) {
        const int64_t k = at + mine;
        const int part = part_of(a, k < end ? k : begin), sum = a.sum[part];
        const piece of =
            piece_of(a.part_first[part], a.part_count[part], k - (part ? a.end[part - 1] : 0));
        const double value = chunk_squares(a.g, a.type, of.first - a.first, k < end ? of.count : 0);
        if (threadIdx.x % lanes == 0) {
            const addend adds = addend_of(value);
            now.value[mine] = adds;
            now.sum[mine] = k < end ? sum : -1;
            for (int w = 0; k < end && sum != home && w < 3; w++)
                add_word(a.sums, sum, adds.word + w, adds.limb[w]);
        }
        __syncthreads();
        if (word < ZR_EXACT_NUMBER_WORDS)
            total += gather_word(now, home, word);
        __syncthreads();
    }
    if (word < ZR_EXACT_NUMBER_WORDS)
        add_word(a.sums, home, word, total);
}

ZR_GLOBAL(tree_sum, 256)
{
    uint32_t aligned = aligned_elements(a.out, a.out_type);
    for (int r = 0; r < a.sources; r++)
        aligned &= aligned_elements(a.source[r], a.source_type);
    const span all = span_of(aligned, a.n);
    const bool whole = a.stride % 8 == 0;
    if (a.sources < 16)
        walk_span(all, tree_summing<4>{a, whole});
    else
        walk_span(all, tree_summing<9>{a, whole});
}
