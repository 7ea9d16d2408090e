#include "plan/first_fit.h"
#include "base/alloc.h"

zero_status zr_first_fit_begin(zr_first_fit *region, int capacity, zero_error *error)
{
    *region = (zr_first_fit){.capacity = capacity};
    region->taken = zr_alloc((size_t)capacity * sizeof *region->taken, error);
    return region->taken ? ZERO_OK : ZERO_ERR_MEMORY;
}

void zr_first_fit_end(zr_first_fit *region)
{
    zr_free(region->taken);
    *region = (zr_first_fit){0};
}

int64_t zr_first_fit_take(zr_first_fit *region, int owner, int64_t bytes)
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

void zr_first_fit_give_back(zr_first_fit *region, int owner)
{
    int i = 0;
    while (region->taken[i].owner != owner)
        i++;
    for (region->count--; i < region->count; i++)
        region->taken[i] = region->taken[i + 1];
}
