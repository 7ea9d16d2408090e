// Flat parameters, tensors and shards: the partition (contract 1), and where a flat parameter lies
// in each vector.
//
// A flat parameter is cut into N equal shards of a multiple of ZR_CHUNK elements (twice that, if
// they or the states of an optimizer are bytes); rank r owns shard r of every flat parameter.
// Tensors start at multiples of ZR_TENSOR_ALIGN elements:
//
//   flat parameter   [ tensor 0 |gap| tensor 1 |gap| ...            | padding ]
//                    [     shard 0      |     shard 1      |     shard 2      ]
//
//   padded = N * shard elements
//
// A rank's own shards on one tier, one after another in flat parameter order, are a "shard vector".
// Optimizer states, accumulators and, where they are split, parameters lie in such vectors. A full
// tied copy keeps whole flat parameters at zr_flat_param.full_first. Frozen ones, which nothing
// writes after they were loaded, need no copy for each rank: where the ranks of a machine share
// memory, they lie there once, one after another in a space of their own.
//
// The way of a gradient in 16 bits (in fp32 the first two places are one, and nothing is rounded):
//   units add up fp32 in the open arena -> sealed: rounded into the gradient window
//   -> reduced in fp32 -> accumulator
#ifndef ZR_PLAN_FLAT_PARAMS_H
#define ZR_PLAN_FLAT_PARAMS_H

#include "base/blocks.h"
#include "base/quantised.h"
#include "plan/instruction.h"
#include "plan/plan_settings.h"
#include <zero/memory.h>
#include <zero/model.h>

#define ZR_CHUNK 2048      // elements
#define ZR_TENSOR_ALIGN 64 // elements; those of a block, where there are blocks (zr_tensor_align)

typedef struct zr_plan_tensor {
    const zero_tensor_desc *desc;
    int64_t first; // element of its flat parameter
    int64_t count;
    // Over the model, in flat parameter order: of zero_model.whole where there is one, else of the
    // model itself, where a tensor's tiles share one.
    int number;
    bool decays;
    bool orthogonal; // Muon updates it
} zr_plan_tensor;

typedef struct zr_flat_param {
    zero_flat_param_ref ref; // unit and flat parameter that own it
    char name[72];           // "h.3" or "h.3/1", for messages
    zero_class kind;
    zero_dtype dtype;             // of its parameters as units read them
    zero_dtype gradient_dtype;    // of contributions in the gradient window and on the wire
    zero_dtype accumulator_dtype; // of the owner's sum
    // Its parameters are what codes of that many bits (base/blocks.h) stand for, and so are its
    // contributions; 0: as they are.
    int weight_bits, gradient_bits;
    bool coded;   // the own shard is kept as such codes, and gathered as such
    int replicas; // neighbouring tensor ranks that hold the same flat parameter, with this one
    // This rank's shard counts where elements of all ranks are added up or written; else another
    // tensor rank holds the same flat parameter and counts it, or it is a tied copy.
    bool counted;
    bool tied_copy; // of a flat parameter of another chunk (model/pipeline_stage_cut.h)
    bool late;      // under pipedream: its owner is on another stage (plan/pipeline/tied_weights.h)
    int tensor_count;
    zr_plan_tensor *tensors;  // (tensor_count)
    int64_t elems;            // tensors and gaps
    int64_t shard, padded;    // elements
    zero_tier parameter_tier; // of the own shard, where stage 3 does not map one copy
    zero_tier state_tier;     // of its optimizer states and accumulated gradient
    bool shared;              // it lies once on a machine, in ZR_BUFFER_FROZEN
    int64_t full_first;       // there, or in a full replica, bytes
    int64_t shard_first;      // in the shard vector of its tier, bytes
    // Unmapped stage 3: bytes in the gather window, where the flat parameter stays until the
    // weights change; -1: it is gathered for each visit.
    int64_t kept_first;
    int64_t grad_first; // in the gradient window, bytes; -1: no gradient
    // Stage 0: where the accumulated gradient becomes whole, in the window of wholes or of
    // gradients.
    zr_buffer_ref whole;
    // Bytes in the accumulator vector of its tier (zr_accumulators shards); for sums on NVMe, in
    // the host buffers where they collect; -1: none.
    int64_t accumulator_first;
    // Elements, in each optimizer state vector of its tier and, on NVMe, in the gradient's; -1:
    // none.
    int64_t state_first;
    // In ZR_SPACE_CARRIES, bytes: what rounding its contributions has lost, in fp32, padded; -1:
    // none.
    int64_t carry_first;
    int shard_slice_first, shard_slice_count; // of the own shard, in plan->shard_slices
    int first_read;     // the first visit of a micro-batch that reads it (unmapped stage 3)
    bool streamed;      // comes and goes inside its units' turns
    int first_backward; // the unit whose backward contributes first (largest index); -1: none
    int last_backward;  // the unit whose backward contributes last
    int sealed_at;      // the visit at whose end all contributions are in; -1: there are none
    int reduced_after;  // the visit at whose end the reduction is awaited
    // A streamed flat parameter to which several units contribute: where the contributions lie in
    // between, bytes of the parked vector; -1: it is not parked.
    int64_t parked_first;
} zr_flat_param;

