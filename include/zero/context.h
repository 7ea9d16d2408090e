// What a unit meets while it computes: its context, its parameters and where gradients go. Included
// by <zero/model.h>.
#ifndef ZERO_CONTEXT_H
#define ZERO_CONTEXT_H

#include <zero/model.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zero_context { // what the engine hands to forward and backward; read only
    size_t struct_size;
    const zero_unit *unit;
    int unit_index;
    zero_shape shape;
    int training; // 0: evaluation (no dropout, nothing saved)
    int threads;  // this rank's
    // randomness is a pure function of (seed, step, micro_batch, unit_index, site, element)
    uint64_t seed, step;
    uint64_t micro_batch; // g, the global number in its step
    // loss_scale / (accumulation x ranks): multiplies the gradient at the loss (zero_loss_factor,
    // where targets are masked)
    float loss_factor;
    const zero_tensors *batch;          // the micro-batch: inputs, targets
    void *saved;                        // (saved_bytes), 64-byte aligned
    void *workspace;                    // (workspace_bytes), 64-byte aligned
    double *loss;                       // the last unit's result
    struct zr_queue *queue;             // where the library's own layers compute
    const struct zr_accessor *accessor; // behind zero_parameter
    const struct zr_sink *sink;         // behind zero_gradient
    zero_error *error;                  // for the message of a unit that fails; may be NULL
    // behind zero_loss_factor; NULL: micro-batches are not weighed
    struct zr_loss_weight *weight;
};

// Tensor `tensor` of the unit's piece `piece` (owned first, then borrowed), of zero_shape.dtype
// (buffers fp32), until the call returns.
ZERO_API const void *zero_parameter(const zero_context *context, int piece, int tensor);

// A streamed piece comes, and goes: zero_parameter and zero_gradient of it are for the time
// between. forward takes all streamed pieces of its unit in ascending order, backward in descending
// order, forward_backward first so and then so; one at a time.
ZERO_API zero_status zero_piece_begin(zero_context *context, int piece);
ZERO_API zero_status zero_piece_end(zero_context *context, int piece);

// Where the gradient of that tensor goes, as large as the tensor, fp32 in every precision (all of
// it is rounded once). *add = 0:
// set every element; 1: add to what is there (another unit has contributed before). For a buffer
// piece: where its next value goes. In backward only. NULL for a frozen piece.
ZERO_API float *zero_gradient(zero_context *context, int piece, int tensor, int *add);

// For a last unit whose loss is a mean over `targets` of the micro-batch's positions
// (zero_shape.batch x seq), the others being masked.
// Returns the factor of the gradient of the *sum* of their losses, 0 where targets is 0, and tells
// the engine how many there are: the micro-batch then counts targets / positions in the step's
// mean, so that the loss and the gradient of a step are means over all of its targets ("libzero":
// {"loss_mean": "micro_batch"}: means over its micro-batches). Call it whenever gradients are
// computed, with the same number. A unit that does not call it multiplies the gradient of its mean
// loss by loss_factor; each of its micro-batches counts 1.
ZERO_API double zero_loss_factor(zero_context *context, int64_t targets);

// 64 random bits for (context, site, element); the engine's own dropout uses the same function.
ZERO_API uint64_t zero_random(const zero_context *context, uint32_t site, uint64_t element);

#ifdef __cplusplus
}
#endif
#endif
