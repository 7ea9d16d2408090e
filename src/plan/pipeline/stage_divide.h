// Divides units among the chunks of a pipeline by numbers alone: ranges of neighbouring units, at
// least one in each, none lost or doubled. Pure.
//
// A division of `units` units into `parts` parts is written as (parts + 1) numbers: part c has
// units first[c] .. first[c + 1] - 1; first[0] is 0, first[parts] is units. There are at least as
// many units as parts.
#ifndef ZR_PLAN_PIPELINE_STAGE_DIVIDE_H
#define ZR_PLAN_PIPELINE_STAGE_DIVIDE_H

#include "plan/unit_costs.h"

typedef struct zr_division_of_units { // what is to be divided, and among whom
    const zr_unit_cost *units;        // (count)
    int count;
    int stages, chunks;   // of the pipeline; chunks of each stage
    const int *sets;      // (stages * chunks) activation sets of each chunk of the whole model
    const int *versions;  // (stages * chunks) of its parameters; NULL if there is one of each
    int64_t memory_limit; // bytes a rank; 0 if there is no limit
} zr_division_of_units;

// Return the time and the bytes of a pipeline stage under a division.
double zr_divided_time(const zr_division_of_units *of, const int *first, int stage);
int64_t zr_divided_bytes(const zr_division_of_units *of, const int *first, int stage);

// Finds the division with the least largest stage time whose stages keep within the memory limit;
// of several, one whose stages differ least (by the squares of their times). With one chunk a stage
// nothing is better. With several, the largest chunk is made as small as possible (and, as two more
// beginnings, the bytes of the largest, and the numbers of units equal), then units are moved
// between stages as long as that makes the largest stage smaller; so a better division may exist.
// *fits: false if none was found that keeps within the limit; then *first is one that exceeds it as
// little as was found. ZERO_ERR_MEMORY.
zero_status zr_divide_best(const zr_division_of_units *of, int *first, bool *fits,
                           zero_error *error);
// Divides as DeepSpeed's partition_uniform: equal numbers of units, the first parts have one more.
void zr_divide_evenly(int units, int parts, int *first);
// Divides as DeepSpeed's partition_balanced: the least difference between the largest and the
// smallest sum of times, by the same dynamic programming, so that tied weights fall as they do
// there. Of equal beginnings of a part the last is taken. ZERO_ERR_MEMORY.
zero_status zr_divide_balanced(const zr_division_of_units *of, int *first, zero_error *error);

#endif
