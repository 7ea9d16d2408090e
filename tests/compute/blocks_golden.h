// What numbers in blocks become, in double precision: tests/oracle/blocks.py.
#ifndef TESTS_COMPUTE_BLOCKS_GOLDEN_H
#define TESTS_COMPUTE_BLOCKS_GOLDEN_H

#include "base/errors.h"

#include <stdint.h>

typedef struct blocks_golden {
    int bits, n, steps, power, small, seed; // of the numbers, as tests/oracle/blocks.py has them
    double scales[2];
    int8_t codes[300];
    double carry[64]; // after the last step; where there are several
} blocks_golden;

extern const blocks_golden blocks_goldens[];
extern const int blocks_golden_count;

#endif
