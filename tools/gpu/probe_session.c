// A session with device 0. What is taken of the device is held in a list, and given back from its
// end, whether the probe has failed or not.
#define _GNU_SOURCE
#include "probe.h"

#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double probe_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

size_t probe_size(const probe_session *session, size_t full, size_t small)
{
    return session->options->small ? small : full;
}

bool probe_check(probe_session *session, const char *call, zr_cuda_result result)
{
    if (!result)
        return true;
    const char *text = NULL;
    session->cu.cuGetErrorString(result, &text);
    probe_answer_fail_call(session->answer, call, (int)result, text);
    return false;
}

bool probe_hold(probe_session *session, probe_held held)
{
    if (session->held_count == (int)PROBE_LENGTH(session->held)) {
        held.release(session, &held);
        probe_answer_fail(session->answer, "the probe holds too much at once");
        return false;
    }
    session->held[session->held_count++] = held;
    return true;
}

void probe_release_to(probe_session *session, int count)
{
    while (session->held_count > count) {
        const probe_held *last = &session->held[--session->held_count];
        last->release(session, last);
    }
}

static void release_context(probe_session *session, const probe_held *held)
{
    (void)held;
    probe_check(session, "cuDevicePrimaryCtxRelease_v2",
                session->cu.cuDevicePrimaryCtxRelease_v2(session->device));
}

static void release_stream(probe_session *session, const probe_held *held)
{
    probe_check(session, "cuStreamDestroy_v2", session->cu.cuStreamDestroy_v2(held->pointer));
}

static void release_event(probe_session *session, const probe_held *held)
{
    probe_check(session, "cuEventDestroy_v2", session->cu.cuEventDestroy_v2(held->pointer));
}

static void release_device(probe_session *session, const probe_held *held)
{
    probe_check(session, "cuMemFree_v2", session->cu.cuMemFree_v2(held->address));
}

static void release_pinned(probe_session *session, const probe_held *held)
{
    probe_check(session, "cuMemFreeHost", session->cu.cuMemFreeHost(held->pointer));
}

static void release_host(probe_session *session, const probe_held *held)
{
    if (held->pointer == session->pattern)
        session->pattern = NULL;
    free(held->pointer);
}

bool probe_hold_device(probe_session *session, size_t bytes, zr_cuda_address *out)
{
    PROBE_TRY(session, cuMemAlloc_v2, out, bytes);
    return probe_hold(session, (probe_held){.release = release_device, .address = *out});
}

bool probe_hold_pinned(probe_session *session, size_t bytes, void **out)
{
    PROBE_TRY(session, cuMemHostAlloc, out, bytes,
              ZR_CU_MEMHOSTALLOC_PORTABLE | ZR_CU_MEMHOSTALLOC_DEVICEMAP);
    return probe_hold(session, (probe_held){.release = release_pinned, .pointer = *out});
}

bool probe_hold_host(probe_session *session, size_t bytes, void **out)
{
    *out = calloc(1, bytes);
    if (!*out) {
        probe_answer_fail(session->answer, "the host has no %zu bytes", bytes);
        return false;
    }
    return probe_hold(session, (probe_held){.release = release_host, .pointer = *out});
}

static bool hold_stream(probe_session *session, zr_cuda_stream *out)
{
    PROBE_TRY(session, cuStreamCreate, out, ZR_CU_STREAM_NON_BLOCKING);
    return probe_hold(session, (probe_held){.release = release_stream, .pointer = *out});
}

static bool hold_event(probe_session *session, unsigned flags, zr_cuda_event *out)
{
    PROBE_TRY(session, cuEventCreate, out, flags);
    return probe_hold(session, (probe_held){.release = release_event, .pointer = *out});
}

static bool read_device(probe_session *session)
{
    int major = 0, minor = 0;
    PROBE_TRY(session, cuDriverGetVersion, &session->driver_version);
    PROBE_TRY(session, cuDeviceGet, &session->device, 0);
    PROBE_TRY(session, cuDeviceGetAttribute, &major,
              ZR_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, session->device);
    PROBE_TRY(session, cuDeviceGetAttribute, &minor,
              ZR_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, session->device);
    PROBE_TRY(session, cuDeviceGetAttribute, &session->processors,
              ZR_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, session->device);
    session->capability = major * 10 + minor;
    return true;
}

