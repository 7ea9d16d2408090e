// `zero bench`, between the files of bench_*.c.
#ifndef ZR_TOOLS_BENCH_H
#define ZR_TOOLS_BENCH_H

#include "comm/comm.h"
#include "compute/compute.h"
#include <zero/tools.h>

typedef struct zr_bench {
    zero_comm *comm;
    double seconds; // for each figure, about
    int threads;
    bool json;      // one object instead of lines: of io and memory
    void (*write)(void *user, const char *text); // NULL on ranks above 0
    void *user;
    const zero_logger *logger;
} zr_bench;

void zr_bench_say(const zr_bench *bench, const char *format, ...) ZERO_PRINTF(2, 3);

// Mean seconds of one call of `work`, the slowest rank's, over about bench->seconds. Collective: all ranks make the same number of calls.
typedef zero_status (*zr_bench_work)(void *user, zero_error *error);
zero_status zr_bench_time(const zr_bench *bench, zr_bench_work work, void *user, double *seconds, zero_error *error);

double zr_median(double *values, int count); // sorts them; of an even number the mean of the two in the middle

zero_status zr_bench_comm(const zr_bench *bench, zero_error *error); // collective
zero_status zr_bench_gemm(const zr_bench *bench, zero_error *error); // collective: all ranks at once, figures of one
zero_status zr_bench_optimizer(const zr_bench *bench, double parameters, zero_error *error); // collective; 0: 100 million
zero_status zr_bench_step(const zr_bench *bench, const zero_bench_options *options, zero_error *error); // collective
zero_status zr_bench_checkpoint(const zr_bench *bench, const zero_bench_options *options, zero_error *error); // collective
zero_status zr_bench_memory(const zr_bench *bench, zero_error *error); // one rank
zero_status zr_bench_io(const zr_bench *bench, const zero_bench_options *options, zero_error *error); // one rank

#endif
