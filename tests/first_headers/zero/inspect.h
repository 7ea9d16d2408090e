// Before a run and beside it: what a model needs (plan), what this machine reaches (bench) and lacks (doctor).
#ifndef ZERO_INSPECT_H
#define ZERO_INSPECT_H

#include <zero/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_override { // one flag that wins over the configuration file
    const char *key;   // "zero_optimization.stage"
    const char *value; // as JSON: "3", "\"AdamW\""
    const char *flag;  // "--stage", for messages
} zero_override;

typedef struct zero_plan_options {
    size_t struct_size;
    const char *new_spec, *model; // a SPEC, or a directory or config.json
    double parameters;            // or only a count (7.5e9)
    const char *config_path;
    const zero_override *overrides;
    int override_count;
    int64_t seq;
    int ranks;                    // 0 with memory > 0: "what do I need"
    int64_t memory;               // bytes a rank, 0: not given
    int json;
    zero_logger logger;
} zero_plan_options;

// Writes the answer through `write` (text or JSON). Needs no communicator: plan/ is pure.
ZERO_API zero_status zero_plan(const zero_plan_options *options, void (*write)(void *user, const char *text), void *user, zero_error *error);

typedef struct zero_bench_options {
    size_t struct_size;
    const char *what;  // "comm", "gemm", "optimizer", "step", "memory", "io"
    int threads;
    double seconds;    // for each figure, about
    double parameters;          // optimizer: of a rank; 0: 100 million
    const char *new_spec;       // step: the model, "gpt2:layers=4,..."; NULL: "gpt2"
    int64_t micro_batch, seq;   // step: 0: 4, and the model's context
    int64_t accumulation;       // step: 0: 1
    int stage;                  // step
    const char *dtype;          // step: "fp32", "bf16", "fp16", "auto"; NULL: fp32
    const char *path;           // io: a directory of the disk; NULL: the current one
    int64_t block, bytes;       // io: bytes of a transfer, and of scratch files at most; 0: 1 MiB, and 1 GiB
    int depth;                  // io: transfers under way; 0: 8
    int json;                   // memory, io: one object; figures are bytes a second
    zero_logger logger;
} zero_bench_options;
// Collective, rank 0 writes. memory and io take one rank, and keep what they measured for plans of this machine and user.
ZERO_API zero_status zero_bench(zero_comm *comm, const zero_bench_options *options, void (*write)(void *user, const char *text), void *user, zero_error *error);

typedef struct zero_doctor_options {
    size_t struct_size;
    const char *path; // a directory of the disk to look at; NULL: the current one
} zero_doctor_options;
ZERO_API zero_status zero_doctor(const zero_doctor_options *options, void (*write)(void *user, const char *text), void *user, zero_error *error);

// The markdown table of every configuration key and what becomes of it (docs/configuration.md is its output).
ZERO_API zero_status zero_describe_configuration(void (*write)(void *user, const char *text), void *user, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
