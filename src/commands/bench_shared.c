// zero_bench: what all benchmarks share, and the choice of one.
#include "commands/bench_shared.h"

#include "base/clock.h"
#include "base/errors.h"
#include "config/config_facts.h"
#include "setup/machine_facts.h"

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

zero_status zr_bench_say_json(const zr_bench *bench, zr_json_writer *json, zero_error *error)
{
    zr_json_finish(json);
    zero_status status = json->out->failed
                             ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a JSON object")
                             : ZERO_OK;
    if (status == ZERO_OK && bench->write)
        bench->write(bench->user, json->out->data);
    zr_buffer_free(json->out);
    return status;
}

double zr_bench_peak(const zr_queue *queue)
{
    double best = 0;
    for (int i = 0; i < 50; i++) {
        double begin = zr_clock_seconds();
        double flops = (double)queue->backend->multiply_add(100000);
        best = ZR_MAX(best, flops / (zr_clock_seconds() - begin));
    }
    return best;
}

typedef struct benchmark {
    const char *name;
    bool of_machine; // one rank measures it, and it can print JSON
    zr_bench_run *run;
} benchmark;

static const benchmark benchmarks[] = {
    {.name = "comm", .run = zr_bench_comm},
    {.name = "gemm", .run = zr_bench_gemm},
    {.name = "optimizer", .run = zr_bench_optimizer},
    {.name = "blocks", .run = zr_bench_blocks},
    {.name = "step", .run = zr_bench_step},
    {.name = "checkpoint", .run = zr_bench_checkpoint},
    {.name = "memory", .of_machine = true, .run = zr_bench_memory},
    {.name = "io", .of_machine = true, .run = zr_bench_io},
};

static zero_status find_benchmark(const char *what, const benchmark **out, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(benchmarks); i++) {
        *out = &benchmarks[i];
        if (strcmp(benchmarks[i].name, what) == 0)
            return ZERO_OK;
    }
    return zr_fail(error, ZERO_ERR_USAGE,
                   "zero_bench: options.what is \"%s\"; comm, gemm, optimizer, blocks, step, "
                   "checkpoint, memory and io exist",
                   what);
}

static zero_status check_bench_options(const benchmark *of, const zero_comm *comm,
                                       const zero_bench_options *options, zero_error *error)
{
    if (of->of_machine && comm->size > 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "bench %s measures the machine with one rank, not with %d", options->what,
                       comm->size);
    if (!of->of_machine && options->json)
        return zr_fail(error, ZERO_ERR_USAGE, "bench %s prints no JSON: memory and io do",
                       options->what);
    const zero_parallel *parallel = &options->parallel;
    if ((parallel->tensor || parallel->sequence_parallel) && of->run != zr_bench_step)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "bench %s knows no tensor parallelism (--tensor, --sequence-parallel): step "
                       "does",
                       options->what);
    if ((parallel->pipeline || parallel->schedule || parallel->split) && of->run != zr_bench_step)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "bench %s knows no pipelines (--pipeline, --schedule, --split): step does",
                       options->what);
    return ZERO_OK;
}

static void say_ranks(const zr_bench *bench, const zero_bench_options *options,
                      const zr_rank_threads *threads)
{
    zero_comm *comm = bench->meter.comm;
    char words[112] = "";
    zr_job_grid grid = {.stages = ZR_MAX(options->parallel.pipeline, 1),
                        .tensor = ZR_MAX(options->parallel.tensor, 1)};
    int64_t model = grid.stages * grid.tensor;
    grid.data = comm->size / model;
    if (model > 1 && comm->size % model == 0) // else it is refused later
        snprintf(words, sizeof words, ", %s%s", zr_grid_in_words(grid).text,
                 options->parallel.sequence_parallel ? ", rows divided" : "");
    zr_bench_say(bench, "%d rank%s (%s%s), %d thread%s each (%s)\n", comm->size,
                 comm->size == 1 ? "" : "s", zero_comm_name(comm), words, threads->count,
                 threads->count == 1 ? "" : "s", threads->reason);
}

zero_status zero_bench(zero_comm *comm, const zero_bench_options *options,
                       void (*write)(void *user, const char *text), void *user, zero_error *error)
{
    ZR_NEED(error, comm);
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    const benchmark *of;
    ZERO_TRY(find_benchmark(options->what ? options->what : "", &of, error));
    ZERO_TRY(check_bench_options(of, comm, options, error));
    zr_rank_threads threads;
    ZERO_TRY(zr_rank_threads_choose(comm, options->threads, &threads, error));
    const zr_bench bench = {
        .meter = {.comm = comm,
                  .threads = threads.count,
                  .seconds = options->seconds > 0 ? options->seconds : 0.2},
        .json = options->json != 0,
        .write = comm->rank == 0 ? write : NULL,
        .user = user,
        .logger = &options->logger,
    };
    if (!bench.json)
        say_ranks(&bench, options, &threads);
    return of->run(&bench, options, error);
}
