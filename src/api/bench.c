// zero_bench: what all benchmarks share, and the choice between them.
#include "api/bench.h"

#include "api/agree.h"
#include "api/threads.h"
#include "base/clock.h"

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

zero_status zr_bench_time(const zr_bench *bench, zr_bench_work work, void *user, double *seconds, zero_error *error)
{
    ZERO_TRY(work(user, error)); // creates what is kept, faults pages in
    for (int64_t calls = 1;; calls *= 2) {
        ZERO_TRY(zr_comm_barrier(bench->comm, error));
        double begin = zr_clock_seconds();
        for (int64_t i = 0; i < calls; i++)
            ZERO_TRY(work(user, error));
        int64_t nanoseconds = (int64_t)((zr_clock_seconds() - begin) * 1e9);
        ZERO_TRY(zr_agree_on_largest(bench->comm, &nanoseconds, error));
        *seconds = (double)nanoseconds * 1e-9 / (double)calls;
        if ((double)nanoseconds * 1e-9 >= bench->seconds / 2 || calls >= (int64_t)1 << 30)
            return ZERO_OK;
    }
}

zero_status zero_bench(zero_comm *comm, const zero_bench_options *options, void (*write)(void *user, const char *text), void *user, zero_error *error)
{
    if (options->struct_size != sizeof *options)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_bench: options.struct_size is %zu, this library expects %zu", options->struct_size, sizeof *options);
    const char *what = options->what ? options->what : "";
    bool comm_only = strcmp(what, "comm") == 0, gemm = strcmp(what, "gemm") == 0;
    if (!comm_only && !gemm && strcmp(what, "step") != 0)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_bench: options.what is \"%s\"; comm, gemm and step exist", what);
    zr_threads threads;
    ZERO_TRY(zr_threads_choose(comm, options->threads, &threads, error));
    zr_bench bench = {.comm = comm, .seconds = options->seconds > 0 ? options->seconds : 0.2, .threads = threads.count,
                      .write = comm->rank == 0 ? write : NULL, .user = user};
    zr_bench_say(&bench, "%d rank%s (%s), %d thread%s each (%s)\n", comm->size, comm->size == 1 ? "" : "s", zero_comm_name(comm), threads.count,
                 threads.count == 1 ? "" : "s", threads.reason);
    if (comm_only)
        return zr_bench_comm(&bench, error);
    return gemm ? zr_bench_gemm(&bench, error) : zr_bench_step(&bench, options, error);
}
