// zero_doctor: what this machine is, and what it lacks. It changes nothing but the file that it is
// asked to write; what it runs is a short matrix product and a second of disk transfers.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "base/file.h"
#include "base/text.h"
#include "commands/doctor_report.h"
#include "compute/compute.h"
#include "compute/product_ops.h"
#include "memory/arena.h"
#include "setup/machine_facts.h"
#include <zero/commands.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

void zr_doctor_say(const zr_doctor *d, const char *what, const char *format, ...)
{
    char text[512], line[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "%-14s %s\n", what, text);
    zr_plain_line(line, d->write, d->user);
}

static void look_at_processor(const zr_doctor *d)
{
    char model[128];
    struct utsname system;
    zr_cpu_model(model, sizeof model);
    zr_cpu_features has = zr_cpu_detect();
    zr_cpu_budget budget = zr_cpu_budget_get();
    if (uname(&system) == 0)
        zr_doctor_say(d, "system", "%s %s, %s", system.sysname, system.release, system.machine);
    zr_doctor_say(d, "processor", "%s", model);
    zr_doctor_say(d, "cores", "%d may be used (%s)", budget.allowed, budget.reason);
    zr_doctor_say(
        d, "instructions", "avx2+fma %s, avx512 %s, avx512-bf16 %s, amx-bf16 %s, crc32 %s",
        has.avx2_fma ? "yes" : "no", has.avx512 ? "yes" : "no", has.avx512_bf16 ? "yes" : "no",
        has.amx_bf16 ? "yes" : "no", has.crc32 ? "yes" : "no");
}

// Finds oneDNN by its symbol's name, so that a build without it does not depend on it.
static void look_at_onednn(const zr_doctor *d)
{
    // The first fields of dnnl_version_t.
    typedef struct version {
        int major, minor, patch;
    } version;
    const version *(*ask)(void) = NULL;
    *(void **)&ask = dlsym(RTLD_DEFAULT, "dnnl_version");
    if (ask) {
        zr_doctor_say(d, "oneDNN", "%d.%d.%d", ask()->major, ask()->minor, ask()->patch);
        return;
    }
    zr_doctor_say(d, "oneDNN", "not in this build: products are the portable ones, slower");
    zr_doctor_lacks(d, true, "oneDNN (without it products are slower)");
}

zero_status zr_doctor_product_rate(zr_queue *queue, zero_dtype dtype, double *flops,
                                   zero_error *error)
{
    enum { SIDE = 1024 };
    zr_product product = {.dtype = dtype, .out = dtype, .m = SIDE, .n = SIDE, .k = SIDE};
    size_t matrix = zero_dtype_bytes(dtype) * SIDE * SIDE,
           scratch = queue->backend->product->scratch(queue, &product);
    zr_ledger ledger = {0};
    zr_arena arena = {0};
    ZERO_TRY(zr_arena_create(&ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                             3 * matrix + scratch + 4 * ZR_ALIGN, &arena, error));
    void *a = zr_arena_take(&arena, matrix), *b = zr_arena_take(&arena, matrix),
         *c = zr_arena_take(&arena, matrix);
    queue->scratch = zr_arena_take(&arena, scratch);
    queue->scratch_bytes = scratch;
    zero_status status = queue->backend->product->run(queue, &product, a, b, NULL, c, error);
    double begin = zr_clock_seconds(), end = begin;
    int calls = 0;
    for (; status == ZERO_OK && end - begin < 0.2; calls++, end = zr_clock_seconds())
        status = queue->backend->product->run(queue, &product, a, b, NULL, c, error);
    *flops = calls ? 2.0 * SIDE * SIDE * SIDE * calls / (end - begin) : 0;
    zr_arena_destroy(&arena);
    return status;
}

static zero_status look_at_compute(const zr_doctor *d, zero_error *error)
{
    zr_queue *queue = NULL;
    double flops = 0;
    int threads = zr_cpu_budget_get().allowed;
    char offered[160];
    zr_backends_offered(offered, sizeof offered);
    zr_doctor_say(d, "backends", "%s", offered);
    look_at_onednn(d);
    ZERO_TRY(zr_queue_open("cpu", NULL, threads, &queue, error));
    zero_status status = zr_doctor_product_rate(queue, ZERO_F32, &flops, error);
    if (status == ZERO_OK)
        zr_doctor_say(d, "compute", "path %s; fp32 product 1024^3 on %d thread%s: %.0f GF/s",
                      queue->backend->path(), threads, threads == 1 ? "" : "s", flops * 1e-9);
    zr_queue_close(queue);
    return status;
}

static int64_t look_at_memory(const zr_doctor *d)
{
    char reason[128];
    int64_t bytes = zr_memory_available(reason, sizeof reason);
    zr_doctor_say(d, "memory", "%.2f GB may be used (%s)", (double)bytes / 1e9, reason);
    int fd = memfd_create("zero-doctor", MFD_CLOEXEC);
    if (fd >= 0) {
        zr_doctor_say(d, "shared memory", "memfd: yes");
        close(fd);
        return bytes;
    }
    zr_doctor_say(d, "shared memory",
                  "memfd_create is refused (%s): ranks as processes cannot share memory",
                  strerror(errno));
    zr_doctor_lacks(d, false, "memfd_create (for several ranks; the container's rules refuse it)");
    return bytes;
}

