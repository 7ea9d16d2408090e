// Compares two sources of tensors element by element: whether they are the same, and if not, where
// and by how much they differ.
#ifndef ZR_COMMANDS_DIFF_TENSORS_H
#define ZR_COMMANDS_DIFF_TENSORS_H

#include "formats/source.h"

// How one tensor differs that both sources have, or that one of them lacks.
typedef struct zr_tensor_difference {
    const char *vector, *name; // from either source
    const zr_source *only_in;  // NULL: both have it, with the same shape
    // True also if the types differ and one of them is not of real numbers.
    bool shapes_differ;
    // If the tensor is not of real numbers, its bytes are counted. `differing` counts different
    // bytes or, where the dtypes differ, different numbers.
    int64_t elements, differing;
    int64_t first; // the first that differs
    // The largest difference in value; NAN where one of the two is not a number.
    double largest;
} zr_tensor_difference;

// Calls `differs` for each tensor that is not the same in both, in the order of a; `compared`
// counts the tensors that both have. Reads every byte once, with two blocks of memory, and compares
// checksums of the files where they have any.
zero_status zr_sources_compare(zr_source *a, zr_source *b,
                               void (*differs)(void *user, const zr_tensor_difference *difference),
                               void *user, int64_t *compared, zero_error *error);

#endif
