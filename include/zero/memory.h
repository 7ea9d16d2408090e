// The memory of a rank: in which tiers its bytes are, what they are for, and how many are planned
// and held.
#ifndef ZERO_MEMORY_H
#define ZERO_MEMORY_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zero_engine; // engine.h

#define ZERO_MEMORY_CATEGORIES(X)                                                                  \
    X(parameters)                                                                                  \
    X(gradients)                                                                                   \
    X(optimizer)                                                                                   \
    X(activations)                                                                                 \
    X(checkpoints)                                                                                 \
    X(communication)                                                                               \
    X(workspace)
typedef enum zero_memory_category {
#define ZERO_MEMORY_ENUM(name) ZERO_MEM_##name,
    ZERO_MEMORY_CATEGORIES(ZERO_MEMORY_ENUM)
#undef ZERO_MEMORY_ENUM
        ZERO_MEM_COUNT
} zero_memory_category;

#define ZERO_TIERS(X) X(device) X(host) X(nvme)
typedef enum zero_tier { // on the CPU backend, device and host are two budgets of one memory
#define ZERO_TIER_ENUM(name) ZERO_TIER_##name,
    ZERO_TIERS(ZERO_TIER_ENUM)
#undef ZERO_TIER_ENUM
        ZERO_TIER_COUNT
} zero_tier;

// In bytes of this rank. A flat parameter that all ranks map is counted by the owner of each shard.
typedef struct zero_memory {
    int64_t planned[ZERO_TIER_COUNT][ZERO_MEM_COUNT];
    int64_t held[ZERO_TIER_COUNT][ZERO_MEM_COUNT];
} zero_memory;

// Reports the planned and the held bytes of this rank. Not collective.
ZERO_API void zero_memory_report(const struct zero_engine *engine, zero_memory *out);

#ifdef __cplusplus
}
#endif

#endif
