// Pieces, tensors and shards: the partition (contract 1), and where a piece lies in each vector.
//
// A piece is cut into N equal shards of a multiple of ZR_CHUNK elements; rank r owns shard r of
// every piece. Tensors start at multiples of ZR_TENSOR_ALIGN elements:
//
//   piece   [ tensor 0 |gap| tensor 1 |gap| ...            | padding ]  padded = N * shard elements
//           [     shard 0      |     shard 1      |     shard 2      ]
//
// A rank's own shards, one after another in piece order, are its "shard vector", one a tier:
// optimizer states, accumulators and, where they are split, parameters lie in such vectors. A full
// replica keeps whole pieces at zr_piece.full_first.
//
// A gradient's way in 16 bits (in fp32 the first two are one place, and nothing is rounded):
//   units add up fp32 in the open arena -> sealed: rounded into the gradient window
//   -> reduced in fp32 -> accumulator
#ifndef ZR_PLAN_PIECES_H
#define ZR_PLAN_PIECES_H

#include "plan/instruction.h"
#include <zero/memory.h>
#include <zero/model.h>

#define ZR_CHUNK 2048      // elements
#define ZR_TENSOR_ALIGN 64 // elements

typedef struct zr_plan_tensor {
    const zero_tensor_desc *desc;
    int64_t first; // element in its piece
    int64_t count;
    int number; // over the whole model, in piece order; the tiles of a tensor have one
    bool decays;
} zr_plan_tensor;

typedef struct zr_piece {
    zero_piece_ref ref; // unit and piece that own it
    char name[72];      // "h.3" or "h.3/1", for messages
    zero_class kind;
    zero_dtype dtype;             // of its parameters as units read them
    zero_dtype gradient_dtype;    // of contributions in the gradient window and on the wire
    zero_dtype accumulator_dtype; // of the owner's sum
    int tensor_count;
    zr_plan_tensor *tensors;  // (tensor_count)
    int64_t elems;            // tensors and gaps
    int64_t shard, padded;    // elements
    zero_tier parameter_tier; // of the own shard, where stage 3 does not map one copy
    zero_tier state_tier;     // of its optimizer states and accumulated gradient
    int64_t full_first;       // in a full replica, bytes
    int64_t shard_first;      // in the shard vector of its tier, bytes
    // unmapped stage 3: in the gather window, where it stays until the weights change, bytes; -1:
    // gathered a visit
    int64_t kept_first;
    // in the open arena, bytes; -1: contributions collect in the gradient window itself
    int64_t open_first;
    int64_t grad_first; // in the gradient window, bytes; -1: no gradient
    // stage 0: where the accumulated gradient becomes whole, in the window of wholes or of
    // gradients
    zr_place whole;
    // in the accumulator vector of its tier (zr_accumulators shards), bytes; nvme: in the host
    // buffers where it collects; -1: none
    int64_t accumulator_first;
    // in each optimizer state vector of its tier, and its gradient on NVMe, elements; -1: none
    int64_t state_first;
    int slice_first, slice_count; // the own shard's, in plan->slices
    int first_read;               // visit of a micro-batch that reads it first (unmapped stage 3)
    bool streamed;                // comes and goes inside its units' turns
    int first_backward; // unit whose backward contributes first (the largest index), -1: none
    int last_backward;  // ... last
    int sealed_at;      // visit at whose end all contributions are in, -1: none are
    // gradient on NVMe, later micro-batches: visit at whose begin the sums so far are fetched; -1:
    // none is
    int fetched_with;
    int reduced_after; // visit at whose end the reduction is waited for
    // streamed, with contributions of several units: where they lie between them, bytes; -1:
    // nowhere
    int64_t parked_first;
} zr_piece;

// Bytes of one shard of a piece's parameters, and of its contributions.
int64_t zr_piece_shard_bytes(const zr_piece *piece);
int64_t zr_piece_gradient_shard_bytes(const zr_piece *piece);

#endif
