// `zero bench`, between the files of bench_*.c.
#ifndef ZR_TOOLS_BENCH_SHARED_H
#define ZR_TOOLS_BENCH_SHARED_H

#include "compute/compute.h"
#include "measure/timing.h"
#include <zero/bench.h>

typedef struct zr_bench {
    zr_meter meter;
    bool json;      // one object instead of lines: of io and memory
    void (*write)(void *user, const char *text); // NULL on ranks above 0
    void *user;
    const zero_logger *logger;
} zr_bench;

void zr_bench_say(const zr_bench *bench, const char *format, ...) ZERO_PRINTF(2, 3);

zero_status zr_bench_comm(const zr_bench *bench, zero_error *error); // collective
zero_status zr_bench_gemm(const zr_bench *bench, zero_error *error); // collective: all ranks at once, figures of one
zero_status zr_bench_optimizer(const zr_bench *bench, double parameters, zero_error *error); // collective; 0: 100 million
zero_status zr_bench_step(const zr_bench *bench, const zero_bench_options *options, zero_error *error); // collective
zero_status zr_bench_checkpoint(const zr_bench *bench, const zero_bench_options *options, zero_error *error); // collective
zero_status zr_bench_memory(const zr_bench *bench, zero_error *error); // one rank
zero_status zr_bench_io(const zr_bench *bench, const zero_bench_options *options, zero_error *error); // one rank

#endif