// Returns the elements that make a chunk: shards and their slices are multiples of it. It has 4,096
// bytes or more, in which devices read and write. moments: the type of optimizer states.
static inline int64_t zr_chunk_elems(zero_class kind, zero_dtype moments)
{
    bool bytes = kind == ZERO_CODES || (kind == ZERO_TRAINABLE && moments == ZERO_U8);
    return bytes ? 2 * ZR_CHUNK : ZR_CHUNK;
}

// Returns the elements of each of `ranks` shards of `elems` elements.
static inline int64_t zr_shard_elems(zero_class kind, zero_dtype moments, int64_t elems, int ranks)
{
    return ZR_ROUND_UP((elems + ranks - 1) / ranks, zr_chunk_elems(kind, moments));
}

// Returns the multiple of elements at which tensors start. A block of states in 8 bits
// (ZR_STATE_BLOCK), and one of codes (ZR_BLOCK), has elements of one tensor.
static inline int64_t zr_tensor_align(const zr_settings *settings)
{
    bool codes = settings->weight_bits || settings->frozen_bits || settings->gradient_bits;
    return settings->precision.moments == ZERO_U8 || codes ? ZR_STATE_BLOCK : ZR_TENSOR_ALIGN;
}
static_assert((int)ZR_STATE_BLOCK == (int)ZR_BLOCK, "one multiple does for both");

// Returns where a whole flat parameter's parameters lie, if they do not come for each visit.
static inline zr_buffer_ref zr_flat_param_place(const zr_flat_param *flat_param)
{
    return (zr_buffer_ref){flat_param->shared ? ZR_BUFFER_FROZEN : ZR_BUFFER_PARAMETERS,
                           flat_param->full_first};
}

// Returns for how many parameters a tensor's elements stand; partition.c.
int64_t zr_plan_tensor_parameters(const zr_flat_param *flat_param, const zr_plan_tensor *tensor);

// Returns the bytes of one shard of a flat parameter's parameters, as units read them.
static inline int64_t zr_flat_param_shard_bytes(const zr_flat_param *flat_param)
{
    return flat_param->shard * (int64_t)zero_dtype_bytes(flat_param->dtype);
}
// Returns the bytes of `elems` elements of the own shard, as it is kept and sent: whole blocks
// where it is coded.
static inline int64_t zr_flat_param_own_bytes(const zr_flat_param *flat_param, int64_t elems)
{
    return flat_param->coded ? zr_block_bytes(flat_param->weight_bits, elems)
                             : elems * (int64_t)zero_dtype_bytes(flat_param->dtype);
}
// Returns the bytes of one shard of its contributions in the gradient window.
static inline int64_t zr_flat_param_gradient_shard_bytes(const zr_flat_param *flat_param)
{
    return flat_param->gradient_bits
               ? zr_block_bytes(flat_param->gradient_bits, flat_param->shard)
               : flat_param->shard * (int64_t)zero_dtype_bytes(flat_param->gradient_dtype);
}

#endif
