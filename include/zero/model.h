// The unit interface: how a model, the library's or your own, describes itself to the engine.
//
// The engine knows only units, not architectures. A unit is what ZeRO acquires, computes and
// releases as one (the embedding, each block, the head). It owns flat parameters (vectors of
// tensors of one class: FSDP's FlatParameter) and may borrow those of other units. A model is a
// constant list of units that outlives the engine; nothing in it changes during a run.
#ifndef ZERO_MODEL_H
#define ZERO_MODEL_H

#include <zero/tensor.h>
#include <zero/unit_exchange.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZERO_MAX_FLAT_PARAMS 32 // that a unit owns and borrows together, without streamed ones
#define ZERO_MAX_STREAMED 1024
#define ZERO_MAX_PRODUCTS 64

typedef enum zero_class {
    ZERO_TRAINABLE, // has a gradient and optimizer states
    ZERO_FROZEN,    // read only
    ZERO_BUFFER,    // running statistics: the next value is the mean of what a step's micro-batches
                    // wrote
    // Read only, of bytes (ZERO_U8), which only the unit can interpret: codes of weights and the
    // like. They begin as zeros. A tensor's init_value is the number of parameters for which each
    // of its bytes stands.
    ZERO_CODES,
} zero_class;

typedef struct zero_flat_param_desc {
    zero_class kind;
    int tensor_count;
    const zero_tensor_desc *tensors; // (tensor_count)
    // 1 if the flat parameter holds one tensor, trainable or frozen, and is in memory only between
    // zero_flat_param_begin and zero_flat_param_end in a unit's call, so that a unit larger than
    // memory runs tile by tile (memory-centric tiling, ZeRO-Infinity section 5.1.3).
    int streamed;
    // In a part of a model: the number of neighbouring tensor ranks that hold this flat parameter
    // and compute the same gradient of it. 0 means one if any of its tensors is a tile, otherwise
    // all. So a flat parameter with tiles cannot hold a tensor that all ranks have.
    int replicas;
} zero_flat_param_desc;

// A borrowed flat parameter: flat parameter `flat_param` of unit `unit`.
typedef struct zero_flat_param_ref {
    int unit, flat_param;
} zero_flat_param_ref;
typedef zero_flat_param_desc zero_piece_desc; // names until 0.1
typedef zero_flat_param_ref zero_piece_ref;

typedef struct zero_shape { // of a micro-batch
    int64_t batch;          // samples
    int64_t seq;            // positions in a sample; 1 if it has none
    int threads;            // of the rank that computes it: some scratch is per thread; 0: 1
    // Type of the parameters that units read (buffers: fp32): ZERO_F32, or the 16-bit type of mixed
    // precision.
    zero_dtype dtype;
} zero_shape;

// A matrix product that the unit computes: D(m,n) = op(A)(m,k) op(B)(k,n).
typedef struct zero_product_shape {
    int64_t m, n, k;
    int trans_a, trans_b;
    int calls;
    int format; // of the library's own weights in codes; 0: B is a plain matrix
} zero_product_shape;

typedef struct zero_unit zero_unit;
typedef struct zero_context zero_context;
struct zr_backend;

typedef struct zero_unit_sizes { // filled in by `sizes`, all for one micro-batch of the given shape
    // Shapes and dtypes of the boundary that forward writes; data is NULL; empty for the last unit.
    zero_tensors out;
    size_t saved_bytes; // kept from forward to backward
    // Scratch during forward or backward, without that of the matrix products.
    size_t workspace_bytes;
    // Bit i is set if backward reads flat parameter i (owned first, then borrowed; streamed ones
    // are not numbered here).
    uint32_t backward_reads;
    int backward_reads_streamed; // 1 if backward reads the streamed flat parameters
    size_t held_bytes;     // kept from backward_input to backward_weight; 0 if backward runs as one
    uint32_t weight_reads; // as backward_reads, of backward_weight
    // The matrix products of forward and backward, from which scratch, FLOPs and time are computed.
    int product_count;
    zero_product_shape products[ZERO_MAX_PRODUCTS];
    // The exchanges of forward, then those of backward, in the order in which they are made (one
    // for each zero_tensor_sum), and the bytes of the window for their operands. Each part of a
    // split backward makes its own exchanges (zero_exchange.in_weight) in that order.
    int exchange_count;
    zero_exchange exchanges[ZERO_MAX_EXCHANGES];
    size_t exchange_bytes;
} zero_unit_sizes;

