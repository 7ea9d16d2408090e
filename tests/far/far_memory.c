// Memory of the far device. Each piece of device and pinned memory is one file (memfd) with two
// mappings. What is released leaves its first address reserved, so that nothing else comes to lie
// there before far_end.
#define _GNU_SOURCE
#include "far_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_ALLOCATIONS = 8192, ALIGN = 256 };

static struct {
    far_allocation all[MOST_ALLOCATIONS];
    int count;
    int64_t reserves;     // so far
    int64_t device_bytes; // live
} memory;

static size_t page_bytes(void)
{
    static size_t bytes;
    return bytes ? bytes : (bytes = (size_t)sysconf(_SC_PAGESIZE));
}

bool far_allocation_is_reachable(const far_allocation *allocation)
{
    return allocation && allocation->live && allocation->kind != ZR_MEMORY_HOST;
}

far_allocation *far_allocation_at(const void *at)
{
    far_allocation *found = NULL;
    uintptr_t address = (uintptr_t)at;
    for (int i = 0; i < memory.count; i++) {
        far_allocation *one = &memory.all[i];
        size_t bytes = ZR_MAX(one->mapped, one->bytes);
        if (address < (uintptr_t)one->at || address - (uintptr_t)one->at >= bytes)
            continue;
        found = one;
        if (far_allocation_is_reachable(one))
            break;
    }
    return found;
}

// ---- two mappings ----

static int map_twice(far_allocation *new)
{
    int file = memfd_create("far", MFD_CLOEXEC), reason = 0;
    bool device = new->kind == ZR_MEMORY_DEVICE;
    if (file < 0 || ftruncate(file, (off_t) new->mapped))
        goto undo_file;
    new->real = mmap(NULL, new->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (new->real == MAP_FAILED)
        goto undo_file;
    int protection = device ? PROT_NONE : PROT_READ | PROT_WRITE;
    new->at = mmap(NULL, new->mapped, protection, MAP_SHARED, file, 0);
    if (new->at == MAP_FAILED)
        goto undo_real;
    close(file);
    return 0;

undo_real:
    reason = errno;
    munmap(new->real, new->mapped);
undo_file:
    reason = reason ? reason : errno;
    if (file >= 0)
        close(file);
    return reason;
}

static zero_status map_pieces(far_allocation *new, zero_error *error)
{
    if (new->kind == ZR_MEMORY_HOST) {
        zr_device *host = zr_device_host();
        ZERO_TRY(host->ops->reserve(host, new->kind, new->bytes, (void **)&new->at, error));
        new->real = new->at;
        return ZERO_OK;
    }
    new->mapped = ZR_ROUND_UP(ZR_MAX(new->bytes, (size_t)1), page_bytes());
    int reason = map_twice(new);
    if (reason)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, reason, "mapping %zu bytes twice", new->bytes);
    memset(new->real, new->kind == ZR_MEMORY_DEVICE ? 0xff : 0, new->mapped);
    new->readers = far_alloc(new->mapped / page_bytes() * sizeof *new->readers);
    new->writers = far_alloc(new->mapped / page_bytes() * sizeof *new->writers);
    new->touched = far_alloc(new->mapped / page_bytes() * sizeof *new->touched);
    return ZERO_OK;
}

// ---- what is under way ----

static int protection_of(const far_allocation *allocation, size_t page)
{
    int allowed = allocation->readers[page] ? PROT_READ : PROT_READ | PROT_WRITE;
    if (allocation->writers[page])
        return PROT_NONE;
    return far_options_now()->keeps_touches ? allowed & allocation->touched[page] : allowed;
}

static void protect_pages(const far_allocation *allocation, size_t first, size_t end)
{
    for (size_t page = first, next; page < end; page = next) {
        int protection = protection_of(allocation, page);
        for (next = page + 1; next < end && protection_of(allocation, next) == protection; next++)
            ;
        mprotect(allocation->at + page * page_bytes(), (next - page) * page_bytes(), protection);
    }
}

static void count_piece(const far_piece *piece, int change)
{
    far_allocation *in = far_allocation_at(piece->at);
    if (!in || in->kind != ZR_MEMORY_PINNED || !in->mapped || !in->live)
        return;
    size_t first = (size_t)(piece->at - in->at) / page_bytes(),
           end = ((size_t)(piece->at - in->at) + piece->bytes - 1) / page_bytes() + 1;
    for (size_t page = first; page < end; page++) {
        uint16_t *count = piece->writes ? &in->writers[page] : &in->readers[page];
        *count = (uint16_t)(*count + change);
        in->touched[page] = change > 0 ? 0 : in->touched[page];
    }
    protect_pages(in, first, end);
}

