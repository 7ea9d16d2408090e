// Invariant: a block belongs to a thread of `threads` while it is `busy`, which is read and written
// under the lock, and to the caller otherwise.
#define _GNU_SOURCE
#include "memory/direct.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

// In bytes. A chunk is small enough to be summed while it lies in a cache.
enum { ALIGN = 4096, BLOCK = 1 << 20, CHUNK = 1 << 16 };
enum { BLOCKS = 4, THREADS = 2 };

typedef struct target {
    zr_direct_file file;
    // The same file, opened with O_DIRECT; -1 if that is not possible.
    int direct;
    // It was opened with O_DIRECT, but takes no transfers, or has rows thinner than a page.
    atomic_bool cached;
} target;

typedef struct block {
    zr_direct *of;
    char *data; // (BLOCK), aligned
    target *to;
    int64_t base;      // of data[0] in the file; aligned but for rows
    size_t first, end; // data[first, end) is to be written
    // 0, or the block is rows of that many bytes, each `stride` bytes after the one before.
    int64_t width, stride;
    bool busy;
} block;

struct zr_direct {
    target *targets; // (count)
    int count;
    char *memory;
    block blocks[BLOCKS];
    block *current; // being filled; NULL if there is none
    zr_workers *threads;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    // Status and message of the first write that failed, under the lock.
    zero_status status;
    zero_error error;
};

// Writes data[from, to), whose ends are aligned, past the cache, as far as the file system takes
// it. *written is where it stopped; it is aligned, too.
static zero_status write_pages(const block *b, size_t from, size_t to, size_t *written,
                               zero_error *error)
{
    *written = from;
    while (*written < to && b->to->direct >= 0 && !b->to->cached) {
        ssize_t put =
            pwrite(b->to->direct, b->data + *written, to - *written, b->base + (int64_t)*written);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EINVAL || errno == EOPNOTSUPP))
            b->to->cached = true;
        else if (put < 0)
            return zr_fail_errno(error, ZERO_ERR_IO, errno,
                                 "cannot write %zu bytes at %lld of \"%s\"", to - *written,
                                 (long long)(b->base + (int64_t)*written), b->to->file.path);
        else if (put < ALIGN)
            break;
        else
            *written += (size_t)put / ALIGN * ALIGN;
    }
    return ZERO_OK;
}

static zero_status cannot_sync(const target *to, zero_error *error)
{
    return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot bring \"%s\" to the disk",
                         to->file.path);
}

static zero_status write_cached(const block *b, size_t from, size_t to, zero_error *error)
{
    return from < to ? zr_file_pwrite(b->to->file.fd, b->data + from, to - from,
                                      b->base + (int64_t)from, b->to->file.path, error)
                     : ZERO_OK;
}

// If the system does not know the call, only a hint is lost. But an error of the disk counts here,
// because the system reports it only once, to this call or to fsync.
static zero_status bring_to_disk(const block *b, int64_t first, int64_t bytes, zero_error *error)
{
    const unsigned all =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (!sync_file_range(b->to->file.fd, first, bytes, all))
        return ZERO_OK;
    bool unknown = errno == ENOSYS || errno == EINVAL || errno == ESPIPE || errno == EPERM;
    return unknown ? ZERO_OK : cannot_sync(b->to, error);
}

// Rows thinner than a page stay in the cache until the file is synced, because others write to the
// same pages.
static zero_status write_rows(const block *b, zero_error *error)
{
    int64_t at = b->base;
    for (size_t done = 0; done < b->end; done += (size_t)b->width, at += b->stride)
        ZERO_TRY(zr_file_pwrite(b->to->file.fd, b->data + done, (size_t)b->width, at,
                                b->to->file.path, error));
    return b->width >= ALIGN ? bring_to_disk(b, b->base, at - b->base, error) : ZERO_OK;
}

static zero_status write_stretch(const block *b, zero_error *error)
{
    size_t from = ZR_MIN((b->first + ALIGN - 1) / ALIGN * ALIGN, b->end),
           to = ZR_MAX(b->end / ALIGN * ALIGN, from), written;
    ZERO_TRY(write_cached(b, b->first, from, error));
    ZERO_TRY(write_pages(b, from, to, &written, error));
    ZERO_TRY(write_cached(b, written, b->end, error));
    return written < to
               ? bring_to_disk(b, b->base + (int64_t)b->first, (int64_t)(b->end - b->first), error)
               : ZERO_OK;
}

static zero_status write_block(const block *b, zero_error *error)
{
    return b->width ? write_rows(b, error) : write_stretch(b, error);
}

static void serve_direct(void *argument)
{
    block *b = argument;
    zr_direct *d = b->of;
    zero_error error;
    zero_status status = write_block(b, &error);
    pthread_mutex_lock(&d->lock);
    if (status != ZERO_OK && d->status == ZERO_OK) {
        d->status = status;
        d->error = error;
    }
    b->busy = false;
    pthread_cond_signal(&d->freed);
    pthread_mutex_unlock(&d->lock);
}

static zero_status failure(zr_direct *d, zero_error *error)
{
    pthread_mutex_lock(&d->lock);
    zero_status status = d->status;
    if (status != ZERO_OK && error)
        *error = d->error;
    pthread_mutex_unlock(&d->lock);
    return status;
}

