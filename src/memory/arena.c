// Arenas: anonymous memory, every page of which is present before the first step needs it.
//
// Invariant: base[0..bytes) is backed by memory; the ledger holds exactly `bytes` from create to
// destroy. An empty arena maps one page that is not counted, so that taking 0 bytes of it does not
// fail.
#define _GNU_SOURCE
#include "memory/arena.h"
#include "base/alloc.h"
#include "base/cpu.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static zero_status refuse_reservation(zr_arena *arena, int reason, zero_error *error)
{
    return zr_fail_errno(error, ZERO_ERR_MEMORY, reason,
                         "cannot reserve %zu bytes of %s memory for %s", arena->bytes,
                         zr_tier_name(arena->tier), zr_memory_category_name(arena->category));
}

// Checks before the kernel overcommits, because later the kernel would kill the process.
static zero_status check_available(const zr_arena *arena, zero_error *error)
{
    char reason[64];
    int64_t available = zr_memory_available(reason, sizeof reason);
    if (arena->bytes <= (uint64_t)available)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_MEMORY,
                   "cannot reserve %zu bytes of %s memory for %s: %lld bytes are left (%s)",
                   arena->bytes, zr_tier_name(arena->tier),
                   zr_memory_category_name(arena->category), (long long)available, reason);
}

static size_t mapped_bytes(const zr_arena *arena) { return ZR_MAX(arena->bytes, (size_t)1); }

static zero_status map_arena(zr_arena *arena, zero_error *error)
{
    void *base =
        mmap(NULL, mapped_bytes(arena), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return refuse_reservation(arena, errno, error);
    // Kernels without huge pages refuse this; nothing depends on it.
    if (arena->bytes >= ZR_LARGE_PAGE)
        (void)madvise(base, arena->bytes, MADV_HUGEPAGE);
    int reason = zr_pages_populate(base, mapped_bytes(arena));
    if (reason) {
        munmap(base, mapped_bytes(arena));
        return refuse_reservation(arena, reason, error);
    }
    arena->base = base;
    return ZERO_OK;
}

zero_status zr_arena_create(zr_ledger *ledger, zero_tier tier, zero_memory_category category,
                            size_t bytes, zr_arena *out, zero_error *error)
{
    *out = (zr_arena){0};
    zr_arena arena = {.bytes = bytes, .tier = tier, .category = category, .ledger = ledger};
    ZERO_TRY(check_available(&arena, error));
    ZERO_TRY(map_arena(&arena, error));
    zr_ledger_hold(ledger, tier, category, (int64_t)bytes);
    *out = arena;
    return ZERO_OK;
}

void *zr_arena_take(zr_arena *arena, size_t bytes)
{
    size_t start = ZR_ROUND_UP(arena->used, ZR_ALIGN);
    bool fits = start <= arena->bytes && bytes <= arena->bytes - start;
    assert(fits);
    if (!fits)
        return NULL;
    arena->used = start + bytes;
    return arena->base + start;
}

void zr_arena_destroy(zr_arena *arena)
{
    if (arena->base)
        munmap(arena->base, mapped_bytes(arena));
    if (arena->ledger)
        zr_ledger_hold(arena->ledger, arena->tier, arena->category, -(int64_t)arena->bytes);
    *arena = (zr_arena){0};
}
