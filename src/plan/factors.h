// What Adafactor keeps of tensors: averages of squares by rows and by columns of a matrix, and of a
// vector by its elements. They are small, so every rank of a job has those of the whole model; in
// ZR_SPACE_FACTORS, one array after another:
//
//   averages (elems fp32) | reciprocals of roots (elems fp32) | sums (elems, 2 int64)
//
//   in each   [ tensor 0: rows, columns ][ tensor 1: rows, columns ]...
#ifndef ZR_PLAN_FACTORS_H
#define ZR_PLAN_FACTORS_H

#include "base/errors.h"

typedef struct zr_tensor_factors {
    const char *name;      // of the whole tensor
    int64_t first;         // element of the arrays
    int64_t rows, columns; // rows: 0 for a vector; columns: 0 where the tensor is not trained
} zr_tensor_factors;

// Bytes of an element of all arrays.
enum { ZR_FACTOR_BYTES = 2 * sizeof(float) + 2 * sizeof(int64_t) };

// Returns the elements of the whole tensor.
static inline int64_t zr_factors_elements(const zr_tensor_factors *of)
{
    return of->rows ? of->rows * of->columns : of->columns;
}

#endif
