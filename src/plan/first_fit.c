#include "plan/first_fit.h"
#include "base/alloc.h"

zero_status zr_region_begin(zr_region *region, int capacity, zero_error *error)
{
    *region = (zr_region){.capacity = capacity};
    region->taken = zr_alloc((size_t)capacity * sizeof *region->taken, error);
    return region->taken ? ZERO_OK : ZERO_ERR_MEMORY;
}

void zr_region_end(zr_region *region)
{
    zr_free(region->taken);
    *region = (zr_region){0};
}

int64_t zr_region_take(zr_region *region, int owner, int64_t bytes)
{
    int64_t at = 0;
    int i = 0;
    while (i < region->count && region->taken[i].first - at < bytes) {
        at = region->taken[i].end;
        i++;
    }
    assert(region->count < region->capacity);
    for (int j = region->count++; j > i; j--)
        region->taken[j] = region->taken[j - 1];
    region->taken[i] = (zr_taken){at, at + bytes, owner};
    region->bytes = ZR_MAX(region->bytes, at + bytes);
    return at;
}

void zr_region_give_back(zr_region *region, int owner)
{
    int i = 0;
    while (region->taken[i].owner != owner)
        i++;
    for (region->count--; i < region->count; i++)
        region->taken[i] = region->taken[i + 1];
}
