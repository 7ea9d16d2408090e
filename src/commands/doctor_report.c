// zero_doctor: what this machine is, and what it lacks. It changes nothing but the file that it is
// asked to write; what it runs is a short matrix product and a second of disk transfers.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "base/file.h"
#include "commands/doctor_report.h"
#include "compute/compute.h"
#include "data/unpack.h"
#include "memory/arena.h"
#include "setup/machine_facts.h"
#include <zero/commands.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { LABELS = 15 }; // columns

static void look_at_processor(zr_report *r)
{
    char model[128];
    struct utsname system;
    zr_cpu_model(model, sizeof model);
    zr_cpu_features has = zr_cpu_detect();
    zr_cpu_budget budget = zr_cpu_budget_get();
    if (uname(&system) == 0)
        ZR_SENTENCE(r, "system", "{system.name} {system.release}, {system.machine}",
                    zr_text(system.sysname), zr_text(system.release), zr_text(system.machine));
    zr_report_begin(r, "processor");
    ZR_SENTENCE(r, "processor", "{model}", zr_text(model));
    ZR_SENTENCE(r, "cores", "{cores} may be used ({cores_reason})", zr_integer(budget.allowed),
                zr_text(budget.reason));
    ZR_SENTENCE(r, "instructions",
                "avx2+fma {avx2_fma}, avx512 {avx512}, avx512-bf16 {avx512_bf16}, amx-bf16 "
                "{amx_bf16}, crc32 {crc32}",
                zr_flag(has.avx2_fma), zr_flag(has.avx512), zr_flag(has.avx512_bf16),
                zr_flag(has.amx_bf16), zr_flag(has.crc32));
    zr_report_end(r);
}

// Finds oneDNN by its symbol's name, so that a build without it does not depend on it.
static void look_at_onednn(zr_doctor *d)
{
    // The first fields of dnnl_version_t.
    typedef struct version {
        int major, minor, patch;
    } version;
    const version *(*ask)(void) = NULL;
    char found[64];
    *(void **)&ask = dlsym(RTLD_DEFAULT, "dnnl_version");
    if (ask)
        snprintf(found, sizeof found, "%d.%d.%d", ask()->major, ask()->minor, ask()->patch);
    else
        zr_doctor_lacks(d, true, "oneDNN", "without it products are slower");
    ZR_SENTENCE(d->report, "oneDNN", "{onednn}",
                ask ? zr_text(found)
                    : zr_both("not in this build: products are the portable ones, slower", NULL));
}

zero_status zr_doctor_product_rate(zr_queue *queue, zero_dtype dtype, double *flops,
                                   zero_error *error)
{
    enum { SIDE = 1024 };
    zr_product product = {.dtype = dtype, .out = dtype, .m = SIDE, .n = SIDE, .k = SIDE};
    size_t matrix = zero_dtype_bytes(dtype) * SIDE * SIDE,
           scratch = zr_op_scratch(queue, zr_op_product(&product, NULL, NULL, NULL, NULL));
    zr_ledger ledger = {0};
    zr_arena arena = {0};
    ZERO_TRY(zr_arena_on_host(&ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                              3 * matrix + scratch + 4 * ZR_ALIGN, &arena, error));
    void *a = zr_arena_take(&arena, matrix), *b = zr_arena_take(&arena, matrix),
         *c = zr_arena_take(&arena, matrix);
    queue->scratch = zr_arena_take(&arena, scratch);
    queue->scratch_bytes = scratch;
    zr_run(queue, zr_op_product(&product, a, b, NULL, c));
    zero_status status = zr_queue_check(queue, error);
    double begin = zr_clock_seconds(), end = begin;
    int calls = 0;
    for (; status == ZERO_OK && end - begin < 0.2; calls++, end = zr_clock_seconds())
        zr_run(queue, zr_op_product(&product, a, b, NULL, c));
    *flops = calls ? 2.0 * SIDE * SIDE * SIDE * calls / (end - begin) : 0;
    zr_arena_destroy(&arena);
    return status;
}

