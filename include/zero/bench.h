// zero_bench: measures what this machine reaches.
#ifndef ZERO_BENCH_H
#define ZERO_BENCH_H

#include <zero/comm.h>
#include <zero/configuration.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_bench_options {
    size_t struct_size;
    const char *what; // "comm", "gemm", "optimizer", "step", "memory", "io"
    int threads;
    double seconds;           // time to spend on each figure, approximately
    double parameters;        // optimizer: parameters of one rank; 0: 100 million
    const char *new_spec;     // step: the model, "gpt2:layers=4,..."; NULL: "gpt2"
    int64_t micro_batch, seq; // step: 0: 4, and the model's context
    int64_t accumulation;     // step: 0: 1
    int stage;                // step
    const char *dtype;        // step: "fp32", "bf16", "fp16", "auto"; NULL: fp32
    const char *path;         // io: a directory of the disk; NULL: the current one
    // io: bytes of one transfer, and the most bytes of the scratch files; 0: 1 MiB and 1 GiB
    int64_t block, bytes;
    int depth; // io: transfers in flight; 0: 8
    int json;  // memory, io: writes one JSON object; rates are in bytes per second
    zero_logger logger;
    zero_parallel parallel; // step
} zero_bench_options;
// Runs the measurement `what` and writes its figures through `write`, on rank 0. Collective.
// "memory" and "io" take one rank, and store what they measured for later plans of this user on
// this machine.
ZERO_API zero_status zero_bench(zero_comm *comm, const zero_bench_options *options,
                                void (*write)(void *user, const char *text), void *user,
                                zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
