// Copies between host and device: from pinned memory, from memory that was registered (plain, of
// huge pages, of a file in memory) and from neither; both ways at once; and by a kernel that writes
// into the host's memory. What it costs to pin and to register. How fast the host copies its own
// memory.
#define _GNU_SOURCE
#include "probe.h"

#include "kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const double GiB = 1024.0 * 1024 * 1024;

typedef struct host_setup {
    size_t bytes;             // of each of the following
    zr_cuda_address up, down; // on the device
    void *first, *second;     // pinned
} host_setup;

// Allocates, and says what pinning costs.
static bool open_setup(probe_session *session, host_setup *out)
{
    size_t most = probe_size(session, (size_t)1 << 30, (size_t)64 << 10);
    if (!probe_device_share(session, probe_host_share(most, 8), 4, &out->bytes) ||
        !probe_hold_device(session, out->bytes, &out->up) ||
        !probe_hold_device(session, out->bytes, &out->down))
        return false;
    double began = probe_now();
    if (!probe_hold_pinned(session, out->bytes, &out->first))
        return false;
    probe_answer_integer(session->answer, "copied_bytes", (long long)out->bytes);
    probe_answer_number(session->answer, "pin_s_per_GiB",
                        (probe_now() - began) / ((double)out->bytes / GiB));
    if (!probe_hold_pinned(session, out->bytes, &out->second))
        return false;
    memset(out->first, 1, out->bytes);
    memset(out->second, 1, out->bytes);
    PROBE_TRY(session, cuMemsetD8Async, out->down, 2, out->bytes, session->stream);
    return true;
}

// Says under key how fast four copies are, after one that does not count.
static bool time_copies(probe_session *session, zr_cuda_address to, zr_cuda_address from,
                        size_t bytes, const char *key)
{
    const int times = 4;
    double began = 0;
    for (int i = 0; i <= times; i++) {
        PROBE_TRY(session, cuMemcpyAsync, to, from, bytes, session->stream);
        if (i > 0)
            continue;
        PROBE_TRY(session, cuStreamSynchronize, session->stream);
        began = probe_now();
    }
    PROBE_TRY(session, cuStreamSynchronize, session->stream);
    probe_answer_number(session->answer, key, times * (double)bytes / (probe_now() - began) / 1e9);
    return true;
}

static bool time_both_ways(probe_session *session, const host_setup *setup)
{
    const int times = 4;
    double began = probe_now();
    for (int i = 0; i < times; i++) {
        PROBE_TRY(session, cuMemcpyAsync, setup->up, (zr_cuda_address)setup->first, setup->bytes,
                  session->other);
        PROBE_TRY(session, cuMemcpyAsync, (zr_cuda_address)setup->second, setup->down, setup->bytes,
                  session->third);
    }
    PROBE_TRY(session, cuStreamSynchronize, session->other);
    PROBE_TRY(session, cuStreamSynchronize, session->third);
    probe_answer_number(session->answer, "both_GBs",
                        2.0 * times * (double)setup->bytes / (probe_now() - began) / 1e9);
    return true;
}

typedef struct write_setup {
    zr_cuda_function function;
    probe_copy_args arguments;
} write_setup;

static bool write_to_host(probe_session *session, void *of)
{
    write_setup *setup = of;
    return probe_launch(session, setup->function, 64, 1, 256, session->stream, &setup->arguments);
}

static bool time_kernel(probe_session *session, const host_setup *setup)
{
    write_setup writing;
    zr_cuda_address mapped;
    double seconds;
    if (!probe_function(session, "probe_copy", &writing.function))
        return false;
    PROBE_TRY(session, cuMemHostGetDevicePointer_v2, &mapped, setup->second, 0);
    writing.arguments = (probe_copy_args){
        .from = (const void *)setup->down,
        .to = (void *)mapped,
        .words = (int64_t)(setup->bytes / 16),
    };
    if (!probe_time(session, 2, write_to_host, &writing, &seconds))
        return false;
    probe_answer_number(session->answer, "kernel_writes_GBs", (double)setup->bytes / seconds / 1e9);
    return true;
}

// That what came back from the device is what was there.
static void check_second(probe_session *session, const host_setup *setup)
{
    const unsigned char *bytes = setup->second;
    for (size_t i = 0; i < setup->bytes; i += 1021)
        if (bytes[i] != 2) {
            probe_answer_fail(session->answer, "byte %zu that came from the device is %d, not 2", i,
                              bytes[i]);
            return;
        }
}

static bool time_plain(probe_session *session, const host_setup *setup)
{
    void *plain;
    if (!probe_hold_host(session, setup->bytes, &plain))
        return false;
    memset(plain, 1, setup->bytes);
    return time_copies(session, setup->up, (zr_cuda_address)plain, setup->bytes, "unpinned_up_GBs");
}

typedef struct host_copy {
    char *to;
    const char *from;
    size_t bytes;
} host_copy;

static void *copy_on_host(void *of)
{
    const host_copy *copy = of;
    for (int i = 0; i < 4; i++)
        memcpy(copy->to, copy->from, copy->bytes);
    return NULL;
}

