#define _GNU_SOURCE
#include "comm/region.h"

#include "base/alloc.h"
#include "base/cpu.h"

#include <errno.h>
#include <sys/mman.h>

zero_status zr_region_check(int64_t bytes, zero_error *error)
{
    char reason[128];
    int64_t available = zr_memory_available(reason, sizeof reason);
    if (bytes > available)
        return zr_fail(error, ZERO_ERR_MEMORY,
                       "reserving %lld bytes for communication: only %lld are left (%s)",
                       (long long)bytes, (long long)available, reason);
    return ZERO_OK;
}

zero_status zr_region_touch(char *base, int64_t bytes, zero_error *error)
{
    int reason = zr_pages_populate(base, (size_t)bytes);
    if (reason)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, reason,
                             "touching %lld bytes of communication memory", (long long)bytes);
    return ZERO_OK;
}

zero_status zr_region_create(int64_t bytes, char **out, zero_error *error)
{
    *out = NULL;
    if (bytes == 0)
        return ZERO_OK;
    ZERO_TRY(zr_region_check(bytes, error));
    char *base =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno, "mapping %lld bytes for communication",
                             (long long)bytes);
    zero_status status = zr_region_touch(base, bytes, error);
    if (status != ZERO_OK) {
        munmap(base, (size_t)bytes);
        return status;
    }
    *out = base;
    return ZERO_OK;
}

void zr_region_destroy(char *base, int64_t bytes)
{
    if (base)
        munmap(base, (size_t)bytes);
}