void far_memory_watch(const far_piece *piece) { count_piece(piece, 1); }
void far_memory_unwatch(const far_piece *piece) { count_piece(piece, -1); }

void far_memory_open_page(const far_allocation *allocation, const void *at, bool open)
{
    size_t page = (size_t)((const unsigned char *)at - allocation->at) / page_bytes();
    int protection = open ? PROT_READ | PROT_WRITE : protection_of(allocation, page);
    mprotect(allocation->at + page * page_bytes(), page_bytes(), protection);
}

bool far_memory_keep_touch(far_allocation *allocation, const void *at, bool writes)
{
    size_t page = (size_t)((const unsigned char *)at - allocation->at) / page_bytes();
    bool kept = far_options_now()->keeps_touches && allocation->live &&
                allocation->kind == ZR_MEMORY_PINNED;
    if (!kept || allocation->writers[page] || (writes && allocation->readers[page]))
        return false;
    allocation->touched[page] |= PROT_READ | (writes ? PROT_WRITE : 0);
    protect_pages(allocation, page, page + 1);
    const far_piece byte = {.at = (unsigned char *)at, .bytes = 1, .writes = writes};
    far_record(&(far_row){.kind = FAR_TOUCH, .host = far_host()}, &byte, 1);
    return true;
}

// ---- the device ----

static zero_status check_reserve(zr_memory kind, size_t bytes, zero_error *error)
{
    const far_options *options = far_options_now();
    int64_t left = options->device_bytes - memory.device_bytes;
    if (far_is_sealed())
        far_violate("%zu bytes of %s memory are reserved after far_seal", bytes,
                    zr_memory_name(kind));
    if (++memory.reserves == options->fail_reserve)
        return zr_fail(error, ZERO_ERR_MEMORY, "reserve %lld fails, as the test asked",
                       (long long)memory.reserves);
    if (kind == ZR_MEMORY_DEVICE && (uint64_t)left < bytes)
        return zr_fail(error, ZERO_ERR_MEMORY, "%lld bytes of the device are left",
                       (long long)left);
    if (memory.count == MOST_ALLOCATIONS)
        return zr_fail(error, ZERO_ERR_MEMORY, "%d allocations, more than the far device keeps",
                       memory.count);
    return ZERO_OK;
}

static void add(const far_allocation *new)
{
    far_allocation *added = &memory.all[memory.count++];
    *added = *new;
    added->number = memory.count;
    added->live = true;
    memory.device_bytes += new->kind == ZR_MEMORY_DEVICE ? (int64_t) new->bytes : 0;
    far_counts()->allocations++;
    far_counts()->reserved[new->kind] += (int64_t) new->bytes;
}

static zero_status reserve(zr_device *device, zr_memory kind, size_t bytes, void **out,
                           zero_error *error)
{
    far_allocation new = {.kind = kind, .bytes = bytes};
    *out = NULL;
    far_lock();
    zero_status status = check_reserve(kind, bytes, error);
    if (status == ZERO_OK)
        status = map_pieces(&new, error);
    if (status == ZERO_OK) {
        add(&new);
        if (kind == ZR_MEMORY_PINNED)
            protect_pages(&new, 0, new.mapped / page_bytes());
        *out = new.at;
    }
    far_unlock();
    return status;
}

