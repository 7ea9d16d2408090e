// `zero bench io`: what the disk of a directory reaches through the I/O engine.
#include "predict/disk.h"
#include "predict/rates.h"
#include "commands/bench_shared.h"

#include <string.h>

enum { ROUNDS = 5, DEFAULT_DEPTH = 8 };
#define DEFAULT_BYTES ((int64_t)1 << 30)
#define DEFAULT_BLOCK ((int64_t)1 << 20)

static void say_rate(const zr_bench *bench, const char *name, const zr_disk_rate *rate,
                     const char *comment)
{
    zr_bench_say(bench, "%-8s %8.2f GB/s   (%.2f to %.2f%s)\n", name, rate->median * 1e-9,
                 rate->least * 1e-9, rate->most * 1e-9, comment);
}

static void say_disk(const zr_bench *bench, const zr_disk_options *options, const zr_disk *disk)
{
    zr_bench_say(bench, "\"%s\": ", options->directory);
    zr_bench_say(bench, "%s, %.1f GB free; %s\n", disk->kind, (double)disk->available * 1e-9,
                 disk->engine);
    if (!disk->direct)
        zr_bench_say(
            bench,
            "no O_DIRECT (%s): these are the figures of the page cache more than of the disk\n",
            disk->refused);
    zr_bench_say(bench,
                 "%.2f MB of random bytes, blocks of %lld, %d under way, sub-groups of %.2f MB; "
                 "the median of %d rounds\n",
                 (double)disk->scratch * 1e-6, (long long)options->block, options->depth,
                 (double)disk->group * 1e-6, options->rounds);
    say_rate(bench, "read", &disk->read, "");
    say_rate(bench, "write", &disk->write, "");
    say_rate(bench, "update", &disk->mix,
             "; sub-groups read and written in place, three deep: both together");
}

static void write_rate(zr_json_writer *w, const char *key, const zr_disk_rate *rate)
{
    zr_json_begin_object(w, key);
    zr_json_fixed(w, "median", 0, rate->median);
    zr_json_fixed(w, "least", 0, rate->least);
    zr_json_fixed(w, "most", 0, rate->most);
    zr_json_end(w);
}

static zero_status say_json(const zr_bench *bench, const zr_disk_options *options,
                            const zr_disk *disk, zero_error *error)
{
    zr_buffer text = {0};
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_SPACED);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "directory", options->directory);
    zr_json_text(&w, "file_system", disk->kind);
    zr_json_text(&w, "engine", disk->engine);
    zr_json_flag(&w, "direct", disk->direct);
    zr_json_integer(&w, "available", disk->available);
    zr_json_integer(&w, "scratch", disk->scratch);
    zr_json_integer(&w, "group", disk->group);
    zr_json_integer(&w, "block", options->block);
    zr_json_integer(&w, "depth", options->depth);
    zr_json_integer(&w, "rounds", options->rounds);
    write_rate(&w, "read", &disk->read);
    write_rate(&w, "write", &disk->write);
    write_rate(&w, "update", &disk->mix);
    return zr_bench_say_json(bench, &w, error);
}

static void keep_disk_rates(const zr_bench *bench, const zr_disk_options *options,
                            const zr_disk *disk)
{
    char *file;
    const zr_storage_rates measured = {.read = disk->read.median,
                                       .write = disk->write.median,
                                       .mix = disk->mix.median,
                                       .direct = disk->direct,
                                       .block = options->block,
                                       .depth = options->depth};
    zr_storage_keep(options->directory, &measured, bench->logger, &file);
    if (file && !bench->json)
        zr_bench_say(bench, "kept for plans of this machine in %s\n", file);
    zr_free(file);
}

zero_status zr_bench_io(const zr_bench *bench, const zero_bench_options *options, zero_error *error)
{
    zr_disk disk;
    const zr_disk_options chosen = {.directory = options->path ? options->path : ".",
                                    .bytes = options->bytes ? options->bytes : DEFAULT_BYTES,
                                    .block = options->block ? options->block : DEFAULT_BLOCK,
                                    .depth = options->depth ? options->depth : DEFAULT_DEPTH,
                                    .seconds = bench->meter.seconds,
                                    .rounds = ROUNDS};
    ZERO_TRY(zr_disk_measure(&chosen, &disk, error));
    if (bench->json)
        ZERO_TRY(say_json(bench, &chosen, &disk, error));
    else
        say_disk(bench, &chosen, &disk);
    keep_disk_rates(bench, &chosen, &disk);
    return ZERO_OK;
}
