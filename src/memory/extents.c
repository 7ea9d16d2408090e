// Extents of a vector in a scratch, and which of them make up a range. Bounds, checksums and marks
// are one allocation.
#include "base/alloc.h"
#include "memory/io.h"

// Returns the first bound after `at`: the vector's end, the block's end, or the next cut (*cut is
// its number).
static int64_t next_bound(int64_t at, int64_t place, int64_t bytes, int64_t block,
                          const int64_t *cuts, int cut_count, int *cut)
{
    int64_t bound = ZR_MIN(bytes, ((place + at) / block + 1) * block - place);
    while (*cut < cut_count && cuts[*cut] <= at)
        ++*cut;
    return *cut < cut_count ? ZR_MIN(bound, cuts[*cut]) : bound;
}

static zero_status check_extents(const zr_scratch *scratch, int64_t place, int64_t bytes,
                                 const int64_t *cuts, int cut_count, int64_t block,
                                 zero_error *error)
{
    if (block < ZR_IO_ALIGN || block % ZR_IO_ALIGN || scratch->stripe % block)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "blocks of %lld bytes in stripes of %lld: a block divides the stripe, and "
                       "is a multiple of %d",
                       (long long)block, (long long)scratch->stripe, ZR_IO_ALIGN);
    if (place < 0 || bytes < 0 || place % ZR_IO_ALIGN || bytes % ZR_IO_ALIGN ||
        bytes > scratch->bytes || place > scratch->bytes - bytes)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "a vector of %lld bytes at %lld of a scratch of %lld", (long long)bytes,
                       (long long)place, (long long)scratch->bytes);
    for (int i = 0; i < cut_count; i++)
        if (cuts[i] % ZR_IO_ALIGN || (i && cuts[i] < cuts[i - 1]))
            return zr_fail(error, ZERO_ERR_INTERNAL,
                           "cut %d of a vector is at %lld: they rise, and are multiples of %d", i,
                           (long long)cuts[i], ZR_IO_ALIGN);
    return ZERO_OK;
}

zero_status zr_io_extents_create(const zr_scratch *scratch, int64_t place, int64_t bytes,
                                 const int64_t *cuts, int cut_count, int64_t block,
                                 zr_io_extents *out, zero_error *error)
{
    *out = (zr_io_extents){0};
    ZERO_TRY(check_extents(scratch, place, bytes, cuts, cut_count, block, error));
    int count = 0, cut = 0;
    for (int64_t at = 0; at < bytes;
         at = next_bound(at, place, bytes, block, cuts, cut_count, &cut))
        count++;
    size_t each = sizeof *out->bounds + sizeof *out->checksums + sizeof *out->written;
    int64_t *bounds = zr_alloc(sizeof *bounds + (size_t)count * each, error);
    if (!bounds)
        return ZERO_ERR_MEMORY;
    cut = 0;
    for (int i = 0; i < count; i++)
        bounds[i + 1] = next_bound(bounds[i], place, bytes, block, cuts, cut_count, &cut);
    *out = (zr_io_extents){.scratch = scratch, .place = place, .count = count, .bounds = bounds};
    out->checksums = (uint32_t *)(bounds + count + 1);
    out->written = (uint8_t *)(out->checksums + count);
    return ZERO_OK;
}

void zr_io_extents_destroy(zr_io_extents *extents)
{
    zr_free(extents->bounds);
    *extents = (zr_io_extents){0};
}

// Returns the number of the bound at a byte of the vector, or -1.
static int find_bound(const zr_io_extents *extents, int64_t byte)
{
    int low = 0, high = extents->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (extents->bounds[middle] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return extents->bounds && extents->bounds[low] == byte ? low : -1;
}

zero_status zr_io_extents_find(const zr_io_extents *extents, int64_t first, int64_t bytes,
                               int *begin, int *count, zero_error *error)
{
    int low = find_bound(extents, first), high = find_bound(extents, first + bytes);
    if (low < 0 || high < low)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "bytes %lld to %lld of a vector at %lld are no whole extents",
                       (long long)first, (long long)(first + bytes), (long long)extents->place);
    *begin = low;
    *count = high - low;
    return ZERO_OK;
}
