// First fit over places that are sorted by their first byte: a place begins in the lowest gap that
// is large enough, and the buffer's size is the highest end that was ever taken.
#include "base/alloc.h"
#include "plan/plan_parts.h"

zero_status zr_first_fit_begin(zr_first_fit *fit, int capacity, zero_error *error)
{
    *fit = (zr_first_fit){.capacity = capacity};
    fit->taken = zr_alloc((size_t)capacity * sizeof *fit->taken, error);
    return fit->taken ? ZERO_OK : ZERO_ERR_MEMORY;
}

void zr_first_fit_end(zr_first_fit *fit)
{
    zr_free(fit->taken);
    *fit = (zr_first_fit){0};
}

int64_t zr_first_fit_take(zr_first_fit *fit, int owner, int64_t bytes)
{
    int64_t at = 0;
    int i = 0;
    while (i < fit->count && fit->taken[i].first - at < bytes) {
        at = fit->taken[i].end;
        i++;
    }
    assert(fit->count < fit->capacity);
    for (int j = fit->count++; j > i; j--)
        fit->taken[j] = fit->taken[j - 1];
    fit->taken[i] = (zr_taken){at, at + bytes, owner};
    fit->bytes = ZR_MAX(fit->bytes, at + bytes);
    return at;
}

void zr_first_fit_give_back(zr_first_fit *fit, int owner)
{
    int i = 0;
    while (fit->taken[i].owner != owner)
        i++;
    for (fit->count--; i < fit->count; i++)
        fit->taken[i] = fit->taken[i + 1];
}
