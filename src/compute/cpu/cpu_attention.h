// What forward and backward of attention share: where a head lies, a worker's scratch, packing and
// writing rows, dropout. Whatever the storage type of qkv, out and their gradients, everything
// between packing and writing is fp32, except where bf16 is multiplied in pairs (cpu_pairs.h): then
// the factors of products are bf16, the probabilities and their gradients among them, and sums are
// fp32. Pairs follow each other along head_dim, or are two neighbouring positions.
#ifndef ZR_COMPUTE_CPU_ATTENTION_H
#define ZR_COMPUTE_CPU_ATTENTION_H

#include "compute/cpu/cpu_attention_pack.h"
#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_math.h"

// Queries of a block in forward, keys of one in backward: 8 panels.
#define QUERIES 48

// Returns the floats of scratch that a worker needs.
int64_t ZR_CPU_TABLE(zr_cpu_attention_backward_floats)(const zr_attention *attention);

static inline uint64_t dropout_key(const zr_attention *a, const zr_step_values *values)
{
    return a->dropout > 0 ? zr_mask_key(&a->mask, values) : 0;
}

typedef struct head { // where one (batch, head) lies, in elements
    const void *q, *k, *v;
    int64_t step;     // between positions in q, k and v
    int64_t out_step; // between positions in out
    int64_t first_in; // of q in qkv
    int64_t first_k;  // of k in qkv
    int64_t first_out;
    uint64_t element, key; // first one in the dropout mask; its key
    const zr_attention *attention;
    const int32_t *starts; // (seq) where the keys of each query begin; NULL: at 0
} head;

static inline head head_at(const zr_attention *a, const void *qkv, int64_t index,
                           const int32_t *starts, uint64_t key)
{
    int64_t b = index / a->heads, h = index % a->heads, width = a->heads * a->head_dim,
            row = zr_attention_row(a);
    int64_t begin = b * a->seq * row,
            k = begin + width + h / (a->heads / a->kv_heads) * a->head_dim,
            v = k + a->kv_heads * a->head_dim;
    return (head){
        .q = element_at(a->dtype, qkv, begin + h * a->head_dim),
        .k = element_at(a->dtype, qkv, k),
        .v = element_at(a->dtype, qkv, v),
        .step = row,
        .out_step = width,
        .first_in = begin + h * a->head_dim,
        .first_k = k,
        .first_out = b * a->seq * width + h * a->head_dim,
        .element = zr_attention_mask(a, b, h),
        .key = key,
        .attention = a,
        .starts = starts ? starts + b * a->seq : NULL,
    };
}

// Returns where the keys of a query begin; queries after the last have the last one's document.
static inline int64_t start_of(const head *at, int64_t query)
{
    int64_t start = at->starts ? at->starts[ZR_MIN(query, at->attention->seq - 1)] : 0;
    return ZR_MAX(start, zr_attention_window_start(at->attention, query));
}

static inline int64_t wide(const zr_attention *a) // head_dim, rounded up to whole tiles
{
    return ZR_ROUND_UP(a->head_dim, NR);
}

typedef struct space { // a worker's scratch as it is handed out; base NULL: it is only counted
    float *base;
    int64_t used;
} space;

static inline float *take(space *from, int64_t count)
{
    float *taken = from->base ? from->base + from->used : NULL;
    from->used += ZR_ROUND_UP(count, 16);
    return taken;
}

// Sets factors[c] to what dropout multiplies probability (i, first + c) by.
static inline void dropout_factors(const zr_attention *a, const head *at, int64_t i, int64_t first,
                                   int64_t count, float *factors)
{
    uint64_t threshold = zr_dropout_threshold(a->dropout),
             element = at->element + (uint64_t)(i * a->seq + first);
    float kept = zr_dropout_factor(a->dropout);
    uint32_t words[PHILOX_ROOM];
    int64_t done = 0, skipped = (int64_t)(element % 4);
    for (uint64_t counter = element / 4; done < count; counter += PHILOX_WORDS / 4, skipped = 0) {
        philox_words(at->key, counter, words);
        int64_t end = ZR_MIN(count, done + PHILOX_WORDS - skipped), start = done;
        for (; done < end; done += LANES)
            vf_put(factors + done, end - done,
                   (vf)((vi)vf_all(kept) & words_kept(words + skipped + done - start, threshold)));
        done = end;
    }
}

static inline bool heads_in_pairs(const zr_attention *a)
{
    return HAS_PAIRS && a->dtype == ZERO_BF16 && a->head_dim % 2 == 0;
}

// Apply pack_columns and pack_rows to all positions of a head. Pairs are not scaled.
static inline void columns_pack(const zr_attention *a, const void *from, int64_t step,
                                int64_t panel, float factor, float *to)
{
    if (heads_in_pairs(a))
        pack_columns(ZERO_F32, from, step / 2, a->seq, a->head_dim / 2, panel, 1, to);
    else
        WITH_TYPE(TYPE, a->dtype,
                  pack_columns(TYPE, from, step, a->seq, a->head_dim, panel, factor, to));
}

static inline void rows_pack(const zr_attention *a, const void *from, int64_t step, int64_t padded,
                             float *to)
{
    if (heads_in_pairs(a))
        pack_rows(ZERO_BF16, true, from, step, a->seq, padded, a->head_dim, wide(a), to);
    else
        WITH_TYPE(TYPE, a->dtype,
                  pack_rows(TYPE, false, from, step, a->seq, padded, a->head_dim, wide(a), to));
}

INLINE void row_put(zero_dtype type, const float *from, int64_t count, float factor, void *to,
                    int64_t first)
{
    for (int64_t c = 0; c < count; c += LANES)
        vf_put_as(type, to, first + c, count - c, vf_load(from + c) * factor);
}

// Writes `count` elements of `to`, an array of `dtype`, from `first` on, as factor * from, rounded.
static inline void row_write(zero_dtype dtype, const float *from, int64_t count, float factor,
                             void *to, int64_t first)
{
    WITH_TYPE(TYPE, dtype, row_put(TYPE, from, count, factor, to, first));
}

#endif
