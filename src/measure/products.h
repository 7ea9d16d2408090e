// How long a step's matrix products take by themselves.
#ifndef ZR_MEASURE_PRODUCTS_H
#define ZR_MEASURE_PRODUCTS_H

#include "measure/timing.h"
#include "plan/full_plan.h"

// of one micro-batch's products, one rank, all ranks computing at once
typedef struct zr_products_time {
    double median, best; // seconds: each shape's median, and its best
    double flops;
} zr_products_time;

// Collective. The products that the plan's units list, each shape alone on operands of its own.
// quick: in less time and memory, a part of what is larger than 4 Mi elements stands for it.
zero_status zr_products_measure(const zr_meter *meter, const zr_plan *plan, bool quick,
                                zr_products_time *out, zero_error *error);

#endif
