// One arena for each lifetime: it is reserved once, with the bytes that the plan says,
// sub-allocated by bumping a pointer, and freed as a whole.
//
//   |<- used ------------------->|<- free ->|
//   [ a | pad | b | pad | c      |          ]   every piece 64-byte aligned, the base page-aligned
#ifndef ZR_MEMORY_ARENA_H
#define ZR_MEMORY_ARENA_H

#include "memory/ledger.h"

typedef struct zr_arena {
    char *base;
    size_t bytes, used;
    zero_tier tier;
    zero_memory_category category;
    zr_ledger *ledger;
} zr_arena;

#define ZR_ALIGN 64

// Reserves and touches `bytes` (0 is allowed), zeroed. ZERO_ERR_MEMORY names category and bytes.
zero_status zr_arena_create(zr_ledger *ledger, zero_tier tier, zero_memory_category category,
                            size_t bytes, zr_arena *out, zero_error *error);
// Returns 64-byte aligned memory. Asking for more than the plan reserved breaks an invariant: an
// assertion fails in debug builds, else the function returns NULL.
void *zr_arena_take(zr_arena *arena, size_t bytes);
void zr_arena_destroy(zr_arena *arena); // zeroed arenas are allowed

#endif
