// Two sources of tensors, element by element: whether they are the same, and else where they part
// and how far.
#ifndef ZR_CHECKPOINT_COMPARE_H
#define ZR_CHECKPOINT_COMPARE_H

#include "checkpoint/source.h"

typedef struct zr_tensor_difference { // of one tensor that both have, or that one lacks
    const char *vector, *name;        // of either source
    const zr_source *only_in;         // NULL: both have it, of the same shape
    bool shapes_differ;               // or types, where one of them is not of real numbers
    // bytes of a tensor that is not of real numbers; differing: not the same bytes, or, where
    // dtypes differ, not the same numbers
    int64_t elements, differing;
    int64_t first;  // the first such element
    double largest; // difference in value; NAN where one of the two is no number
} zr_tensor_difference;

// Calls `differs` for each tensor that is not the same in both, in the order of a; `compared`
// counts the tensors that both have.
// Reads every byte once, with two blocks of memory; checksums of the files are compared where they
// have any.
zero_status zr_sources_compare(zr_source *a, zr_source *b,
                               void (*differs)(void *user, const zr_tensor_difference *difference),
                               void *user, int64_t *compared, zero_error *error);

#endif
