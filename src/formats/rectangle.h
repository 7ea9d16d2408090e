// Arithmetic of rectangles (zr_rectangle, model/unit.h): of elements or, scaled, of bytes. The
// elements of a rectangle are counted row after row, as they lie in memory and as checksums go over
// them.
#ifndef ZR_FORMATS_RECTANGLE_H
#define ZR_FORMATS_RECTANGLE_H

#include "model/unit.h"

zr_rectangle zr_rectangle_of_stretch(int64_t first, int64_t count);
int64_t zr_rectangle_elements(const zr_rectangle *rectangle);
// Returns the element of the whole after its last one.
int64_t zr_rectangle_end(const zr_rectangle *rectangle);
// Returns the rectangle in smaller units (bytes): `size` of them are an element.
zr_rectangle zr_rectangle_scaled(const zr_rectangle *rectangle, int64_t size);
// Takes its elements from number `done` on. Returns how many of them, at most `most`, are a
// rectangle again: whole rows if there are any, else a stretch of one row. A rectangle without gaps
// is one row.
int64_t zr_rectangle_take(const zr_rectangle *rectangle, int64_t done, int64_t most,
                          zr_rectangle *out);

// A stretch that two rectangles of one whole have in common.
typedef struct zr_common {
    int64_t next;       // element of the whole after it; 0 before the first
    int64_t in_a, in_b; // the number of its first element in each
    int64_t count;
} zr_common;

// Finds the next stretch that both hold; false if there is none left.
bool zr_rectangles_next_common(const zr_rectangle *a, const zr_rectangle *b, zr_common *common);
// Returns whether they have elements in common.
bool zr_rectangles_overlap(const zr_rectangle *a, const zr_rectangle *b);

#endif
