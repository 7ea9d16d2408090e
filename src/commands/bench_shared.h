// `zero bench`: what the files of bench_*.c share.
#ifndef ZR_COMMANDS_BENCH_SHARED_H
#define ZR_COMMANDS_BENCH_SHARED_H

#include "base/json_writer.h"
#include "compute/compute.h"
#include "predict/meter.h"
#include <zero/commands.h>

typedef struct zr_bench {
    zr_meter meter;
    bool json;                                   // io and memory print one object instead of lines
    void (*write)(void *user, const char *text); // NULL on ranks above 0
    void *user;
    const zero_logger *logger;
} zr_bench;

void zr_bench_say(const zr_bench *bench, const char *format, ...) ZERO_PRINTF(2, 3);
// Finishes the JSON, says it and frees its buffer.
zero_status zr_bench_say_json(const zr_bench *bench, zr_json_writer *json, zero_error *error);

// Returns the flops per second that one thread reaches when it multiplies and adds in registers:
// the best of some tries, since other programs may take the core.
double zr_bench_peak(const zr_queue *queue);

// The benchmarks, each in the file of its name. They are collective, except memory and io, which
// one rank measures.
typedef zero_status zr_bench_run(const zr_bench *bench, const zero_bench_options *options,
                                 zero_error *error);
zr_bench_run zr_bench_comm;
zr_bench_run zr_bench_gemm;      // all ranks measure at once; the figures are those of one
zr_bench_run zr_bench_optimizer; // over options.parameters; 0: 100 million
zr_bench_run zr_bench_blocks;    // of options.parameters numbers; 0: 34 million
zr_bench_run zr_bench_step;
zr_bench_run zr_bench_checkpoint;
zr_bench_run zr_bench_memory;
zr_bench_run zr_bench_io;

// The part of zr_bench_optimizer that measures Muon's iteration, on matrices of at most that many
// elements (or small ones), and at most 2.4 million.
zero_status zr_bench_orthogonal(const zr_bench *bench, zr_queue *queue, double parameters,
                                zero_error *error);

#endif