// In zero_unit_ops.dtypes: the unit reads and writes parameters, gradients and boundaries through
// context->queue alone, so that it also runs where the host cannot read them. The library's own
// layers do; a device refuses units that do not.
#define ZERO_UNIT_DEVICE (1u << 31)

typedef struct zero_unit_ops {
    const char *kind; // "embedding", "block", ... for messages and the plan
    // Bit d: can compute with zero_shape.dtype d; none of them for ZERO_F32 only. ZERO_UNIT_DEVICE.
    uint32_t dtypes;
    // A pure function of its arguments. `in`: the boundary that arrives (shapes only).
    zero_status (*sizes)(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out);
    // Reads `in`, writes `out`. The last unit has no `out` and writes the mean loss to
    // context->loss.
    zero_status (*forward)(zero_context *context, const zero_tensors *in, const zero_tensors *out);
    // `d_out` is the gradient of `out`, and may be overwritten. Writes every element of `d_in`
    // (empty for the first unit), and sets or adds to the gradients that zero_gradient returns. The
    // last unit starts from context->loss_factor, or from zero_loss_factor.
    zero_status (*backward)(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in);
    // Optional, last unit only: forward and backward in one call (the loss is computed in chunks,
    // and the logits are never stored).
    zero_status (*forward_backward)(zero_context *context, const zero_tensors *in,
                                    const zero_tensors *d_in);
    // Optional, both or neither: backward in two parts, for schedules that compute the gradients of
    // weights later (zero-bubble pipelines). Together they give the bits of backward. Other calls,
    // also of this unit, come in between, and `d_out` may be overwritten by then. The first part
    // writes d_in and does not change context->saved. It keeps in context->held the data that the
    // second part needs in addition to `in` and context->saved, and calls neither zero_gradient nor
    // zero_loss_factor.
    zero_status (*backward_input)(zero_context *context, const zero_tensors *in,
                                  const zero_tensors *d_out, const zero_tensors *d_in);
    // Sets or adds to the gradients as backward does.
    zero_status (*backward_weight)(zero_context *context, const zero_tensors *in);
    // Optional, with ZERO_UNIT_DEVICE: as sizes, where a device computes, which may need other
    // scratch. backend: the device's, opaque.
    zero_status (*sizes_on)(const zero_unit *unit, const struct zr_backend *backend,
                            const zero_shape *shape, const zero_tensors *in, zero_unit_sizes *out);
} zero_unit_ops;

struct zero_unit {
    const char *name; // "h.3"; unique in the model
    const zero_unit_ops *ops;
    const void *hyper;    // the unit's own constants (sizes, epsilon, ...)
    int flat_param_count; // owned
    const zero_flat_param_desc *flat_params;
    int borrowed_count;
    const zero_flat_param_ref *borrowed; // of earlier units
};

typedef struct zero_model {
    const char *name;
    int unit_count;
    const zero_unit *units;
    // The whole model, if this is a rank's part of one; NULL if this model is whole. The part's
    // units have the names of the whole's, its tensors are the whole's or tiles of them, and each
    // tensor is in the parts of all ranks (a tile may be empty). Together the parts have every
    // element once, or once each `replicas` ranks. Files have the whole's tensors, in its order.
    // The whole outlives the part. The part is made before there is an engine: the tensor rank is
    // zero_comm_rank % tensor ranks. With partition_activations, boundaries must be alike on tensor
    // ranks.
    const struct zero_model *whole;
    // Set by the library only: the units of this pipeline stage; NULL in your models.
    const struct zr_pipeline_stage *stage;
} zero_model;

#ifdef __cplusplus
}
#endif

#include <zero/context.h>

#endif