bool probe_session_open(probe_session *session)
{
    zr_cuda_context context;
    if (!probe_load_driver(session))
        return false;
    PROBE_TRY(session, cuInit, 0);
    if (!read_device(session))
        return false;
    PROBE_TRY(session, cuDevicePrimaryCtxRetain, &context, session->device);
    if (!probe_hold(session, (probe_held){.release = release_context}))
        return false;
    PROBE_TRY(session, cuCtxSetCurrent, context);
    return hold_stream(session, &session->stream) && hold_stream(session, &session->other) &&
           hold_stream(session, &session->third) &&
           hold_event(session, ZR_CU_EVENT_DEFAULT, &session->begin) &&
           hold_event(session, ZR_CU_EVENT_DEFAULT, &session->end) &&
           hold_event(session, ZR_CU_EVENT_DISABLE_TIMING, &session->mark);
}

void probe_session_close(probe_session *session) { probe_release_to(session, 0); }

float probe_widen(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Numbers of bf16 in (-1/4, 1/4), drawn by xorshift.
static void draw_pattern(uint16_t *out, size_t count)
{
    uint64_t state = 88172645463325252ull;
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        float value = (float)(int32_t)state * 0x1p-33f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        out[i] = (uint16_t)(bits >> 16);
    }
}

bool probe_fill(probe_session *session, zr_cuda_address at, size_t bytes)
{
    const size_t part = probe_size(session, (size_t)64 << 20, (size_t)64 << 10);
    if (!session->pattern) {
        void *pattern;
        if (!probe_hold_host(session, part, &pattern))
            return false;
        session->pattern = pattern;
        session->pattern_count = part / sizeof *session->pattern;
        draw_pattern(session->pattern, session->pattern_count);
    }
    for (size_t done = 0; done < bytes; done += part)
        PROBE_TRY(session, cuMemcpyAsync, at + done, (zr_cuda_address)session->pattern,
                  PROBE_MIN(part, bytes - done), session->stream);
    PROBE_TRY(session, cuStreamSynchronize, session->stream);
    return true;
}

bool probe_function(probe_session *session, const char *name, zr_cuda_function *out)
{
    if (!session->module && !probe_load_kernels(session))
        return false;
    PROBE_TRY(session, cuModuleGetFunction, out, session->module, name);
    return true;
}

bool probe_launch(probe_session *session, zr_cuda_function function, unsigned blocks_x,
                  unsigned blocks_y, unsigned threads, zr_cuda_stream stream, void *arguments)
{
    void *list[] = {arguments};
    PROBE_TRY(session, cuLaunchKernel, function, blocks_x, blocks_y, 1, threads, 1, 1, 0, stream,
              list, NULL);
    return true;
}

bool probe_time(probe_session *session, int times, bool (*work)(probe_session *, void *), void *of,
                double *seconds)
{
    float milliseconds = NAN;
    if (!work(session, of))
        return false;
    PROBE_TRY(session, cuEventRecord, session->begin, session->stream);
    for (int i = 0; i < times; i++)
        if (!work(session, of))
            return false;
    PROBE_TRY(session, cuEventRecord, session->end, session->stream);
    PROBE_TRY(session, cuEventSynchronize, session->end);
    PROBE_TRY(session, cuEventElapsedTime_v2, &milliseconds, session->begin, session->end);
    *seconds = milliseconds * 1e-3 / times;
    return true;
}

bool probe_device_share(probe_session *session, size_t most, unsigned parts, size_t *out)
{
    size_t unused = 0, all = 0;
    PROBE_TRY(session, cuMemGetInfo_v2, &unused, &all);
    *out = PROBE_MIN(most, unused / parts & ~(size_t)4095);
    if (*out == 0)
        probe_answer_fail(session->answer, "the device has only %zu bytes free", unused);
    return *out > 0;
}

// The number after key at the beginning of a line of the file, in bytes; `otherwise` without it.
static size_t read_number(const char *path, const char *key, size_t unit, size_t otherwise)
{
    FILE *file = fopen(path, "r");
    char line[256];
    size_t bytes = otherwise;
    unsigned long long value;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), "%llu", &value) == 1)
            bytes = value > SIZE_MAX / unit ? SIZE_MAX : (size_t)value * unit;
    if (file)
        fclose(file);
    return bytes;
}

size_t probe_host_share(size_t most, unsigned parts)
{
    size_t unused = read_number("/proc/meminfo", "MemAvailable:", 1024, SIZE_MAX);
    size_t limit = read_number("/sys/fs/cgroup/memory.max", "", 1, SIZE_MAX);
    size_t used = read_number("/sys/fs/cgroup/memory.current", "", 1, 0);
    if (limit != SIZE_MAX)
        unused = PROBE_MIN(unused, limit > used ? limit - used : 0);
    return PROBE_MIN(most, unused / parts & ~(size_t)4095);
}
