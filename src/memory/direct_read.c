// Invariant: extent i goes through slot i % SLOTS. A slot belongs to a thread until it is `ready`,
// which is set under the lock, and then to the caller until it asks for the next extent.
#define _GNU_SOURCE
#include "memory/direct.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum { ALIGN = 4096, SLOT = ZR_DIRECT_EXTENT + 2 * ALIGN, SLOTS = 6, THREADS = 2 };

typedef struct slot {
    zr_direct_reader *of;
    char *memory; // (SLOT), aligned
    zr_direct_extent extent;
    const char *data; // the extent's first byte
    uint32_t checksum;
    bool ready;
    zero_status status;
    zero_error error;
} slot;

struct zr_direct_reader {
    const char *path;
    const zr_direct_extent *extents; // (count)
    int64_t count, begun, taken;
    // The same file twice; direct is -1 if the cache cannot be bypassed.
    int fd, direct;
    char *memory; // of as many slots as there are extents, at most all
    slot slots[SLOTS];
    zr_workers *threads;
    pthread_mutex_t lock;
    pthread_cond_t readied;
};

zr_direct_extent zr_direct_stretch(int64_t offset, int64_t bytes)
{
    return (zr_direct_extent){.offset = offset, .width = bytes, .stride = bytes, .rows = 1};
}

int64_t zr_direct_extent_bytes(const zr_direct_extent *extent)
{
    return extent->rows * extent->width;
}

zero_status zr_direct_read_extent(int fd, const char *path, const zr_direct_extent *extent,
                                  void *data, zero_error *error)
{
    for (int64_t row = 0; row < extent->rows; row++)
        ZERO_TRY(zr_file_pread(fd, (char *)data + row * extent->width, (size_t)extent->width,
                               extent->offset + row * extent->stride, path, error));
    return ZERO_OK;
}

// Reads whole pages around a stretch, past the cache. Returns false unless all of it came: the
// caller then reads it through the cache, and a failure there is reported.
static bool try_direct_read(const zr_direct_reader *r, slot *s)
{
    int64_t first = s->extent.offset / ALIGN * ALIGN, lead = s->extent.offset - first,
            needed = lead + s->extent.width;
    bool direct = r->direct >= 0 && s->extent.rows == 1;
    ssize_t got =
        direct ? pread(r->direct, s->memory, (size_t)((needed + ALIGN - 1) / ALIGN * ALIGN), first)
               : -1;
    s->data = s->memory + lead;
    return got >= needed;
}

static void read_and_checksum(void *argument)
{
    slot *s = argument;
    zr_direct_reader *r = s->of;
    s->status = ZERO_OK;
    if (!try_direct_read(r, s)) {
        s->data = s->memory;
        s->status = zr_direct_read_extent(r->fd, r->path, &s->extent, s->memory, &s->error);
    }
    if (s->status == ZERO_OK)
        s->checksum = zr_crc32c(0, s->data, (size_t)zr_direct_extent_bytes(&s->extent));
    pthread_mutex_lock(&r->lock);
    s->ready = true;
    pthread_cond_signal(&r->readied);
    pthread_mutex_unlock(&r->lock);
}

static zero_status begin_next(zr_direct_reader *r, zero_error *error)
{
    slot *s = &r->slots[r->begun % SLOTS];
    if (r->begun == r->count)
        return ZERO_OK;
    s->extent = r->extents[r->begun++];
    s->ready = false; // no thread knows of the slot yet, so no lock is needed
    return zr_workers_submit(r->threads, read_and_checksum, s, error);
}

static zero_status prepare_reader(zr_direct_reader *r, zero_error *error)
{
    ZERO_TRY(zr_file_open(r->path, &r->fd, error));
    r->direct = open(r->path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    int used = (int)ZR_MIN(r->count, SLOTS);
    r->memory = zr_realloc(NULL, (size_t)used * SLOT + ZR_LARGE_PAGE, error); // not zeroed
    if (!r->memory)
        return ZERO_ERR_MEMORY;
    char *aligned = zr_pages_large(r->memory, (size_t)used * SLOT);
    for (int i = 0; i < used; i++)
        r->slots[i] = (slot){.of = r, .memory = aligned + (size_t)i * SLOT};
    ZERO_TRY(zr_workers_create(THREADS, SLOTS, &r->threads, error));
    // The last slot is the caller's own, as if it held an extent before the first.
    for (int i = 1; i < SLOTS; i++)
        ZERO_TRY(begin_next(r, error));
    return ZERO_OK;
}

zero_status zr_direct_reader_create(const char *path, const zr_direct_extent *extents,
                                    int64_t count, zr_direct_reader **out, zero_error *error)
{
    *out = NULL;
    zr_direct_reader *r = zr_alloc(sizeof *r, error);
    if (!r)
        return ZERO_ERR_MEMORY;
    *r = (zr_direct_reader){
        .path = path, .extents = extents, .count = count, .fd = -1, .direct = -1};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->readied, NULL);
    zero_status status = prepare_reader(r, error);
    if (status == ZERO_OK)
        *out = r;
    else
        zr_direct_reader_destroy(r);
    return status;
}

zero_status zr_direct_reader_next(zr_direct_reader *r, const char **data, uint32_t *checksum,
                                  zero_error *error)
{
    slot *s = &r->slots[r->taken % SLOTS];
    if (r->taken == r->count)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "reading \"%s\": all of its %lld extents have been read", r->path,
                       (long long)r->count);
    ZERO_TRY(begin_next(r, error)); // in the slot that the caller now leaves
    r->taken++;
    pthread_mutex_lock(&r->lock);
    while (!s->ready)
        pthread_cond_wait(&r->readied, &r->lock);
    pthread_mutex_unlock(&r->lock);
    if (s->status != ZERO_OK && error)
        *error = s->error;
    *data = s->data;
    *checksum = s->checksum;
    return s->status;
}

void zr_direct_reader_destroy(zr_direct_reader *r)
{
    if (!r)
        return;
    zr_workers_destroy(r->threads);
    if (r->fd >= 0)
        close(r->fd);
    if (r->direct >= 0)
        close(r->direct);
    pthread_cond_destroy(&r->readied);
    pthread_mutex_destroy(&r->lock);
    zr_free(r->memory);
    zr_free(r);
}
