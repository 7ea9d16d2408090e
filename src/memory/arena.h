// Large buffers of a rank: the ledger that counts their bytes, and arenas, in which they lie.
//
// There is one arena for each lifetime: it is reserved once, with the bytes that the plan says,
// sub-allocated by bumping a pointer, and freed as a whole.
//
//   |<- used ------------------->|<- free ->|
//   [ a | pad | b | pad | c      |          ]   each buffer 64-byte aligned, the base as the device
#ifndef ZR_MEMORY_ARENA_H
#define ZR_MEMORY_ARENA_H

#include "base/errors.h"
#include "memory/device.h"
#include <zero/memory.h>

// The ledger counts bytes by tier and category. A buffer says which tier it is on; nothing infers
// this from a pointer (contract 6). The engine checks with zr_ledger_check that planned = held
// (contract 5).
typedef struct zr_ledger { // bytes
    int64_t planned[ZERO_TIER_COUNT][ZERO_MEM_COUNT];
    int64_t held[ZERO_TIER_COUNT][ZERO_MEM_COUNT];
    int64_t peak[ZERO_TIER_COUNT][ZERO_MEM_COUNT];
} zr_ledger;

const char *zr_tier_name(zero_tier tier);
const char *zr_memory_category_name(zero_memory_category category);
// Adds bytes to what is held; a negative number gives bytes back.
void zr_ledger_hold(zr_ledger *ledger, zero_tier tier, zero_memory_category category,
                    int64_t bytes);
// ZERO_ERR_INTERNAL names tier, category, planned bytes and held bytes.
zero_status zr_ledger_check(const zr_ledger *ledger, zero_error *error);

typedef struct zr_place { // where memory comes from, and what it counts as
    zr_device *device;    // NULL: the host's
    zr_memory memory;
    zero_tier tier;
    zero_memory_category category;
} zr_place;

typedef struct zr_arena {
    char *base; // page-aligned in the host's memory
    size_t bytes, used;
    zr_place place;
    zr_ledger *ledger;
} zr_arena;

#define ZR_ALIGN 64

// Reserves `bytes` (0 is allowed) as zr_device_ops.reserve does: the host's are zeroed and touched.
// ZERO_ERR_MEMORY names category and bytes.
zero_status zr_arena_create(zr_ledger *ledger, const zr_place *place, size_t bytes, zr_arena *out,
                            zero_error *error);
// The same on the host.
static inline zero_status zr_arena_on_host(zr_ledger *ledger, zero_tier tier,
                                           zero_memory_category category, size_t bytes,
                                           zr_arena *out, zero_error *error)
{
    return zr_arena_create(ledger, &(zr_place){.tier = tier, .category = category}, bytes, out,
                           error);
}
// Returns 64-byte aligned memory. Asking for more than the plan reserved breaks an invariant: an
// assertion fails in debug builds, else the function returns NULL.
void *zr_arena_take(zr_arena *arena, size_t bytes);
void zr_arena_destroy(zr_arena *arena); // zeroed arenas are allowed

#endif
