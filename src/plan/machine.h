// What plan/ needs to know of a backend and a communicator, as data: filled by setup/ from compute/
// and comm/, or made up for a machine that is not here.
#ifndef ZR_PLAN_MACHINE_H
#define ZR_PLAN_MACHINE_H

#include "base/errors.h"
#include <zero/memory.h>
#include <zero/model.h>

typedef struct zr_machine {
    // Scratch bytes of a product of operands of that type; NULL: none is counted.
    size_t (*product_scratch)(void *user, zero_dtype dtype, const zero_product_shape *product);
    void *user;
    int ranks;
    int threads; // of one rank
    bool mapped; // the ranks share memory: stage 3 gathers nothing
    // ranks that share what is gathered on a machine, the fewest of all machines; 0 or 1: none do
    int machine_ranks;
    int64_t staging_bytes;               // that the communicator keeps for shards on their way
    int64_t memory_limit;                // bytes a rank may hold, 0: unknown
    int64_t tier_limit[ZERO_TIER_COUNT]; // of these, on each tier by its budget, 0: none was given
    char memory_reason[128];
} zr_machine;

#endif
