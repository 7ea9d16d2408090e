// What a step's parts take by themselves: its matrix products, and memory.
#ifndef ZR_MEASURE_BENCH_PRODUCTS_H
#define ZR_MEASURE_BENCH_PRODUCTS_H

#include "comm/agree.h"
#include "plan/plan.h"
#include "tools/bench.h"

typedef struct zr_products_time { // of one micro-batch's products, one rank, all ranks computing at once
    double median, best; // seconds: each shape's median, and its best
    double flops;
} zr_products_time;

// Collective. The products that the plan's units list, each shape alone on operands of its own. quick: in less time and memory, a part of
// what is larger than 4 Mi elements stands for it.
zero_status zr_bench_products(const zr_bench *bench, const zr_plan *plan, bool quick, zr_products_time *out, zero_error *error);
// Collective. Bytes a second that a rank reads and writes while all ranks copy.
zero_status zr_bench_bandwidth(const zr_bench *bench, double *out, zero_error *error);

void zr_bench_triad(float *restrict a, const float *restrict b, const float *restrict c, int64_t count, int threads);
// Reads, modifies and writes what AdamW does with a bf16 gradient, an fp32 master and a bf16 copy, and computes next to nothing.
void zr_bench_update_in_place(const zr_range_states *states, int64_t count, int threads);
#define ZR_UPDATE_BYTES (3 * 8 + 2 + 2) // an element: three vectors read and written, the gradient read, the copy written

#endif
