// Adam's update of states in eight bits, as bitsandbytes stores them (arXiv 2110.02861): blocks of
// ZR_STATE_BLOCK elements, each with its largest magnitude as scale; the first moment's codes are
// those of the signed dynamic map, the second's of the unsigned one. A block is decoded, updated in
// fp32, makes the weights, and is encoded again.
//
// Invariant: ref and every instruction set compute with these constants, in fp32, in one order, and
// without fused multiply-adds, which this header turns off for the file that includes it first. So
// all of them give the same bits, and no bit depends on more than the element's block.
#ifndef ZR_COMPUTE_STATE_BLOCKS_H
#define ZR_COMPUTE_STATE_BLOCKS_H

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include "base/dynamic_map.h"
#include "compute/optimizer_ops.h"

#include <assert.h>
#include <math.h>

//   g = gradient * scale + p * weight_decay
//   m = m * keep0 + g * take0                      v = v * keep1 + (g * g) * take1
//   p = p * keep_p - (step * m) / (sqrt(v) * root + epsilon)
typedef struct zr_block_constants {
    float scale, keep0, take0, keep1, take1, keep_p, step, root, epsilon, weight_decay;
} zr_block_constants;

static inline zr_block_constants zr_block_constants_of(const zr_update *u,
                                                       const zr_update_values *v)
{
    bool decoupled = u->kind == ZR_UPDATE_ADAMW;
    assert(decoupled || u->kind == ZR_UPDATE_ADAM_L2);
    return (zr_block_constants){
        .scale = v->gradient_scale,
        .keep0 = (float)v->beta1,
        .take0 = (float)(1 - v->beta1),
        .keep1 = (float)v->beta2,
        .take1 = (float)(1 - v->beta2),
        .keep_p = decoupled ? (float)(1 - v->lr * u->weight_decay) : 1,
        .step = (float)(v->lr / v->correction1),
        .root = (float)(1 / sqrt(v->correction2)),
        .epsilon = (float)u->epsilon,
        .weight_decay = decoupled ? 0 : (float)u->weight_decay,
    };
}

// Returns what the elements of a block are multiplied by before they are encoded. scale: the
// block's; a block of zeros has scale 0, and the codes of 0.
static inline float zr_block_inverse(float scale) { return 1 / (scale > 1e-38f ? scale : 1e-38f); }

#endif
