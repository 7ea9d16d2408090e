// Muon's iteration on small matrices, as tests/oracle/orthogonal.py computes it by PyTorch and
// DeepSpeed.
#ifndef ZR_TESTS_ORTHOGONAL_GOLDEN_H
#define ZR_TESTS_ORTHOGONAL_GOLDEN_H

#include "engine/orthogonal.h"

enum { ORTHOGONAL_GOLDENS = 8 };

typedef struct orthogonal_golden { // of the matrix ((37 i i + 11 i) % 101 - 50) / 1024, element i
    zr_orthogonal_method method;
    int64_t rows, cols;
    float result[64]; // (rows, cols), bf16
} orthogonal_golden;

extern const orthogonal_golden orthogonal_goldens[ORTHOGONAL_GOLDENS];

#endif
