// The device of the CPU: all memory is the host's, every page of which is present before the first
// step needs it; ranks share none of it by tokens, because windows of the host map one file.
#define _GNU_SOURCE
#include "memory/device.h"

#include "base/alloc.h"
#include "base/cpu.h"

#include <errno.h>
#include <sys/mman.h>

const char *zr_memory_name(zr_memory kind)
{
    static const char *const names[] = {
        [ZR_MEMORY_HOST] = "host", [ZR_MEMORY_PINNED] = "pinned", [ZR_MEMORY_DEVICE] = "device"};
    static_assert(ZR_COUNT(names) == ZR_MEMORY_KINDS, "each kind has a name");
    return names[kind];
}

// Checks before the kernel overcommits, because later the kernel would kill the process.
static zero_status check_available(size_t bytes, zero_error *error)
{
    char reason[64];
    int64_t available = zr_memory_available(reason, sizeof reason);
    if (bytes <= (uint64_t)available)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_MEMORY, "%lld bytes are left (%s)", (long long)available,
                   reason);
}

// Nothing is mapped with 0 bytes, so one page is, which is not counted.
static size_t mapped_bytes(size_t bytes) { return ZR_MAX(bytes, (size_t)1); }

static zero_status host_reserve(zr_device *device, zr_memory kind, size_t bytes, void **out,
                                zero_error *error)
{
    *out = NULL;
    ZERO_TRY(check_available(bytes, error));
    void *base =
        mmap(NULL, mapped_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno, "mapping them");
    // Kernels without huge pages refuse this; nothing depends on it.
    if (bytes >= ZR_LARGE_PAGE)
        (void)madvise(base, bytes, MADV_HUGEPAGE);
    int reason = zr_pages_populate(base, mapped_bytes(bytes));
    if (reason) {
        munmap(base, mapped_bytes(bytes));
        return zr_fail_errno(error, ZERO_ERR_MEMORY, reason, "touching them");
    }
    *out = base;
    return ZERO_OK;
}

static void host_release(zr_device *device, zr_memory kind, void *at, size_t bytes)
{
    if (at)
        munmap(at, mapped_bytes(bytes));
}

static zero_status host_pin(zr_device *device, void *at, size_t bytes, zero_error *error)
{
    return ZERO_OK;
}

static void host_unpin(zr_device *device, void *at, size_t bytes) {}

static void host_free_bytes(zr_device *device, int64_t *unused, int64_t *all)
{
    char reason[64];
    *unused = *all = zr_memory_available(reason, sizeof reason);
}

static const zr_device_ops host_ops = {
    .name = "host",
    .align = 64,
    .reserve = host_reserve,
    .release = host_release,
    .pin = host_pin,
    .unpin = host_unpin,
    .free_bytes = host_free_bytes,
};

zr_device *zr_device_host(void)
{
    static const zr_device host = {.ops = &host_ops}; // it has no state that a call could change
    return (zr_device *)&host;
}
