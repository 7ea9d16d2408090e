// The table of attention: causal self-attention, and the rotation of queries and keys by their
// positions. compute.h says what holds for all tables.
#ifndef ZR_COMPUTE_ATTENTION_OPS_H
#define ZR_COMPUTE_ATTENTION_OPS_H

#include "base/errors.h"
#include <zero/tensor.h>

typedef struct zr_queue zr_queue;

// Over packed qkv, a row a position: q (heads, head_dim) | k (kv_heads, head_dim) | v (kv_heads,
// head_dim). Query heads share heads of keys and values in runs: head h reads number h / (heads /
// kv_heads).
typedef struct zr_attention {
    // of qkv, out and their gradients; scores, probabilities and sums are fp32
    zero_dtype dtype;
    int64_t batch, seq, heads, kv_heads, head_dim; // kv_heads divides heads
    float scale;                                   // of the scores, 1/sqrt(head_dim)
    float dropout;                                 // of the probabilities; 0: none
    uint64_t dropout_key; // see zr_dropout_keep; element index ((b*heads + h)*seq + i)*seq + j
} zr_attention;

static inline int64_t zr_attention_row(const zr_attention *attention) // elements of a row of qkv
{
    return (attention->heads + 2 * attention->kv_heads) * attention->head_dim;
}

// Generation. A cache of keys and values of one layer, and the positions that are added to it:
// consecutive ones of one sequence.
typedef struct zr_attention_cache {
    float *k, *v;     // (sequences, kv_heads, capacity, head_dim) each
    int64_t capacity; // positions of a sequence
} zr_attention_cache;

// first: how many positions of the sequence are in the cache
typedef struct zr_attention_run {
    int64_t sequence, first, rows;
} zr_attention_run;

// of the two halves of each head: (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin)
typedef struct zr_rotary {
    zero_dtype from, to; // of x and of y; angles, cosines and sines are fp32
    int64_t batch, seq, head_dim;
    int64_t first;          // position of the first row of each sequence
    const float *frequency; // (head_dim / 2) radians a position
    float factor;           // of cosines and sines
} zr_rotary;

typedef struct zr_attention_ops { // never stores a (seq x seq) matrix a head; works on blocks
    size_t (*scratch)(const zr_queue *queue, const zr_attention *attention);
    // out (batch, seq, heads*head_dim); lse (batch, heads, seq): log-sum-exp of the scores, kept
    // for backward; NULL: evaluation
    void (*forward)(zr_queue *queue, const zr_attention *attention, const void *qkv, void *out,
                    float *lse, void *scratch);
    // dqkv (as qkv): every element is set.
    void (*backward)(zr_queue *queue, const zr_attention *attention, const void *qkv,
                     const void *out, const float *lse, const void *dout, void *dqkv,
                     void *scratch);
    // Generation: rows of qkv and out (heads*head_dim) are those of all runs, one after another;
    // each sees the positions of its sequence up to itself. The cache is extended by the keys and
    // values of the runs, of which no two are of one sequence. A row's bits depend on its sequence
    // alone, and on whether it is a run of its own. scratch: of decode_scratch with a->seq rows or
    // more.
    void (*decode)(zr_queue *queue, const zr_attention *attention, const zr_attention_cache *cache,
                   const zr_attention_run *runs, int run_count, const void *qkv, void *out,
                   void *scratch);
    size_t (*decode_scratch)(const zr_queue *queue, const zr_attention *attention,
                             int64_t capacity);
    // table (seq, head_dim): factor * cosines, then factor * sines, of position first + i.
    void (*rotary_table)(zr_queue *queue, const zr_rotary *rotary, float *table);
    // Rotates `heads` heads at the start of each of batch*seq rows, back (the gradient) where
    // `back`. Rows lie x_step and y_step elements apart; y may be x where these, and the types, are
    // the same. Neither need be aligned: they may be columns of packed rows.
    void (*rotate)(zr_queue *queue, const zr_rotary *rotary, int64_t heads, const float *table,
                   bool back, const void *x, int64_t x_step, void *y, int64_t y_step);
} zr_attention_ops;

#endif
