// Whole examples in windows of T rows: none is cut but one that is longer than a window, and as few
// rows as possible stay empty.
//
//   window 0  [ example 4: 7 rows      | example 0: 3 rows | empty ]
//   window 1  [ example 2: 6 rows    | example 1: 4 rows  | ex. 3  ]
//
// An example of n tokens has n - 1 rows, each with a token and, as its target, the next one. The
// longest comes first, each into the fullest window that has room (best fit, decreasing: Johnson,
// 1973; as trl packs, "bfd"). So the packing is a function of the lengths alone.
#ifndef ZR_DATA_PACKING_H
#define ZR_DATA_PACKING_H

#include "base/errors.h"

typedef struct zr_example { // tokens [first, first + count) of a stream
    int64_t first, count;
} zr_example;

typedef struct zr_packing {
    // 32 bits, because there may be very many: a stream has at most INT_MAX examples.
    int32_t *numbers; // (packed) of examples, window after window
    int32_t *begins;  // (windows + 1) where the numbers of each window begin
    int64_t windows;
    int64_t cut; // examples longer than a window, whose ends are left out
} zr_packing;

// Examples of fewer than two tokens have no row, and are left out. seq: T. together: how many
// consecutive examples stand next to each other in one window, 1 if each stands alone; `count` is a
// multiple of it, and several together never have more than T rows.
zero_status zr_packing_make(const zr_example *examples, int64_t count, int together, int64_t seq,
                            zr_packing *out, zero_error *error);
void zr_packing_free(zr_packing *packing); // a zeroed one is allowed
// Returns the rows of an example in a window.
int64_t zr_example_rows(const zr_example *example, int64_t seq);

#endif