static void look_at_limit(const zr_doctor *d, const char *name, int resource, int64_t wanted,
                          bool of_bytes)
{
    struct rlimit limit;
    char text[ZR_BYTES_TEXT];
    if (getrlimit(resource, &limit))
        return;
    if (of_bytes)
        zr_bytes_text((double)limit.rlim_cur, text);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)limit.rlim_cur);
    if (limit.rlim_cur == RLIM_INFINITY)
        zr_doctor_say(d, name, "unlimited");
    else
        zr_doctor_say(d, name, "%s%s", text,
                      (int64_t)limit.rlim_cur < wanted ? " (low: ulimit raises it)" : "");
}

static void look_at_io(const zr_doctor *d)
{
    char parameters[120] = {0}; // struct io_uring_params, all zero
    int fd = (int)syscall(SYS_io_uring_setup, 4, parameters);
    if (fd >= 0) {
        zr_doctor_say(d, "io_uring", "yes");
        close(fd);
        return;
    }
    zr_doctor_say(d, "io_uring", "no (%s): offload to NVMe would use threads", strerror(errno));
    zr_doctor_lacks(d, false, "io_uring (for offload to NVMe; the container's rules refuse it)");
}

// Reports the first line of a file in /sys.
static void look_at_setting(const zr_doctor *d, const char *name, const char *path)
{
    char *text;
    size_t length;
    if (zr_file_read(path, 4096, &text, &length, NULL) != ZERO_OK)
        return;
    text[strcspn(text, "\n")] = 0;
    zr_doctor_say(d, name, "%s", text);
    zr_free(text);
}

// Looks at everything; *memory is what there is of it.
static zero_status look(const zr_doctor *d, const zero_doctor_options *options, int64_t *memory,
                        zero_error *error)
{
    zr_doctor_say(d, "zero", "%s", zero_version());
    look_at_processor(d);
    zero_status status = look_at_compute(d, error);
    *memory = look_at_memory(d);
    zr_doctor_mpi(d);
    look_at_io(d);
    look_at_limit(d, "locked memory", RLIMIT_MEMLOCK, 8 << 20, true);
    look_at_limit(d, "open files", RLIMIT_NOFILE, 1024, false);
    look_at_setting(d, "huge pages", "/sys/kernel/mm/transparent_hugepage/enabled");
    look_at_setting(d, "  of memfd", "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    zr_doctor_rates(d);
    const char *directory = options->path ? options->path : ".";
    zr_doctor_disk(d, directory, *memory);
    if (status == ZERO_OK && options->write_machine)
        status = zr_doctor_machine(d, directory, options->write_machine, error);
    return status;
}

void zr_doctor_lacks(const zr_doctor *d, bool from_packages, const char *what)
{
    zr_buffer *missing = &d->verdict->missing;
    zr_buffer_printf(missing, missing->length ? ", %s" : "%s", what);
    d->verdict->packages |= from_packages;
}

// What a user asks first, in three lines: how large a model, what is missing, where to look.
static void say_verdict(const zr_doctor *d, int64_t memory)
{
    const zr_doctor_verdict *v = d->verdict;
    bool lacks = v->missing.length && !v->missing.failed;
    char disk[80] = "";
    if (v->with_disk > v->in_memory)
        snprintf(disk, sizeof disk, ", %.2f billion with states on its disk", v->with_disk / 1e9);
    zr_doctor_say(d, "verdict",
                  "this machine trains models of up to %.2f billion parameters in its memory%s, "
                  "less what activations take",
                  v->in_memory / 1e9, disk);
    zr_doctor_say(d, "missing", "%s%s", lacks ? v->missing.data : "nothing",
                  lacks && v->packages ? ": ./bootstrap deps && ./bootstrap build" : "");
    zr_doctor_say(d, "next",
                  "zero plan --new gpt2 --memory %.3gGB says what fits and how to train it; "
                  "docs/offload.md has larger models",
                  (double)memory / 1e9);
}

static void keep_doctor_report(void *user, const char *text) { zr_buffer_printf(user, "%s", text); }

zero_status zero_doctor(const zero_doctor_options *options,
                        void (*write)(void *user, const char *text), void *user, zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    zr_doctor_verdict verdict = {0};
    zr_buffer kept = {0};
    zr_doctor d = {.write = keep_doctor_report, .user = &kept, .verdict = &verdict};
    int64_t memory = 0;
    zero_status status = look(&d, options, &memory, error);
    d.write = write;
    d.user = user;
    say_verdict(&d, memory);
    if (kept.length && !kept.failed)
        write(user, kept.data);
    zr_buffer_free(&kept);
    zr_buffer_free(&verdict.missing);
    return status;
}
