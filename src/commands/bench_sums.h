// The part of `zero bench memory` on sums over neighbours, whose rows lie in no order.
#ifndef ZR_COMMANDS_BENCH_SUMS_H
#define ZR_COMMANDS_BENCH_SUMS_H

#include "predict/meter.h"

typedef struct zr_sums_rates { // of one number of threads and one width, in bytes per second
    int threads;
    int width; // elements of a row
    // The same rows in the same order, read and not summed; the sums, with what they write.
    double read, sums;
} zr_sums_rates;

enum { ZR_SUM_WIDTHS = 3 };

// Measures sums that read each row of x(elements) once, an edge each, by width.
zero_status zr_sums_measure(const zr_meter *meter, const float *x, int64_t elements,
                            zr_sums_rates out[ZR_SUM_WIDTHS], zero_error *error);

#endif
