// Attention: causal self-attention, and the rotation of queries and keys by their positions.
// compute.h states what holds for all operations, op.h how they are declared.
#ifndef ZR_COMPUTE_ATTENTION_OPS_H
#define ZR_COMPUTE_ATTENTION_OPS_H

#include "compute/operand.h"

// Attention over packed qkv, one row per position: q (heads, head_dim) | k (kv_heads, head_dim) | v
// (kv_heads, head_dim). Consecutive query heads share a head of keys and values: head h reads
// number h / (heads / kv_heads).
typedef struct zr_attention {
    // The type of qkv, out and their gradients; scores, probabilities and sums are fp32.
    zero_dtype dtype;
    int64_t batch, seq, heads, kv_heads, head_dim; // kv_heads divides heads
    float scale;                                   // of the scores, 1/sqrt(head_dim)
    int64_t window; // a position sees the last `window` up to itself; 0: all up to itself
    float dropout;  // of the probabilities; 0 if there is none
    // The mask of dropout; the element index is ((b*all_heads + first_head + h)*seq + i)*seq + j.
    zr_mask mask;
    // The heads may be a slice of a model's: `first_head` is the model's number of head 0, and
    // all_heads the number of the model's heads, 0 if that is `heads`. They place the slice in the
    // model's mask of dropout, and change nothing else.
    int64_t first_head, all_heads;
    // Of attention_decode: the cache has room for `capacity` positions of `sequences` sequences.
    int64_t sequences, capacity;
    int run_count;
} zr_attention;

static inline int64_t zr_attention_row(const zr_attention *attention) // elements of a row of qkv
{
    return (attention->heads + 2 * attention->kv_heads) * attention->head_dim;
}

// Returns the elements of out, a row of `heads` heads for each position.
static inline int64_t zr_attention_out(const zr_attention *attention)
{
    return attention->batch * attention->seq * attention->heads * attention->head_dim;
}

// Returns the element of the mask of dropout at which head `head` of sample `sample` begins.
static inline uint64_t zr_attention_mask(const zr_attention *attention, int64_t sample,
                                         int64_t head)
{
    int64_t all = attention->all_heads ? attention->all_heads : attention->heads,
            index = sample * all + attention->first_head + head;
    return (uint64_t)index * (uint64_t)attention->seq * (uint64_t)attention->seq;
}

// Returns the first position that the window of position `at` has.
static inline int64_t zr_attention_window_start(const zr_attention *attention, int64_t at)
{
    return attention->window && at >= attention->window ? at - attention->window + 1 : 0;
}

// Returns how many positions the rows at [first, first + rows) see, each those before `first` too.
static inline int64_t zr_attention_seen(const zr_attention *attention, int64_t first, int64_t rows)
{
    int64_t window = attention->window ? attention->window : first + rows,
            growing = ZR_MIN(ZR_MAX(window - first, 0), rows); // rows whose window is not full
    return growing * first + growing * (growing + 1) / 2 + (rows - growing) * window;
}

// Returns the elements of a row of d_shared, the keys and values of all kv_heads.
static inline int64_t zr_attention_shared_row(const zr_attention *attention)
{
    return 2 * attention->kv_heads * attention->head_dim;
}

// Rows that generation adds to the cache: consecutive positions of one sequence, which has `first`
// positions in the cache already.
typedef struct zr_attention_run {
    int64_t sequence, first, rows;
} zr_attention_run;
enum { ZR_MOST_RUNS = ZR_HOST_BYTES / (int)sizeof(zr_attention_run) }; // of an operation

// Rotates the two halves of what is rotated of each head: (x1, x2) -> (x1 cos - x2 sin,
// x2 cos + x1 sin).
typedef struct zr_rotary {
    zero_dtype from, to; // of x and y; angles, cosines and sines are fp32
    int64_t batch, seq;
    int64_t rotated; // elements at the start of a head; even
    int64_t first;   // position of the first row of each sequence
    float factor;    // scales cosines and sines
    // Of rotate: the elements of a head that follow and are copied; heads of each row; elements
    // between rows, and between heads; and whether it rotates back (the gradient).
    int64_t rest, heads, x_step, y_step, x_head, y_head;
    bool back;
} zr_rotary;

static inline int64_t zr_rotary_extent(const zr_rotary *s, int64_t step, int64_t head)
{
    int64_t rows = s->batch * s->seq;
    return rows && s->heads ? (rows - 1) * step + (s->heads - 1) * head + s->rotated + s->rest : 0;
}

// No operation stores a (seq x seq) matrix per head; they work on blocks.
//
// out (batch, seq, heads*head_dim); lse (batch, heads, seq) is the log-sum-exp of the scores, kept
// for backward; NULL in an evaluation. starts (batch, seq): position i sees the positions from
// starts[i] to i of its sequence that its window has; from 0 to i, and no less than the one before.
// NULL: all from 0 on. values: NULL if there is no dropout.
#define ZR_OPERANDS_attention_forward(AT)                                                          \
    AT(qkv, const void *, ZR_READ, s->dtype, s->batch * s->seq * zr_attention_row(s))              \
    AT(out, void *, ZR_WRITTEN, s->dtype, zr_attention_out(s))                                     \
    AT(lse, float *, ZR_WRITTEN | ZR_AUX, ZERO_F32, s->batch * s->heads * s->seq)                  \
    AT(starts, const int32_t *, ZR_READ | ZR_AUX, ZERO_I32, s->batch * s->seq)                     \
    AT(values, const zr_step_values *, ZR_HOST, ZERO_U8, sizeof(zr_step_values))                   \
    AT(scratch, void *, ZR_SCRATCH, ZERO_U8, 0)

