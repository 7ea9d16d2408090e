// The part of `zero bench memory` on sums over neighbours, whose rows lie in no order.
#ifndef ZR_COMMANDS_BENCH_SUMS_H
#define ZR_COMMANDS_BENCH_SUMS_H

#include "predict/meter.h"

enum { ZR_SUM_WIDTHS = 3 };
extern const int zr_sum_widths[ZR_SUM_WIDTHS]; // elements of a row

typedef struct zr_sums_rates { // bytes per second
    double read;               // of memory that is read in order, to compare with
    double sums[ZR_SUM_WIDTHS]; // what the sums read, their edges included, and write
} zr_sums_rates;

// Measures sums that read each row of x(elements) once, an edge each.
zero_status zr_sums_measure(const zr_meter *meter, const float *x, int64_t elements,
                            zr_sums_rates *out, zero_error *error);

#endif
