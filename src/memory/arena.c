// Arenas: memory of a device, all of which is there before the first step needs it.
//
// Invariant: base[0..bytes) is backed by memory; the ledger holds exactly `bytes` from create to
// destroy.
#include "memory/arena.h"

zero_status zr_arena_create(zr_ledger *ledger, const zr_place *place, size_t bytes, zr_arena *out,
                            zero_error *error)
{
    void *base;
    zr_device *device = place->device ? place->device : zr_device_host();
    *out = (zr_arena){0};
    zero_status status = device->ops->reserve(device, place->memory, bytes, &base, error);
    if (status != ZERO_OK) {
        zr_error_prefix(error, "cannot reserve %zu bytes of %s memory for %s", bytes,
                        zr_tier_name(place->tier), zr_memory_category_name(place->category));
        return status;
    }
    zr_ledger_hold(ledger, place->tier, place->category, (int64_t)bytes);
    *out = (zr_arena){.base = base, .bytes = bytes, .place = *place, .ledger = ledger};
    out->place.device = device;
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
    zr_device *device = arena->place.device;
    if (device)
        device->ops->release(device, arena->place.memory, arena->base, arena->bytes);
    if (arena->ledger)
        zr_ledger_hold(arena->ledger, arena->place.tier, arena->place.category,
                       -(int64_t)arena->bytes);
    *arena = (zr_arena){0};
}
