// What a unit works with while it computes: its context, its parameters, and the places of its
// gradients. Included by <zero/model.h>.
#ifndef ZERO_CONTEXT_H
#define ZERO_CONTEXT_H

#include <zero/model.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zero_context { // what the engine passes to forward and backward; read only
    size_t struct_size;
    const zero_unit *unit;
    int unit_index;
    zero_shape shape;
    int training; // 0 in evaluation (no dropout, nothing is saved)
    int threads;  // of this rank
    // Randomness is a pure function of (seed, step, micro_batch, unit_index, site, element).
    uint64_t seed, step;
    uint64_t micro_batch; // g: its number within the step, counted over all ranks
    // loss_scale / (accumulation x ranks). The last unit multiplies the gradient of its loss by
    // this, or by what zero_loss_factor returns if some targets are masked.
    float loss_factor;
    const zero_tensors *batch;          // the micro-batch: inputs and targets
    void *saved;                        // (saved_bytes), 64-byte aligned
    void *workspace;                    // (workspace_bytes), 64-byte aligned
    double *loss;                       // where the last unit writes its result
    struct zr_queue *queue;             // where the library's own layers compute
    const struct zr_accessor *accessor; // used by zero_parameter
    const struct zr_sink *sink;         // used by zero_gradient
    zero_error *error;                  // for the message of a unit that fails; may be NULL
    // Used by zero_loss_factor; NULL if all micro-batches count the same.
    struct zr_loss_weight *weight;
    // Exchanges with other tensor ranks; NULL if there are none.
    const struct zr_exchanger *exchanger;
    // (held_bytes), 64-byte aligned, in backward_input and backward_weight; otherwise NULL.
    void *held;
    // What changes from step to step, for the library's own layers: the masks of dropout, and the
    // factor of the loss.
    struct zr_step_values *values;
    // Its tensors as a device has them, whose memory the host cannot read (for the library's own
    // layers); NULL: batch is what operations read, too.
    const zero_tensors *device_batch;
};

// Returns tensor `tensor` of the unit's flat parameter `flat_param` (its own flat parameters are
// numbered first, then those that it borrows). Elements are of type zero_shape.dtype, those of
// buffers fp32. The pointer is valid until the call of the unit returns.
ZERO_API const void *zero_parameter(const zero_context *context, int flat_param, int tensor);

// Acquire and release a streamed flat parameter: zero_parameter and zero_gradient may be called for
// it only in between. One flat parameter is acquired at a time. forward takes all streamed flat
// parameters of its unit in ascending order, backward in descending order, and forward_backward
// first ascending and then descending.
ZERO_API zero_status zero_flat_param_begin(zero_context *context, int flat_param);
ZERO_API zero_status zero_flat_param_end(zero_context *context, int flat_param);
// Their names until 0.1, for programs that were compiled with them.
ZERO_API zero_status zero_piece_begin(zero_context *context, int flat_param);
ZERO_API zero_status zero_piece_end(zero_context *context, int flat_param);

// Returns the place of that tensor's gradient, which has the size of the tensor and is fp32 in
// every precision (the engine rounds all of it once). If *add is 0, the unit sets every element; if
// 1, it adds to what is there, because another unit has contributed before. For a buffer flat
// parameter it is the place of the buffer's next value; for a frozen flat parameter it is NULL.
// Only for use in backward.
ZERO_API float *zero_gradient(zero_context *context, int flat_param, int tensor, int *add);

// For a last unit whose loss is a mean over only `targets` of the micro-batch's positions
// (zero_shape.batch x seq), because the others are masked.
// Returns the factor for the gradient of the *sum* of their losses (0 if targets is 0), and sets
// the engine's number of targets. The micro-batch then has the weight targets / positions in the
// step's mean, so that the loss and the gradient of a step are means over all of its targets (with
// "libzero": {"loss_mean": "micro_batch"} they are means over its micro-batches).
// Call it whenever gradients are computed, always with the same number. A unit that does not call
// it multiplies the gradient of its mean loss by loss_factor, and each of its micro-batches has the
// weight 1.
ZERO_API double zero_loss_factor(zero_context *context, int64_t targets);

// Returns 64 random bits for (context, site, element). The engine's own dropout uses this function.
ZERO_API uint64_t zero_random(const zero_context *context, uint32_t site, uint64_t element);

#ifdef __cplusplus
}
#endif
#endif
