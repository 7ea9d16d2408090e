// Checks that extents cover a tensor. The tensor is rows of `stride` elements. A band is a range of
// neighbouring columns that are held up to the same row. The extents are laid on the bands from
// above, in order.
//
//   column  0        a          b        stride      an extent that begins in row r has to find all
//   row 0   [########|##########|########]           of its columns held up to row r: a column that
//       1   [########|##########|########]           is held further is held twice, and one that is
//       2   [########|          |########]           not leaves a hole for ever, because no later
//       3   [        |          |########]           extent begins in an earlier row
//
// Bands that are held up to the same row become one, so there are about as many as the ranks had
// slices.
#include "formats/manifest.h"

#include "base/alloc.h"

#include <string.h>

typedef struct band {
    int64_t begin; // its first column; it ends where the next one begins
    int64_t rows;  // that are held
} band;

typedef struct cover {
    int64_t stride;
    band *bands; // (count)
    int count, room;
    const char *path, *tensor;
    zero_error *error;
} cover;

static zero_status refuse_element(const cover *c, const char *why, int64_t element)
{
    return zr_fail(c->error, ZERO_ERR_DATA,
                   "\"%s\": %s: expected extents that hold each element once: %s element %lld",
                   c->path, c->tensor, why, (long long)element);
}

static zero_status refuse_hole(const cover *c, int64_t element)
{
    return refuse_element(c, "none holds", element);
}

// Returns the band that holds the column.
static int band_at(const cover *c, int64_t column)
{
    int low = 0, high = c->count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (c->bands[middle].begin <= column)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// Makes a band begin at the column, and returns it; the room must be there.
static int split_at(cover *c, int64_t column)
{
    if (column == c->stride)
        return c->count;
    int b = band_at(c, column);
    if (c->bands[b].begin == column)
        return b;
    memmove(&c->bands[b + 1], &c->bands[b], (size_t)(c->count - b) * sizeof *c->bands);
    c->bands[b + 1].begin = column;
    c->count++;
    return b + 1;
}

static void remove_bands(cover *c, int first, int end)
{
    memmove(&c->bands[first], &c->bands[end], (size_t)(c->count - end) * sizeof *c->bands);
    c->count -= end - first;
}

static zero_status make_room_for_bands(cover *c)
{
    if (c->count + 2 <= c->room)
        return ZERO_OK;
    int room = 2 * c->room + 8;
    band *grown = zr_realloc(c->bands, (size_t)room * sizeof *grown, c->error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    c->bands = grown;
    c->room = room;
    return ZERO_OK;
}

// Lays `rows` rows, from row `row` on, on the bands of columns [begin, end).
static zero_status cover_rows(cover *c, int64_t row, int64_t rows, int64_t begin, int64_t end)
{
    ZERO_TRY(make_room_for_bands(c));
    int first = split_at(c, begin), last = split_at(c, end);
    for (int b = first; b < last; b++) {
        const band *on = &c->bands[b];
        if (on->rows < row)
            return refuse_hole(c, on->rows * c->stride + on->begin);
        if (on->rows > row)
            return refuse_element(c, "two hold", row * c->stride + on->begin);
    }
    c->bands[first].rows = row + rows;
    remove_bands(c, first + 1, last);
    if (first + 1 < c->count && c->bands[first + 1].rows == row + rows)
        remove_bands(c, first + 1, first + 2);
    if (first > 0 && c->bands[first - 1].rows == row + rows)
        remove_bands(c, first, first + 1);
    return ZERO_OK;
}

// A stretch is the rest of a row, whole rows, and the beginning of one.
static zero_status cover_stretch(cover *c, int64_t first, int64_t count)
{
    while (count > 0) {
        int64_t row = first / c->stride, column = first % c->stride,
                rows = column ? 1 : ZR_MAX(count / c->stride, 1),
                width = ZR_MIN(c->stride - column, count);
        ZERO_TRY(cover_rows(c, row, rows, column, column + width));
        first += rows * width;
        count -= rows * width;
    }
    return ZERO_OK;
}

static zero_status cover_extent(cover *c, const zr_rectangle *at)
{
    int64_t row = at->first / c->stride, column = at->first % c->stride;
    return at->rows == 1 ? cover_stretch(c, at->first, at->width)
                         : cover_rows(c, row, at->rows, column, column + at->width);
}

static zero_status cover_all_extents(cover *c, const zr_extent *extents, int count,
                                     int64_t elements)
{
    ZERO_TRY(make_room_for_bands(c));
    c->bands[c->count++] = (band){0, 0};
    for (int e = 0; e < count; e++)
        ZERO_TRY(cover_extent(c, &extents[e].at));
    for (int b = 0; b < c->count; b++)
        if (c->bands[b].rows < elements / c->stride)
            return refuse_hole(c, c->bands[b].rows * c->stride + c->bands[b].begin);
    return ZERO_OK;
}

// Returns the stride of the rectangles; all elements, as one row, if there is no rectangle.
static int64_t stride_of_rectangles(const zr_extent *extents, int count, int64_t elements)
{
    for (int e = 0; e < count; e++)
        if (extents[e].at.rows > 1)
            return extents[e].at.stride;
    return elements;
}

zero_status zr_extents_check_cover(const char *path, const char *tensor, const zr_extent *extents,
                                   int count, int64_t elements, zero_error *error)
{
    if (elements == 0)
        return ZERO_OK;
    cover c = {.stride = stride_of_rectangles(extents, count, elements),
               .path = path,
               .tensor = tensor,
               .error = error};
    zero_status status = cover_all_extents(&c, extents, count, elements);
    zr_free(c.bands);
    return status;
}
