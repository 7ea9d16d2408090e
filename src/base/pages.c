// Page faults ahead of time, in several threads, and large pages.
#define _GNU_SOURCE
#include "base/alloc.h"

#include "base/cpu.h"
#include "base/thread.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE ((size_t)4096)
#define WORTH ((size_t)32 << 20) // bytes that are worth a thread
#define THREADS_MAX 8

typedef struct part {
    char *base;
    size_t bytes;
    int failed; // an errno
} part;

// Kernels before 5.14 do not know this advice; there each page is written to.
static int populate_pages(char *base, size_t bytes)
{
    int failed;
    do
        failed = madvise(base, bytes, MADV_POPULATE_WRITE);
    while (failed && errno == EINTR);
    if (!failed)
        return 0;
    if (errno != EINVAL)
        return errno;
    for (size_t i = 0; i < bytes; i += PAGE)
        __atomic_fetch_or(base + i, 0, __ATOMIC_RELAXED);
    return 0;
}

static void populate_job(void *argument)
{
    part *p = argument;
    p->failed = populate_pages(p->base, p->bytes);
}

// Gives each thread a part; if no thread can be created, this one does everything.
static int populate_in_threads(char *base, size_t bytes, int threads)
{
    zr_workers *workers;
    zero_error ignored;
    if (zr_workers_create(threads, threads, &workers, &ignored) != ZERO_OK)
        return populate_pages(base, bytes);
    part parts[THREADS_MAX];
    size_t each = ZR_ROUND_UP(bytes / (size_t)threads, PAGE), done = 0;
    for (int i = 0; i < threads; i++, done += each) {
        parts[i] = (part){.base = base + done, .bytes = i + 1 < threads ? each : bytes - done};
        if (zr_workers_submit(workers, populate_job, &parts[i], &ignored) != ZERO_OK)
            populate_job(&parts[i]);
    }
    zr_workers_destroy(workers); // returns when all jobs have ended
    int failed = 0;
    for (int i = 0; i < threads && !failed; i++)
        failed = parts[i].failed;
    return failed;
}

int zr_pages_populate(void *base, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (bytes < 2 * WORTH)
        return populate_pages(base, bytes);
    int threads = ZR_MIN(zr_cpu_budget_get().allowed, THREADS_MAX);
    return threads < 2 ? populate_pages(base, bytes) : populate_in_threads(base, bytes, threads);
}

char *zr_pages_large(char *memory, size_t bytes)
{
    char *first = memory + (ZR_LARGE_PAGE - (uintptr_t)memory % ZR_LARGE_PAGE) % ZR_LARGE_PAGE;
    // Kernels without large pages refuse this; nothing depends on it.
    (void)madvise(first, bytes, MADV_HUGEPAGE);
    return first;
}
