// How long a step's matrix products take by themselves.
#ifndef ZR_PREDICT_PRODUCTS_H
#define ZR_PREDICT_PRODUCTS_H

#include "predict/timing.h"
#include "plan/plan.h"

// Of the products of one micro-batch on one rank, while all ranks compute at the same time.
typedef struct zr_products_time {
    double median, best; // seconds: sums of each shape's median, and of its best
    double flops;
} zr_products_time;

// Measures the products that the plan's units list, each shape alone on operands of its own.
// Collective.
zero_status zr_products_measure(const zr_meter *meter, const zr_plan *plan, zr_products_time *out,
                                zero_error *error);

#endif
