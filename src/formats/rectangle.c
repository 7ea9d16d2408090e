#include "formats/rectangle.h"

#include "base/alloc.h"

zr_rectangle zr_rectangle_of_stretch(int64_t first, int64_t count)
{
    return (zr_rectangle){.first = first, .width = count, .stride = count, .rows = 1};
}

int64_t zr_rectangle_elements(const zr_rectangle *r) { return r->rows * r->width; }

int64_t zr_rectangle_end(const zr_rectangle *r)
{
    return r->first + (r->rows - 1) * r->stride + r->width;
}

zr_rectangle zr_rectangle_scaled(const zr_rectangle *r, int64_t size)
{
    return (zr_rectangle){.first = r->first * size,
                          .width = r->width * size,
                          .stride = r->stride * size,
                          .rows = r->rows};
}

int64_t zr_rectangle_take(const zr_rectangle *r, int64_t done, int64_t most, zr_rectangle *out)
{
    const zr_rectangle whole =
        r->width == r->stride ? zr_rectangle_of_stretch(r->first, zr_rectangle_elements(r)) : *r;
    int64_t row = done / whole.width, column = done % whole.width,
            first = whole.first + row * whole.stride + column,
            rows = column ? 1 : ZR_MIN(whole.rows - row, most / whole.width);
    *out = rows > 1 ? (zr_rectangle){first, whole.width, whole.stride, rows}
                    : zr_rectangle_of_stretch(first, ZR_MIN(whole.width - column, most));
    return zr_rectangle_elements(out);
}

// Returns the rectangle's first element at or after `element`; INT64_MAX if there is none.
static int64_t first_from(const zr_rectangle *r, int64_t element)
{
    if (r->width == 0)
        return INT64_MAX;
    if (element <= r->first)
        return r->first;
    int64_t row = (element - r->first) / r->stride, column = (element - r->first) % r->stride;
    if (row < r->rows && column < r->width)
        return element;
    return row + 1 < r->rows ? r->first + (row + 1) * r->stride : INT64_MAX;
}

static int64_t position_in_rectangle(const zr_rectangle *r, int64_t element)
{
    int64_t row = (element - r->first) / r->stride, column = (element - r->first) % r->stride;
    return row * r->width + column;
}

bool zr_rectangles_next_common(const zr_rectangle *a, const zr_rectangle *b, zr_common *common)
{
    int64_t at = first_from(a, common->next), other = first_from(b, common->next);
    while (at != other) {
        if (at < other)
            at = first_from(a, other);
        else
            other = first_from(b, at);
    }
    if (at == INT64_MAX)
        return false;
    common->in_a = position_in_rectangle(a, at);
    common->in_b = position_in_rectangle(b, at);
    common->count = ZR_MIN(a->width - common->in_a % a->width, b->width - common->in_b % b->width);
    common->next = at + common->count;
    return true;
}

// Returns whether two rectangles of many rows lie in different columns. A search for common
// elements would go through all rows for nothing.
static bool are_apart(const zr_rectangle *a, const zr_rectangle *b)
{
    if (a->rows == 1 || b->rows == 1 || a->stride != b->stride)
        return false;
    int64_t columns = (b->first - a->first) % a->stride; // from a's first column to b's
    columns += columns < 0 ? a->stride : 0;
    return columns >= a->width && columns + b->width <= a->stride;
}

bool zr_rectangles_overlap(const zr_rectangle *a, const zr_rectangle *b)
{
    zr_common common = {0};
    return !are_apart(a, b) && zr_rectangles_next_common(a, b, &common);
}