static zero_status send_direct(zr_direct *d, zero_error *error)
{
    block *b = d->current;
    d->current = NULL;
    if (!b)
        return ZERO_OK;
    b->busy = true; // no thread knows of the block yet, so no lock is needed
    return zr_workers_submit(d->threads, serve_direct, b, error);
}

// Waits for a free block, and begins it at `offset`.
static void begin_direct(zr_direct *d, target *to, int64_t offset)
{
    pthread_mutex_lock(&d->lock);
    while (!d->current) {
        for (int i = 0; i < BLOCKS && !d->current; i++)
            d->current = d->blocks[i].busy ? NULL : &d->blocks[i];
        if (!d->current)
            pthread_cond_wait(&d->freed, &d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    block *b = d->current;
    b->to = to;
    b->base = offset / ALIGN * ALIGN;
    b->first = b->end = (size_t)(offset - b->base);
    b->width = 0;
}

static void append_direct(block *b, const void *data, size_t bytes, uint32_t *checksum)
{
    memcpy(b->data + b->end, data, bytes);
    *checksum = zr_crc32c(*checksum, b->data + b->end, bytes);
    b->end += bytes;
}

zero_status zr_direct_write(zr_direct *d, int file, int64_t offset, const void *data, size_t bytes,
                            uint32_t *checksum, zero_error *error)
{
    target *to = &d->targets[file];
    *checksum = 0;
    for (size_t done = 0, n; done < bytes; done += n) {
        block *b = d->current;
        if (b &&
            (b->to != to || b->base + (int64_t)b->end != offset + (int64_t)done || b->end == BLOCK))
            ZERO_TRY(send_direct(d, error));
        if (!d->current)
            begin_direct(d, to, offset + (int64_t)done);
        n = ZR_MIN(ZR_MIN(bytes - done, BLOCK - d->current->end), (size_t)CHUNK);
        append_direct(d->current, (const char *)data + done, n, checksum);
    }
    return failure(d, error);
}

// Rows have a block of their own, which goes to the threads at once.
static zero_status write_rows_of(zr_direct *d, int file, const zr_direct_extent *extent,
                                 const char *data, uint32_t *checksum, zero_error *error)
{
    size_t bytes = (size_t)zr_direct_extent_bytes(extent);
    assert(bytes <= BLOCK);
    ZERO_TRY(send_direct(d, error));
    begin_direct(d, &d->targets[file], extent->offset);
    block *b = d->current;
    b->base = extent->offset;
    b->first = b->end = 0;
    b->width = extent->width;
    b->stride = extent->stride;
    if (extent->width < ALIGN)
        b->to->cached = true;
    *checksum = 0;
    while (b->end < bytes)
        append_direct(b, data + b->end, ZR_MIN(bytes - b->end, (size_t)CHUNK), checksum);
    ZERO_TRY(send_direct(d, error));
    return failure(d, error);
}

zero_status zr_direct_write_extent(zr_direct *d, int file, const zr_direct_extent *extent,
                                   const void *data, uint32_t *checksum, zero_error *error)
{
    return extent->rows == 1 ? zr_direct_write(d, file, extent->offset, data, (size_t)extent->width,
                                               checksum, error)
                             : write_rows_of(d, file, extent, data, checksum, error);
}

zero_status zr_direct_sync(zr_direct *d, zero_error *error)
{
    ZERO_TRY(send_direct(d, error));
    zr_workers_drain(d->threads);
    ZERO_TRY(failure(d, error));
    for (int i = 0; i < d->count; i++)
        if (fsync(d->targets[i].file.fd))
            return cannot_sync(&d->targets[i], error);
    return ZERO_OK;
}

static zero_status prepare_direct(zr_direct *d, const zr_direct_file *files, zero_error *error)
{
    d->targets = zr_alloc(((size_t)d->count + 1) * sizeof *d->targets, error);
    for (int i = 0; i < d->count && d->targets; i++)
        d->targets[i] = (target){.file = files[i],
                                 .direct = open(files[i].path, O_WRONLY | O_DIRECT | O_CLOEXEC)};
    d->memory = zr_alloc((size_t)BLOCKS * BLOCK + ZR_LARGE_PAGE, error);
    if (!d->targets || !d->memory)
        return ZERO_ERR_MEMORY;
    char *aligned = zr_pages_large(d->memory, (size_t)BLOCKS * BLOCK);
    for (int i = 0; i < BLOCKS; i++)
        d->blocks[i] = (block){.of = d, .data = aligned + (size_t)i * BLOCK};
    return zr_workers_create(THREADS, BLOCKS, &d->threads, error);
}

zero_status zr_direct_create(const zr_direct_file *files, int count, zr_direct **out,
                             zero_error *error)
{
    zr_direct *d = zr_alloc(sizeof *d, error);
    *out = NULL;
    if (!d)
        return ZERO_ERR_MEMORY;
    d->count = count;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->freed, NULL);
    zero_status status = prepare_direct(d, files, error);
    if (status == ZERO_OK)
        *out = d;
    else
        zr_direct_destroy(d);
    return status;
}

void zr_direct_destroy(zr_direct *d)
{
    if (!d)
        return;
    zr_workers_destroy(d->threads);
    for (int i = 0; i < d->count && d->targets; i++)
        if (d->targets[i].direct >= 0)
            close(d->targets[i].direct);
    pthread_cond_destroy(&d->freed);
    pthread_mutex_destroy(&d->lock);
    zr_free(d->targets);
    zr_free(d->memory);
    zr_free(d);
}
