// What a step's parts take by themselves: its matrix products, and memory.
#ifndef ZR_API_BENCH_PRODUCTS_H
#define ZR_API_BENCH_PRODUCTS_H

#include "api/agree.h"
#include "api/bench.h"
#include "plan/plan.h"

typedef struct zr_products_time { // of one micro-batch's products, one rank, all ranks computing at once
    double median, best; // seconds: each shape's median, and its best
    double flops;
} zr_products_time;

// Collective. The products that the plan's units list, each shape alone on operands of its own.
zero_status zr_bench_products(const zr_bench *bench, const zr_plan *plan, zr_products_time *out, zero_error *error);
// Collective. Bytes a second that a rank reads and writes while all ranks copy.
zero_status zr_bench_bandwidth(const zr_bench *bench, double *out, zero_error *error);

#endif