// Of memory of the host the address is free again; of the others it stays, and nothing lies there.
static void unmap(far_allocation *one)
{
    zr_device *host = zr_device_host();
    if (one->kind == ZR_MEMORY_HOST) {
        host->ops->release(host, one->kind, one->at, one->bytes);
    } else if (one->mapped) {
        munmap(one->real, one->mapped);
        mmap(one->at, one->mapped, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    free(one->readers);
    free(one->writers);
    free(one->touched);
    one->readers = one->writers = NULL;
    one->touched = NULL;
}

static void drop(far_allocation *one)
{
    if (one->attached)
        far_violate("allocation %d is released, and another rank is attached to it", one->number);
    memory.device_bytes -= one->kind == ZR_MEMORY_DEVICE ? (int64_t)one->bytes : 0;
    unmap(one);
    one->live = false;
    if (!one->mapped)
        one->bytes = 0; // others may come to lie there
    far_counts()->allocations--;
}

// Returns the live allocation that begins there: what the host has pinned, or what was reserved.
static far_allocation *beginning_at(const void *at, bool pinned_by_host)
{
    for (int i = memory.count - 1; i >= 0; i--) {
        far_allocation *one = &memory.all[i];
        bool by_host = one->kind == ZR_MEMORY_PINNED && !one->mapped;
        if (one->live && one->at == at && by_host == pinned_by_host)
            return one;
    }
    return NULL;
}

static void release(zr_device *device, zr_memory kind, void *at, size_t bytes)
{
    if (!at)
        return;
    far_lock();
    far_allocation *one = beginning_at(at, false);
    if (!one)
        far_violate("%zu bytes of %s memory are released that were not reserved, or twice", bytes,
                    zr_memory_name(kind));
    else if (one->kind != kind || one->bytes != bytes)
        far_violate("%zu bytes of %s memory are released that were reserved as %zu of %s", bytes,
                    zr_memory_name(kind), one->bytes, zr_memory_name(one->kind));
    if (one)
        drop(one);
    far_unlock();
}

static zero_status pin(zr_device *device, void *at, size_t bytes, zero_error *error)
{
    const far_allocation new = {.kind = ZR_MEMORY_PINNED, .at = at, .real = at, .bytes = bytes};
    zero_status status = ZERO_OK;
    far_lock();
    if (far_allocation_is_reachable(far_allocation_at(at)))
        status = zr_fail(error, ZERO_ERR_INTERNAL, "queues reach these %zu bytes already", bytes);
    else if (memory.count == MOST_ALLOCATIONS)
        status = zr_fail(error, ZERO_ERR_MEMORY, "%d allocations, more than the far device keeps",
                         memory.count);
    else
        add(&new);
    far_unlock();
    return status;
}

static void unpin(zr_device *device, void *at, size_t bytes)
{
    far_lock();
    far_allocation *one = beginning_at(at, true);
    if (!one || one->bytes != bytes)
        far_violate("%zu bytes are unpinned that were not pinned", bytes);
    if (one)
        drop(one);
    far_unlock();
}

// ---- other ranks ----

static zero_status share(zr_device *device, const void *at, zr_share *out, zero_error *error)
{
    far_lock();
    const far_allocation *one = far_allocation_at(at);
    bool shared = far_allocation_is_reachable(one) && one->kind == ZR_MEMORY_DEVICE;
    *out = (zr_share){0};
    memcpy(out->bytes, &at, sizeof at);
    far_unlock();
    return shared ? ZERO_OK : zr_fail(error, ZERO_ERR_INTERNAL, "sharing what is no device memory");
}

static zero_status attach(zr_device *device, const zr_share *token, void **out, zero_error *error)
{
    zero_status status = ZERO_OK;
    far_lock();
    memcpy(out, token->bytes, sizeof *out);
    far_allocation *one = far_allocation_at(*out);
    if (far_allocation_is_reachable(one))
        one->attached++;
    else
        status = zr_fail(error, ZERO_ERR_INTERNAL, "attaching to memory that is not there");
    far_unlock();
    return status;
}

static void detach(zr_device *device, void *at)
{
    far_lock();
    far_allocation *one = at ? far_allocation_at(at) : NULL;
    if (at && (!one || !one->attached))
        far_violate("memory is detached from that was not attached to");
    else if (at)
        one->attached--;
    far_unlock();
}

static void free_bytes(zr_device *device, int64_t *unused, int64_t *all)
{
    far_lock();
    *all = far_options_now()->device_bytes;
    *unused = *all - memory.device_bytes;
    far_unlock();
}

static void report_leak(const far_allocation *one)
{
    far_violate("allocation %d, %zu bytes of %s memory, was not %s", one->number, one->bytes,
                zr_memory_name(one->kind),
                one->mapped || one->kind == ZR_MEMORY_HOST ? "released" : "unpinned");
}

void far_memory_end(void)
{
    int64_t leaks = far_counts()->allocations;
    for (int i = 0; i < memory.count; i++) {
        far_allocation *one = &memory.all[i];
        if (one->live) {
            report_leak(one);
            drop(one);
        }
        if (one->mapped)
            munmap(one->at, one->mapped);
    }
    far_counts()->allocations = leaks;
    memory.count = 0;
    memory.reserves = memory.device_bytes = 0;
}

zr_device *far_device(void)
{
    static const zr_device_ops ops = {
        .name = "far",
        .far = true,
        .align = ALIGN,
        .reserve = reserve,
        .release = release,
        .pin = pin,
        .unpin = unpin,
        .share = share,
        .attach = attach,
        .detach = detach,
        .free_bytes = free_bytes,
    };
    static zr_device device = {.ops = &ops};
    return &device;
}