// All processors of the host copy from one half of the pinned memory to the other at once.
static void time_host(probe_session *session, const host_setup *setup)
{
    enum { MOST = 256 };
    pthread_t threads[MOST];
    host_copy copies[MOST];
    const int wanted = (int)PROBE_MIN(sysconf(_SC_NPROCESSORS_ONLN), MOST);
    const size_t each = setup->bytes / (size_t)wanted;
    int started = 0;
    double began = probe_now();
    for (; started < wanted; started++) {
        copies[started] = (host_copy){(char *)setup->second + (size_t)started * each,
                                      (char *)setup->first + (size_t)started * each, each};
        if (pthread_create(&threads[started], NULL, copy_on_host, &copies[started]))
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    probe_answer_integer(session->answer, "host_threads", started);
    probe_answer_number(session->answer, "host_copies_GBs",
                        2.0 * 4 * (double)each * started / (probe_now() - began) / 1e9);
}

typedef enum memory_kind { PLAIN, HUGE, FILE_IN_MEMORY, KINDS } memory_kind;

static const char *const kind_names[KINDS] = {"plain", "huge", "memfd"};

static void release_mapping(probe_session *session, const probe_held *held)
{
    (void)session;
    munmap(held->pointer, held->bytes);
}

static void release_registered(probe_session *session, const probe_held *held)
{
    probe_check(session, "cuMemHostUnregister", session->cu.cuMemHostUnregister(held->pointer));
}

// Maps memory of a kind; MAP_FAILED if there is none.
static void *map_memory(memory_kind kind, size_t bytes)
{
    int file = -1;
    if (kind == FILE_IN_MEMORY) {
        file = memfd_create("probe", 0);
        if (file < 0 || ftruncate(file, (off_t)bytes)) {
            if (file >= 0)
                close(file);
            return MAP_FAILED;
        }
    }
    int flags = kind == FILE_IN_MEMORY ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (file >= 0)
        close(file);
    if (memory != MAP_FAILED && kind == HUGE)
        madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static void answer_cost(probe_session *session, const char *what, memory_kind kind, double seconds,
                        size_t bytes)
{
    char key[64];
    snprintf(key, sizeof key, "%s_%s_s_per_GiB", what, kind_names[kind]);
    probe_answer_number(session->answer, key, seconds / ((double)bytes / GiB));
}

static bool register_kind(probe_session *session, memory_kind kind, size_t bytes,
                          const host_setup *setup)
{
    zr_cuda_address address;
    void *memory = map_memory(kind, bytes);
    if (memory == MAP_FAILED) {
        probe_answer_fail(session->answer, "the host maps no %zu bytes of kind %s", bytes,
                          kind_names[kind]);
        return false;
    }
    if (!probe_hold(session,
                    (probe_held){.release = release_mapping, .pointer = memory, .bytes = bytes}))
        return false;
    double began = probe_now();
    for (size_t i = 0; i < bytes; i += 4096)
        ((volatile char *)memory)[i] = 1;
    answer_cost(session, "touch", kind, probe_now() - began, bytes);
    began = probe_now();
    PROBE_TRY(session, cuMemHostRegister_v2, memory, bytes,
              ZR_CU_MEMHOSTREGISTER_PORTABLE | ZR_CU_MEMHOSTREGISTER_DEVICEMAP);
    answer_cost(session, "register", kind, probe_now() - began, bytes);
    if (!probe_hold(session, (probe_held){.release = release_registered, .pointer = memory}))
        return false;
    PROBE_TRY(session, cuMemHostGetDevicePointer_v2, &address, memory, 0);
    char key[64];
    snprintf(key, sizeof key, "%s_same_pointer", kind_names[kind]);
    probe_answer_integer(session->answer, key, address == (zr_cuda_address)memory);
    snprintf(key, sizeof key, "%s_up_GBs", kind_names[kind]);
    return time_copies(session, setup->up, (zr_cuda_address)memory, PROBE_MIN(bytes, setup->bytes),
                       key);
}

// Each kind, also where another could not be registered.
static void register_kinds(probe_session *session, const host_setup *setup)
{
    size_t most = probe_size(session, (size_t)8 << 30, (size_t)1 << 20);
    size_t bytes = probe_host_share(most, 4);
    probe_answer_integer(session->answer, "registered_bytes", (long long)bytes);
    for (memory_kind kind = PLAIN; kind < KINDS && bytes; kind++) {
        int before = session->held_count;
        register_kind(session, kind, bytes, setup);
        probe_release_to(session, before);
    }
}

bool probe_host_memory(probe_session *session)
{
    host_setup setup = {0};
    if (!open_setup(session, &setup) ||
        !time_copies(session, setup.up, (zr_cuda_address)setup.first, setup.bytes, "up_GBs") ||
        !time_copies(session, (zr_cuda_address)setup.second, setup.down, setup.bytes, "down_GBs") ||
        !time_both_ways(session, &setup) || !time_kernel(session, &setup) ||
        !time_plain(session, &setup))
        return false;
    check_second(session, &setup);
    time_host(session, &setup);
    register_kinds(session, &setup);
    return !session->answer->failed;
}
