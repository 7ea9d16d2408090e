// What plan/ needs to know of a backend and a communicator, as data. setup/ fills it from compute/
// and comm/, or makes it up for a machine that is not here.
#ifndef ZR_PLAN_MACHINE_H
#define ZR_PLAN_MACHINE_H

#include "base/errors.h"
#include <zero/memory.h>
#include <zero/model.h>

typedef struct zr_machine {
    // Returns the scratch bytes of a product of operands of that type; NULL: no scratch is counted.
    size_t (*product_scratch)(void *user, zero_dtype dtype, const zero_product_shape *product);
    void *user;
    int ranks; // among which ZeRO partitions: data ranks
    // Ranks that hold slices of the same layers, and which of them this one is; 0: 1, 0.
    int tensor_ranks, tensor_rank;
    // What this rank computes of a pipeline; it outlives the plan. NULL: there is none.
    const struct zr_pipeline_part *pipeline;
    int threads; // of one rank
    bool mapped; // the ranks share memory: stage 3 gathers nothing
    // Ranks of a machine that share what is gathered, the fewest of all machines; 0 or 1: none do.
    int machine_ranks;
    int64_t staging_bytes; // kept by the communicator for shards on their way
    int64_t memory_limit;  // bytes a rank may hold; 0: unknown
    // Of memory_limit, the bytes on each tier by its budget; 0: no budget was given.
    int64_t tier_limit[ZERO_TIER_COUNT];
    char memory_reason[128];
} zr_machine;

#endif