static zero_status look_at_compute(zr_doctor *d, zero_error *error)
{
    zr_queue *queue = NULL;
    double flops = 0;
    int threads = zr_cpu_budget_get().allowed;
    char offered[160];
    zr_backends_offered(offered, sizeof offered);
    ZR_SENTENCE(d->report, "backends", "{backends}", zr_text(offered));
    look_at_onednn(d);
    ZERO_TRY(zr_queue_open("cpu", NULL, threads, &queue, error));
    zero_status status = zr_doctor_product_rate(queue, ZERO_F32, &flops, error);
    if (status == ZERO_OK)
        ZR_SENTENCE(d->report, "compute",
                    "path {compute.path}; fp32 product 1024^3 on {compute.threads} thread{}: "
                    "{compute.fp32_flops_per_second:G} GF/s",
                    zr_text(queue->backend->path()), zr_integer(threads), zr_plural(threads),
                    zr_real(flops));
    zr_queue_close(queue);
    return status;
}

static void look_at_memory(zr_doctor *d)
{
    char reason[128];
    d->memory = zr_memory_available(reason, sizeof reason);
    ZR_SENTENCE(d->report, "memory", "{memory.bytes:.2G} GB may be used ({memory.reason})",
                zr_integer(d->memory), zr_text(reason));
    int fd = memfd_create("zero-doctor", MFD_CLOEXEC);
    if (fd >= 0) {
        ZR_SENTENCE(d->report, "shared memory", "memfd: {memory.memfd}", zr_flag(true));
        close(fd);
        return;
    }
    ZR_SENTENCE(d->report, "shared memory",
                "{memory.memfd} ({memory.memfd_refused}): ranks as processes cannot share memory",
                zr_both("memfd_create is refused", "false"), zr_text(strerror(errno)));
    zr_doctor_lacks(d, false, "memfd_create", "for several ranks; the container's rules refuse it");
}

// Reports a limit in `words`, which have a value, and whether it is below what is wanted.
static void look_at_limit(zr_report *r, const char *label, const char *words, int resource,
                          int64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit))
        return;
    bool none = limit.rlim_cur == RLIM_INFINITY, low = !none && (int64_t)limit.rlim_cur < wanted;
    ZR_SENTENCE(r, label, words,
                none ? zr_both("unlimited", NULL) : zr_integer((int64_t)limit.rlim_cur),
                low ? zr_both(" (low: ulimit raises it)", "true") : zr_both("", "false"));
}

static void look_at_limits(zr_report *r)
{
    zr_report_begin(r, "limits");
    look_at_limit(r, "locked memory", "{locked_memory_bytes:B}{locked_memory_is_low}",
                  RLIMIT_MEMLOCK, 8 << 20);
    look_at_limit(r, "open files", "{open_files}{open_files_is_low}", RLIMIT_NOFILE, 1024);
    zr_report_end(r);
}

static void look_at_io(zr_doctor *d)
{
    char parameters[120] = {0}; // struct io_uring_params, all zero
    int fd = (int)syscall(SYS_io_uring_setup, 4, parameters);
    ZR_SENTENCE(d->report, "io_uring",
                "{io_uring.offered}[ ({io_uring.refused}): offload to NVMe would use threads]",
                zr_flag(fd >= 0), fd >= 0 ? zr_absent() : zr_text(strerror(errno)));
    if (fd >= 0)
        close(fd);
    else
        zr_doctor_lacks(d, false, "io_uring",
                        "for offload to NVMe; the container's rules refuse it");
}

// Reports which compressed data can be read.
static void look_at_unpacking(zr_doctor *d)
{
    bool gzip = zr_unpack_is_built("gzip"), zstd = zr_unpack_is_built("zstd");
    ZR_SENTENCE(d->report, "compressed", "data of gzip {unpack.gzip}, of zstd {unpack.zstd}",
                zr_flag(gzip), zr_flag(zstd));
    if (!gzip)
        zr_doctor_lacks(d, true, "zlib", "for data compressed by gzip");
    if (!zstd)
        zr_doctor_lacks(d, true, "libzstd", "for data compressed by zstd");
}

