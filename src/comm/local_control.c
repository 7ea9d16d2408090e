// Creates, maps and addresses the control area, and does the two things that concern all ranks at
// once: failing and ringing.
#define _GNU_SOURCE
#include "comm/local_control.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Another build of the library lays out its memory differently and must not map ours.
#define MAGIC                                                                                      \
    (0x6f72657a2d313031ull ^ sizeof(zr_control) << 20 ^ sizeof(zr_rank_record) ^                   \
     sizeof(zr_area) << 40)

static int64_t job_area_offset(int ranks)
{
    return ZR_ROUND_UP((int64_t)(sizeof(zr_control) + sizeof(zr_rank_record) * (size_t)ranks),
                       ZR_PAGE);
}

int64_t zr_local_control_bytes(int ranks) { return job_area_offset(ranks) + zr_area_bytes(ranks); }

zr_area *zr_local_job_area(zr_control *control)
{
    return (zr_area *)((char *)control + job_area_offset(control->ranks));
}

void zr_local_control_init(zr_control *control, int ranks, bool threads)
{
    control->ranks = ranks;
    control->threads = threads;
    control->bytes = zr_local_control_bytes(ranks);
    atomic_store(&control->end, control->bytes);
    atomic_store(&control->users, ranks);
    for (int r = 0; r < ranks; r++) {
        atomic_store(&control->records[r].waiting_on[ZR_OWN_THREAD], ZR_AT_WORK);
        for (int t = ZR_COMM_THREAD_THREAD; t < ZR_WAITING; t++)
            atomic_store(&control->records[r].waiting_on[t], ZR_WITHOUT_WORK);
    }
    control->magic = MAGIC;
}

// A memory limit that is met while a page is touched kills the process; here it is an error. A
// limit on file sizes would kill the process here, so it is checked first.
zero_status zr_local_commit(int memfd, int64_t offset, int64_t bytes, zero_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        (uint64_t)(offset + bytes) > limit.rlim_cur)
        return zr_fail(error, ZERO_ERR_MEMORY,
                       "shared memory of %lld bytes is above this process's limit on file sizes "
                       "(ulimit -f) of %llu bytes",
                       (long long)(offset + bytes), (unsigned long long)limit.rlim_cur);
    while (bytes > 0 && fallocate(memfd, 0, offset, bytes))
        if (errno != EINTR)
            return zr_fail_errno(error, ZERO_ERR_MEMORY, errno,
                                 "reserving %lld bytes of shared memory", (long long)bytes);
    return ZERO_OK;
}

zero_status zr_local_memfd_create(int ranks, int *memfd, zr_control **out, zero_error *error)
{
    int64_t bytes = zr_local_control_bytes(ranks);
    int fd = memfd_create("zero", MFD_CLOEXEC);
    if (fd < 0)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno,
                             "creating the ranks' shared memory (memfd_create)");
    zero_status status = zr_local_commit(fd, 0, bytes, error);
    if (status != ZERO_OK)
        goto undo_create;
    void *base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        status = zr_fail_errno(error, ZERO_ERR_MEMORY, errno, "mapping %lld bytes of shared memory",
                               (long long)bytes);
        goto undo_create;
    }
    zr_local_control_init(base, ranks, false);
    *memfd = fd;
    *out = base;
    return ZERO_OK;
undo_create:
    close(fd);
    return status;
}

zero_status zr_local_control_map(int memfd, zr_control **out, zero_error *error)
{
    struct stat found;
    zr_control head;
    if (fstat(memfd, &found) || pread(memfd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        head.magic != MAGIC || head.ranks < 1 || head.ranks > ZERO_MAX_RANKS ||
        head.bytes != zr_local_control_bytes(head.ranks) || found.st_size < head.bytes)
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "descriptor %d is not the ranks' shared memory, or of another version of this library",
            memfd);
    void *base = mmap(NULL, (size_t)head.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (base == MAP_FAILED)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno, "mapping %lld bytes of shared memory",
                             (long long)head.bytes);
    *out = base;
    return ZERO_OK;
}

void zr_local_control_unmap(zr_control *control)
{
    if (control)
        munmap(control, (size_t)control->bytes);
}

// The order makes a lost wake-up impossible: here word, bell, look at waiters; in zr_local_await
// waiters, bell, word.
void zr_local_ring(zr_control *control, int rank)
{
    zr_rank_record *record = &control->records[rank];
    atomic_fetch_add(&record->bell, 1);
    if (atomic_load(&record->waiters) > 0)
        syscall(SYS_futex, &record->bell, control->threads ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE,
                INT_MAX, NULL, NULL, 0);
}

void zr_local_ring_all(zr_control *control)
{
    for (int r = 0; r < control->ranks; r++)
        zr_local_ring(control, r);
}

void zr_local_fail(zr_control *control, const zr_local_failure *failure)
{
    int32_t none = ZR_FAILURE_NONE;
    if (!atomic_compare_exchange_strong(&control->failure_state, &none, ZR_FAILURE_CLAIMED))
        return;
    control->failure = *failure;
    atomic_store_explicit(&control->failure_state, ZR_FAILURE_WRITTEN, memory_order_release);
    zr_local_ring_all(control);
}

bool zr_local_failure_read(const zr_control *control, zr_local_failure *out)
{
    if (atomic_load_explicit(&control->failure_state, memory_order_acquire) != ZR_FAILURE_WRITTEN)
        return false;
    *out = control->failure;
    return true;
}
