// Spaces that a rank has on a far device only (memory/device.h), beside those of every rank.
#ifndef ZR_PLAN_FAR_SPACES_H
#define ZR_PLAN_FAR_SPACES_H

#include "plan/plan.h"

// What the host reads while a queue works lies in pages of its own.
enum { ZR_FAR_PAGE = 4096 };
// Tensors of a micro-batch that go up, tokens and targets; micro-batches that are on their way
// without a pipeline.
enum { ZR_FAR_TENSORS = 2, ZR_FAR_SENT = 2 };
// Buffers of the thread that saves beside steps, each of which has a quarter of a strip.
enum { ZR_FAR_SAVED = 2 };

// Says whether a chunk reads the ids of a micro-batch: the first and the last one do.
static inline bool zr_far_chunk_reads(const zr_plan *plan, const zr_chunk_plan *chunk)
{
    return !plan->pipeline || chunk->number == 0 || zr_chunk_is_last(plan, chunk);
}

// Returns the micro-batches whose ids are on a device at one time. In a pipeline they stay from a
// micro-batch's forward to its last backward, as its activations do: then its ids have long gone
// up, because its messages followed them, or its loss.
static inline int zr_far_id_sets(const zr_plan *plan)
{
    int sets = 0;
    for (int c = 0; c < plan->chunk_count; c++)
        if (zr_far_chunk_reads(plan, &plan->chunks[c]))
            sets = ZR_MAX(sets, plan->chunks[c].buffers.sets);
    return sets;
}

// Returns those whose ids are in pinned memory.
static inline int zr_far_sent_sets(const zr_plan *plan)
{
    return plan->pipeline ? zr_far_id_sets(plan) : ZR_FAR_SENT;
}

// Returns the bytes of a tensor of ids of a micro-batch, rounded up.
static inline int64_t zr_far_ids_bytes(const zr_plan *plan)
{
    int64_t rows = plan->shape.batch * plan->shape.seq;
    return ZR_ROUND_UP(rows * (int64_t)sizeof(int32_t), (int64_t)ZR_FAR_PAGE);
}

#endif