// Reports the first line of a file in /sys.
static void look_at_setting(zr_report *r, const char *label, const char *words, const char *path)
{
    char *text;
    size_t length;
    if (zr_file_read(path, 4096, &text, &length, NULL) != ZERO_OK)
        return;
    text[strcspn(text, "\n")] = 0;
    ZR_SENTENCE(r, label, words, zr_text(text));
    zr_free(text);
}

static zero_status look(zr_doctor *d, const zero_doctor_options *options, zero_error *error)
{
    zr_report *r = d->report;
    zr_report_labels(r, LABELS);
    ZR_SENTENCE(r, "zero", "{version}", zr_text(zero_version()));
    look_at_processor(r);
    zero_status status = look_at_compute(d, error);
    zr_doctor_cards(d);
    look_at_memory(d);
    zr_doctor_mpi(d);
    look_at_io(d);
    look_at_unpacking(d);
    look_at_limits(r);
    look_at_setting(r, "huge pages", "{huge_pages.anonymous}",
                    "/sys/kernel/mm/transparent_hugepage/enabled");
    look_at_setting(r, "  of memfd", "{huge_pages.memfd}",
                    "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    zr_doctor_rates(d);
    const char *directory = options->path ? options->path : ".";
    zr_doctor_disk(d, directory);
    if (status == ZERO_OK && options->write_machine)
        status = zr_doctor_machine(d, directory, options->write_machine, error);
    return status;
}

void zr_doctor_lacks(zr_doctor *d, bool from_packages, const char *what, const char *why)
{
    zr_report *r = d->missing;
    zr_report_words(r, "%s", d->lacks ? ", " : "");
    zr_report_begin(r, NULL);
    zr_report_phrase(r, &(zr_heading){"what", ""}, zr_text(what));
    zr_report_phrase(r, &(zr_heading){"why", " ("}, zr_text(why));
    zr_report_words(r, ")");
    zr_report_end(r);
    d->lacks = true;
    d->from_packages |= from_packages;
}

// Reports what a user asks first, in three lines: how large a model, what is missing, where to
// look. The rest follows.
static zr_report *begin_with_verdict(zr_doctor *d, zero_error *error)
{
    zr_report *r = zr_report_create(error);
    char command[64];
    snprintf(command, sizeof command, "zero plan --new gpt2 --memory %.3gGB",
             (double)d->memory / 1e9);
    zr_report_labels(r, LABELS);
    ZR_SENTENCE(r, "verdict",
                "this machine trains models of up to {verdict.parameters_in_memory:.2G} billion "
                "parameters in its memory[, {verdict.parameters_with_disk:.2G} billion with "
                "states on its disk], less what activations take",
                zr_real(d->in_memory),
                d->with_disk > d->in_memory ? zr_real(d->with_disk) : zr_absent());
    zr_report_words(r, "%-*s", LABELS, "missing");
    zr_report_begin_list(r, "missing");
    zr_report_append(r, d->missing);
    zr_report_end(r);
    ZR_SENTENCE(r, NULL, "{}[: {missing_command}]", zr_text(d->lacks ? "" : "nothing"),
                d->from_packages ? zr_text("./bootstrap deps && ./bootstrap build") : zr_absent());
    ZR_SENTENCE(r, "next",
                "{next_command} says what fits and how to train it; docs/offload.md has larger "
                "models",
                zr_text(command));
    zr_report_append(r, d->report);
    return r;
}

zero_status zero_doctor(const zero_doctor_options *options,
                        void (*write)(void *user, const char *text), void *user, zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    zr_doctor d = {.report = zr_report_create(error), .missing = zr_report_create(error)};
    zero_status status = look(&d, options, error);
    zr_report *answer = begin_with_verdict(&d, status == ZERO_OK ? error : NULL);
    zero_status printed =
        zr_report_print(answer, options->json != 0, write, user, status == ZERO_OK ? error : NULL);
    return status == ZERO_OK ? printed : status;
}
