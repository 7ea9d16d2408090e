// The table of attention: causal self-attention, and the rotation of queries and keys by their
// positions. compute.h states what holds for all tables.
#ifndef ZR_COMPUTE_ATTENTION_OPS_H
#define ZR_COMPUTE_ATTENTION_OPS_H

#include "base/errors.h"
#include <zero/tensor.h>

typedef struct zr_queue zr_queue;

// Attention over packed qkv, one row per position: q (heads, head_dim) | k (kv_heads, head_dim) | v
// (kv_heads, head_dim). Consecutive query heads share a head of keys and values: head h reads
// number h / (heads / kv_heads).
typedef struct zr_attention {
    // The type of qkv, out and their gradients; scores, probabilities and sums are fp32.
    zero_dtype dtype;
    int64_t batch, seq, heads, kv_heads, head_dim; // kv_heads divides heads
    float scale;                                   // of the scores, 1/sqrt(head_dim)
    float dropout;                                 // of the probabilities; 0 if there is none
    // The key of zr_dropout_keep; the element index is
    // ((b*all_heads + first_head + h)*seq + i)*seq + j.
    uint64_t dropout_key;
    // The heads may be a slice of a model's: `first_head` is the model's number of head 0, and
    // all_heads the number of the model's heads, 0 if that is `heads`. They place the slice in the
    // model's mask of dropout, and change nothing else.
    int64_t first_head, all_heads;
} zr_attention;

static inline int64_t zr_attention_row(const zr_attention *attention) // elements of a row of qkv
{
    return (attention->heads + 2 * attention->kv_heads) * attention->head_dim;
}

// Returns the element of the mask of dropout at which head `head` of sample `sample` begins.
static inline uint64_t zr_attention_mask(const zr_attention *attention, int64_t sample,
                                         int64_t head)
{
    int64_t all = attention->all_heads ? attention->all_heads : attention->heads,
            index = sample * all + attention->first_head + head;
    return (uint64_t)index * (uint64_t)attention->seq * (uint64_t)attention->seq;
}

// Returns the elements of a row of d_shared, the keys and values of all kv_heads.
static inline int64_t zr_attention_shared_row(const zr_attention *attention)
{
    return 2 * attention->kv_heads * attention->head_dim;
}

// For generation: the cache of keys and values of one layer.
typedef struct zr_attention_cache {
    float *k, *v;     // (sequences, kv_heads, capacity, head_dim) each
    int64_t capacity; // positions a sequence has room for
} zr_attention_cache;

// Rows that are added to the cache: consecutive positions of one sequence, which has
// `first` positions in the cache already.
typedef struct zr_attention_run {
    int64_t sequence, first, rows;
} zr_attention_run;

// Rotates the two halves of each head: (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin).
typedef struct zr_rotary {
    zero_dtype from, to; // of x and y; angles, cosines and sines are fp32
    int64_t batch, seq, head_dim;
    int64_t first;          // position of the first row of each sequence
    const float *frequency; // (head_dim / 2) radians per position
    float factor;           // scales cosines and sines
} zr_rotary;

// No function stores a (seq x seq) matrix per head; they work on blocks.
typedef struct zr_attention_ops {
    size_t (*scratch)(const zr_queue *queue, const zr_attention *attention);
    // out (batch, seq, heads*head_dim); lse (batch, heads, seq) is the log-sum-exp of the scores,
    // kept for backward; NULL in an evaluation.
    void (*forward)(zr_queue *queue, const zr_attention *attention, const void *qkv, void *out,
                    float *lse, void *scratch);
    // Sets every element of dqkv, which has the layout of qkv. If d_shared is not NULL, other
    // slices share the keys and values, and all their gradients are summed before they are rounded:
    // what the columns of k and v in dqkv would get goes unrounded to d_shared(batch*seq,
    // 2*kv_heads*head_dim), each row k (kv_heads, head_dim) | v (kv_heads, head_dim), and these
    // columns of dqkv are left as they are.
    void (*backward)(zr_queue *queue, const zr_attention *attention, const void *qkv,
                     const void *out, const float *lse, const void *dout, void *dqkv,
                     float *d_shared, void *scratch);
    // Generation: the rows of qkv and out (heads*head_dim) are those of all runs, one run after
    // another. Each row sees the positions of its sequence up to itself. The keys and values of the
    // runs are appended to the cache; no two runs are of one sequence. The bits of a row depend
    // only on its sequence and on whether it is a run of its own. There is no dropout. scratch:
    // decode_scratch bytes for a->seq rows or more.
    void (*decode)(zr_queue *queue, const zr_attention *attention, const zr_attention_cache *cache,
                   const zr_attention_run *runs, int run_count, const void *qkv, void *out,
                   void *scratch);
    size_t (*decode_scratch)(const zr_queue *queue, const zr_attention *attention,
                             int64_t capacity);
    // Fills table (seq, head_dim) with factor * cosines, then factor * sines, of position first +
    // i.
    void (*rotary_table)(zr_queue *queue, const zr_rotary *rotary, float *table);
    // Rotates `heads` heads at the start of each of batch*seq rows; with `back`, rotates them back
    // (the gradient). Rows lie x_step and y_step elements apart; y may be x if the steps and the
    // types are the same. Neither needs to be aligned, because they may be columns of packed rows.
    void (*rotate)(zr_queue *queue, const zr_rotary *rotary, int64_t heads, const float *table,
                   bool back, const void *x, int64_t x_step, void *y, int64_t y_step);
} zr_attention_ops;

#endif
