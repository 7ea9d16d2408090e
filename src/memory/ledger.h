// The ledger counts the bytes of every large buffer by category, per rank; arenas are the only way to get one.
// Contract 5: planned = held, asserted by the engine through zr_ledger_check.
#ifndef ZR_MEMORY_LEDGER_H
#define ZR_MEMORY_LEDGER_H

#include "base/status.h"
#include <zero/engine.h>

typedef enum zr_memory_kind { ZR_DEVICE, ZR_HOST, ZR_NVME } zr_memory_kind; // where a buffer is; nothing infers it from a pointer
const char *zr_memory_kind_name(zr_memory_kind kind);

typedef struct zr_ledger {
    int64_t planned[ZERO_MEM_COUNT]; // bytes
    int64_t held[ZERO_MEM_COUNT];
    int64_t peak[ZERO_MEM_COUNT];
} zr_ledger;

const char *zr_memory_category_name(zero_memory_category category);
void zr_ledger_hold(zr_ledger *ledger, zero_memory_category category, int64_t bytes); // negative: given back
// ZERO_ERR_INTERNAL naming the category, planned and held bytes.
zero_status zr_ledger_check(const zr_ledger *ledger, zero_error *error);

#endif
