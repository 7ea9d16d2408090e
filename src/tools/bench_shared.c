// zero_bench: what all benchmarks share, and the choice between them.
#include "tools/bench_shared.h"

#include "base/struct_take.h"
#include "setup/threads.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void zr_bench_say(const zr_bench *bench, const char *format, ...)
{
    char line[512];
    if (!bench->write)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    bench->write(bench->user, line);
}

typedef enum bench_id { BENCH_COMM, BENCH_GEMM, BENCH_OPTIMIZER, BENCH_STEP, BENCH_CHECKPOINT, BENCH_MEMORY, BENCH_IO, BENCHES } bench_id;

static zero_status find_bench(const char *what, bench_id *out, zero_error *error)
{
    static const char *const names[BENCHES] = {"comm", "gemm", "optimizer", "step", "checkpoint", "memory", "io"};
    for (int i = 0; i < BENCHES; i++) {
        *out = (bench_id)i;
        if (strcmp(names[i], what) == 0)
            return ZERO_OK;
    }
    return zr_fail(error, ZERO_ERR_USAGE, "zero_bench: options.what is \"%s\"; comm, gemm, optimizer, step, checkpoint, memory and io exist", what);
}

zero_status zero_bench(zero_comm *comm, const zero_bench_options *options, void (*write)(void *user, const char *text), void *user, zero_error *error)
{
    ZR_NEED(error, comm);
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    zero_bench_options taken;
    ZERO_TRY(zr_struct_take("zero_bench: options", options, ZR_STRUCT_UPTO(zero_bench_options, logger),
                            &taken, sizeof taken, error));
    options = &taken;
    bench_id id;
    ZERO_TRY(find_bench(options->what ? options->what : "", &id, error));
    bool of_machine = id >= BENCH_MEMORY;
    if (of_machine && comm->size > 1)
        return zr_fail(error, ZERO_ERR_USAGE, "bench %s measures the machine with one rank, not with %d", options->what, comm->size);
    if (!of_machine && options->json)
        return zr_fail(error, ZERO_ERR_USAGE, "bench %s prints no JSON: memory and io do", options->what);
    zr_threads threads;
    ZERO_TRY(zr_threads_choose(comm, options->threads, &threads, error));
    zr_bench bench = {.meter = {.comm = comm, .threads = threads.count, .seconds = options->seconds > 0 ? options->seconds : 0.2}, .json = options->json != 0,
                      .write = comm->rank == 0 ? write : NULL, .user = user, .logger = &options->logger};
    if (!bench.json)
        zr_bench_say(&bench, "%d rank%s (%s), %d thread%s each (%s)\n", comm->size, comm->size == 1 ? "" : "s", zero_comm_name(comm), threads.count,
                     threads.count == 1 ? "" : "s", threads.reason);
    switch (id) {
    case BENCH_COMM:
        return zr_bench_comm(&bench, error);
    case BENCH_GEMM:
        return zr_bench_gemm(&bench, error);
    case BENCH_OPTIMIZER:
        return zr_bench_optimizer(&bench, options->parameters, error);
    case BENCH_STEP:
        return zr_bench_step(&bench, options, error);
    case BENCH_CHECKPOINT:
        return zr_bench_checkpoint(&bench, options, error);
    case BENCH_MEMORY:
        return zr_bench_memory(&bench, error);
    default:
        return zr_bench_io(&bench, options, error);
    }
}
