#include "compute_check.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 16 // floats
#define HEADER 16
#define SCRATCH (8 << 20)

typedef struct header {
    void *allocation;
    int64_t count;
} header;

static const uint32_t guard_pattern = 0x7fa5a5a5; // a NaN that no computation makes

float *floats_new(int64_t count)
{
    static _Thread_local unsigned turn;
    size_t shift = turn++ % 7 * 64;
    size_t bytes = sizeof(float) * (size_t)(count + HEADER + GUARD) + shift;
    char *allocation = aligned_alloc(64, ZR_ROUND_UP(bytes, 64));
    assert_non_null(allocation);
    float *p = (float *)(allocation + shift) + HEADER;
    header own = {.allocation = allocation, .count = count};
    memcpy(p - HEADER, &own, sizeof(own));
    for (int64_t i = 0; i < count; i++)
        p[i] = NAN;
    for (int64_t i = count; i < count + GUARD; i++)
        memcpy(p + i, &guard_pattern, sizeof(guard_pattern));
    return p;
}

float *floats_copy(const float *from, int64_t count)
{
    float *p = floats_new(count);
    if (count > 0)
        memcpy(p, from, sizeof(float) * (size_t)count);
    return p;
}

float *floats_random(int64_t count, uint64_t seed, float size)
{
    float *p = floats_new(count);
    zr_random_uniform(seed, 0, count, size, p);
    return p;
}

void floats_free(float *p)
{
    if (!p)
        return;
    header own;
    memcpy(&own, p - HEADER, sizeof(own));
    for (int64_t i = own.count; i < own.count + GUARD; i++)
        assert_memory_equal(p + i, &guard_pattern, sizeof(guard_pattern));
    free(own.allocation);
}

zr_queue *check_queue(const char *name, const char *isa, int threads)
{
    zr_queue *queue = NULL;
    zero_error error = {0};
    if (zr_queue_open(name, isa, threads, &queue, &error) != ZERO_OK)
        return NULL;
    queue->scratch = aligned_alloc(64, SCRATCH);
    assert_non_null(queue->scratch);
    queue->scratch_bytes = SCRATCH;
    return queue;
}

void check_queue_close(zr_queue *queue)
{
    free(queue->scratch);
    zr_queue_close(queue);
}

void check_each_cpu(check_body *test)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    assert_non_null(ref);
    int ran = 0;
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        if (strcmp((*backend)->name, "cpu") != 0)
            continue;
        zr_queue *single = check_queue("cpu", (*backend)->path(), 1);
        if (!single) {
            print_message("SKIPPED: this processor does not offer path %s\n", (*backend)->path());
            continue;
        }
        for (int threads = 1; threads <= 3; threads++, ran++) {
            zr_queue *queue = check_queue("cpu", (*backend)->path(), threads);
            assert_non_null(queue);
            test(queue, single, ref);
            check_queue_close(queue);
        }
        check_queue_close(single);
    }
    assert_true(ran > 0);
    check_queue_close(ref);
}

void check_close(const char *what, const float *got, const float *want, int64_t count, double relative, double absolute)
{
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs((double)got[i] - (double)want[i]),
               allowed = relative * fabs((double)want[i]) + absolute;
        if (isnan(want[i]) ? isnan(got[i]) : got[i] == want[i] || difference <= allowed)
            continue;
        fail_msg("%s[%lld of %lld]: %.9g, should be %.9g (off by %.3g, allowed %.3g)", what, (long long)i,
                 (long long)count, (double)got[i], (double)want[i], difference, allowed);
    }
}

void check_same_bits(const char *what, const void *got, const void *want, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (((const char *)got)[i] != ((const char *)want)[i])
            fail_msg("%s: byte %lld of %lld differs", what, (long long)i, (long long)bytes);
}

double check_slope(check_function *f, void *argument, float *at, float step)
{
    float kept = *at;
    *at = kept + step;
    double up = f(argument), reached = *at;
    *at = kept - step;
    double down = f(argument), width = reached - (double)*at;
    *at = kept;
    return (up - down) / width;
}
