// `zero bench checkpoint`: how fast a model's whole training state is written to a disk and read
// back, including checksums and fsync.
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/file.h"
#include "base/numbers.h"
#include "comm/agreement.h"
#include "commands/bench_engine.h"
#include "engine/engine_api.h"
#include "formats/manifest.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 5, PATH_BYTES = 4096 };

typedef struct checkpoint_bench {
    const zr_bench *bench;
    zr_bench_engine made;
    char path[PATH_BYTES];             // directory of the checkpoint, the same on all ranks
    double bytes;                      // of the checkpoint's files
    double save[ROUNDS], load[ROUNDS]; // bytes per second
} checkpoint_bench;

static zero_status choose_path(checkpoint_bench *c, const char *directory, zero_error *error)
{
    zero_status status = ZERO_OK;
    directory = directory ? directory : ".";
    if (snprintf(c->path, sizeof c->path, "%s/zero-bench.%ld", directory, (long)getpid()) >=
            PATH_BYTES ||
        !zr_path_exists(directory))
        status = zr_fail(error, ZERO_ERR_USAGE, "measuring \"%.200s\": there is no such directory",
                         directory);
    // An existing path is refused, because the benchmark removes it afterwards.
    else if (c->bench->meter.comm->rank == 0 && zr_path_exists(c->path))
        status = zr_fail(error, ZERO_ERR_USAGE, "measuring \"%.200s\": \"%.200s\" is there already",
                         directory, c->path);
    ZERO_TRY(zr_comm_agree(c->bench->meter.comm, status, error));
    return zr_comm_broadcast(c->bench->meter.comm, c->path, sizeof c->path, 0, error);
}

// Drops what is cached of the files, so that they are read from the disk, and sums up their bytes.
static zero_status drop_from_cache(checkpoint_bench *c, zero_error *error)
{
    zr_manifest manifest;
    ZERO_TRY(zr_manifest_read(c->path, &manifest, error));
    c->bytes = 0;
    for (int f = 0; f < manifest.file_count; f++) {
        char *path = zr_sprintf(error, "%s/%s", c->path, manifest.files[f].name);
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0) {
            (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            close(fd);
        }
        c->bytes += (double)manifest.files[f].bytes;
        zr_free(path);
    }
    zr_manifest_free(&manifest);
    return ZERO_OK;
}

// Measures the seconds of the slowest rank.
static zero_status time_slowest_rank(checkpoint_bench *c,
                                     zero_status (*work)(zero_engine *engine, const char *directory,
                                                         zero_error *error),
                                     double *seconds, zero_error *error)
{
    ZERO_TRY(zr_comm_barrier(c->bench->meter.comm, error));
    double begin = zr_clock_seconds();
    ZERO_TRY(work(c->made.engine, c->path, error));
    int64_t nanoseconds = (int64_t)((zr_clock_seconds() - begin) * 1e9);
    ZERO_TRY(zr_comm_agree_on_largest(c->bench->meter.comm, &nanoseconds, error));
    *seconds = (double)nanoseconds * 1e-9;
    return ZERO_OK;
}

static zero_status measure_rounds(checkpoint_bench *c, zero_error *error)
{
    zero_comm *comm = c->bench->meter.comm;
    for (int i = 0; i < ROUNDS; i++) {
        double save, load;
        ZERO_TRY(time_slowest_rank(c, zero_save_checkpoint, &save, error));
        ZERO_TRY(zr_comm_agree(comm, drop_from_cache(c, error), error));
        ZERO_TRY(time_slowest_rank(c, zero_load_checkpoint, &load, error));
        ZERO_TRY(zr_comm_agree(
            comm, comm->rank == 0 ? zr_directory_remove(c->path, error) : ZERO_OK, error));
        c->save[i] = c->bytes / save;
        c->load[i] = c->bytes / load;
    }
    return ZERO_OK;
}

static void say_median_rate(const checkpoint_bench *c, const char *name, double *rates,
                            const char *comment)
{
    double median = zr_median(rates, ROUNDS);
    zr_bench_say(c->bench, "%-5s %8.2f GB/s   (%.2f to %.2f; %s)\n", name, median * 1e-9,
                 rates[0] * 1e-9, rates[ROUNDS - 1] * 1e-9, comment);
}

static zero_status save_and_load(checkpoint_bench *c, const zero_bench_options *options,
                                 zero_error *error)
{
    ZERO_TRY(choose_path(c, options->path, error));
    ZERO_TRY(zr_bench_engine_open(c->bench, options, &c->made, error));
    const zr_plan *plan = zr_engine_plan(c->made.engine);
    zr_bench_say(c->bench, "%s: %.3f M parameters, %s, stage %d\n", c->made.subject.name,
                 (double)plan->parameters / 1e6, plan->settings.precision.name,
                 plan->settings.stage);
    zero_status status = measure_rounds(c, error);
    if (status != ZERO_OK && c->bench->meter.comm->rank == 0)
        zr_directory_remove(c->path, NULL);
    ZERO_TRY(status);
    zr_bench_say(c->bench, "%.2f GB in \"%s\"; the median of %d rounds\n", c->bytes * 1e-9, c->path,
                 ROUNDS);
    say_median_rate(c, "save", c->save, "with checksums, and brought to the disk");
    say_median_rate(c, "load", c->load,
                    "not cached, checksums compared, until the next step may begin");
    return ZERO_OK;
}

zero_status zr_bench_checkpoint(const zr_bench *bench, const zero_bench_options *options,
                                zero_error *error)
{
    checkpoint_bench c = {.bench = bench};
    zero_status status = save_and_load(&c, options, error);
    zr_bench_engine_close(&c.made);
    return status;
}