// Sets every element of dqkv, which has the layout of qkv. If d_shared is not NULL, other slices
// share the keys and values, and all their gradients are summed before they are rounded: what the
// columns of k and v in dqkv would get goes unrounded to d_shared(batch*seq, 2*kv_heads*head_dim),
// each row k (kv_heads, head_dim) | v (kv_heads, head_dim), and these columns of dqkv are left as
// they are. starts: as in forward.
#define ZR_OPERANDS_attention_backward(AT)                                                         \
    AT(qkv, const void *, ZR_READ, s->dtype, s->batch * s->seq * zr_attention_row(s))              \
    AT(out, const void *, ZR_READ, s->dtype, zr_attention_out(s))                                  \
    AT(lse, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->batch * s->heads * s->seq)               \
    AT(dout, const void *, ZR_READ, s->dtype, zr_attention_out(s))                                 \
    AT(dqkv, void *, ZR_WRITTEN, s->dtype, s->batch * s->seq * zr_attention_row(s))                \
    AT(d_shared, float *, ZR_WRITTEN | ZR_AUX, ZERO_F32,                                           \
       s->batch * s->seq * zr_attention_shared_row(s))                                             \
    AT(starts, const int32_t *, ZR_READ | ZR_AUX, ZERO_I32, s->batch * s->seq)                     \
    AT(values, const zr_step_values *, ZR_HOST, ZERO_U8, sizeof(zr_step_values))                   \
    AT(scratch, void *, ZR_SCRATCH, ZERO_U8, 0)

// Generation, with a cache of keys and values of one layer, k and v (sequences, kv_heads, capacity,
// head_dim). The rows of qkv and out (heads*head_dim) are those of all runs, one run after another,
// seq or fewer. Each row sees the positions of its sequence up to itself that its window has. The
// keys and values of the runs are appended to the cache, which keeps all positions; no two runs are
// of one sequence. The bits of a row depend only on its sequence and on whether it is a run of its
// own. There is no dropout.
#define ZR_OPERANDS_attention_decode(AT)                                                           \
    AT(runs, const zr_attention_run *, ZR_HOST, ZERO_I64, 3 * s->run_count)                        \
    AT(k, float *, ZR_BOTH | ZR_AUX, ZERO_F32,                                                     \
       s->sequences * s->kv_heads * s->capacity * s->head_dim)                                     \
    AT(v, float *, ZR_BOTH | ZR_AUX, ZERO_F32,                                                     \
       s->sequences * s->kv_heads * s->capacity * s->head_dim)                                     \
    AT(qkv, const void *, ZR_READ | ZR_AUX, s->dtype, s->batch * s->seq * zr_attention_row(s))     \
    AT(out, void *, ZR_WRITTEN | ZR_AUX, s->dtype, zr_attention_out(s))                            \
    AT(scratch, void *, ZR_SCRATCH, ZERO_U8, 0)

// Fills table (seq, rotated) with factor * cosines, then factor * sines, of position first + i.
// frequency (rotated / 2): radians per position.
#define ZR_OPERANDS_rotary_table(AT)                                                               \
    AT(frequency, const float *, ZR_HOST, ZERO_F32, s->rotated / 2)                                \
    AT(table, float *, ZR_WRITTEN, ZERO_F32, s->seq * s->rotated)

// Rotates `heads` heads of each of batch*seq rows; y may be x if the steps and the types are the
// same. Neither needs to be aligned, because they may be columns of packed rows. table: NULL if
// nothing is rotated.
#define ZR_OPERANDS_rotate(AT)                                                                     \
    AT(table, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->seq * s->rotated)                      \
    AT(x, const void *, ZR_READ | ZR_AUX, s->from, zr_rotary_extent(s, s->x_step, s->x_head))      \
    AT(y, void *, ZR_WRITTEN | ZR_AUX, s->to, zr_rotary_extent(s, s->y_step, s->y_head))

// Forward has two products of all rows with all keys that they see, backward five.
#define ZR_ATTENTION_PAIRS(s)                                                                      \
    (2 * s->batch * s->heads * s->head_dim * zr_attention_seen(s, 0, s->seq))
#define ZR_ATTENTION_OPS(OP)                                                                       \
    OP(attention_forward, attention, attention, 2 * ZR_ATTENTION_PAIRS(s), 0)                      \
    OP(attention_backward, attention, attention, 5 * ZR_ATTENTION_PAIRS(s), 0)                     \
    OP(attention_decode, attention, attention, decode_flops(op), decode_bytes(op))                 \
    OP(rotary_table, rotary, element, 0, 0)                                                        \
    OP(rotate, rotary, element, 0,                                                                 \
       s->batch * s->seq * s->heads * (s->rotated + s->rest) *                                     \
           (size_of(s->from) + size_of(s->to)))

#endif
