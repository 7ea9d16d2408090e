// Spaces that a rank has on a far device only (memory/device.h), beside those of every rank.
#ifndef ZR_PLAN_FAR_SPACES_H
#define ZR_PLAN_FAR_SPACES_H

#include "plan/plan.h"

// What the host reads while a queue works lies in pages of its own.
enum { ZR_FAR_PAGE = 4096 };
// Tensors of a micro-batch that go up, tokens and targets; micro-batches that are on their way.
enum { ZR_FAR_TENSORS = 2, ZR_FAR_SENT = 2 };

// Returns the bytes of a tensor of ids of a micro-batch, rounded up.
static inline int64_t zr_far_ids_bytes(const zr_plan *plan)
{
    int64_t rows = plan->shape.batch * plan->shape.seq;
    return ZR_ROUND_UP(rows * (int64_t)sizeof(int32_t), (int64_t)ZR_FAR_PAGE);
}

#endif
