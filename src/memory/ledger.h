// The ledger counts the bytes of every large buffer of a rank, by tier and category. A buffer says
// which tier it is on; nothing infers this from a pointer (contract 6). The engine checks with
// zr_ledger_check that planned = held (contract 5).
#ifndef ZR_MEMORY_LEDGER_H
#define ZR_MEMORY_LEDGER_H

#include "base/errors.h"
#include <zero/memory.h>

const char *zr_tier_name(zero_tier tier);

typedef struct zr_ledger { // bytes
    int64_t planned[ZERO_TIER_COUNT][ZERO_MEM_COUNT];
    int64_t held[ZERO_TIER_COUNT][ZERO_MEM_COUNT];
    int64_t peak[ZERO_TIER_COUNT][ZERO_MEM_COUNT];
} zr_ledger;

const char *zr_memory_category_name(zero_memory_category category);
// Adds bytes to what is held; a negative number gives bytes back.
void zr_ledger_hold(zr_ledger *ledger, zero_tier tier, zero_memory_category category,
                    int64_t bytes);
// ZERO_ERR_INTERNAL names tier, category, planned bytes and held bytes.
zero_status zr_ledger_check(const zr_ledger *ledger, zero_error *error);

#endif
