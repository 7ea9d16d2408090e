// What this machine reaches.
#ifndef ZERO_BENCH_H
#define ZERO_BENCH_H

#include <zero/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_bench_options {
    size_t struct_size;
    const char *what; // "comm", "gemm", "optimizer", "step", "memory", "io"
    int threads;
    double seconds;           // for each figure, about
    double parameters;        // optimizer: of a rank; 0: 100 million
    const char *new_spec;     // step: the model, "gpt2:layers=4,..."; NULL: "gpt2"
    int64_t micro_batch, seq; // step: 0: 4, and the model's context
    int64_t accumulation;     // step: 0: 1
    int stage;                // step
    const char *dtype;        // step: "fp32", "bf16", "fp16", "auto"; NULL: fp32
    const char *path;         // io: a directory of the disk; NULL: the current one
    // io: bytes of a transfer, and of scratch files at most; 0: 1 MiB, and 1 GiB
    int64_t block, bytes;
    int depth; // io: transfers under way; 0: 8
    int json;  // memory, io: one object; figures are bytes a second
    zero_logger logger;
} zero_bench_options;
// Collective, rank 0 writes. memory and io take one rank, and keep what they measured for plans of
// this machine and user.
ZERO_API zero_status zero_bench(zero_comm *comm, const zero_bench_options *options,
                                void (*write)(void *user, const char *text), void *user,
                                zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
