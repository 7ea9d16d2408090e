#include "compute/compute.h"
#include "compute_check.h"

#include "../sanitizers.h"
#include "base/dtype.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 64  // bytes
#define HEADER 64 // bytes
#define SCRATCH (8 << 20)

typedef struct header {
    void *allocation;
    int64_t bytes;
} header;

const zero_dtype storage_types[STORAGE_TYPES] = {ZERO_F32, ZERO_BF16, ZERO_F16};

// Every 16 bits of poison and guard are a NaN of either 16-bit type, every 32 one of fp32.
static void poison(char *from, size_t bytes, uint16_t pattern)
{
    for (size_t i = 0; i < bytes; i++)
        from[i] = (char)(i % 2 ? pattern >> 8 : pattern);
}

void *array_new(zero_dtype dtype, int64_t count)
{
    static _Thread_local unsigned turn;
    size_t shift = turn++ % 7 * 64, bytes = (size_t)count * zero_dtype_bytes(dtype);
    char *allocation = aligned_alloc(64, ZR_ROUND_UP(HEADER + bytes + GUARD + shift, 64));
    assert_non_null(allocation);
    char *p = allocation + shift + HEADER;
    header own = {.allocation = allocation, .bytes = (int64_t)bytes};
    memcpy(p - HEADER, &own, sizeof(own));
    poison(p, bytes, 0x7fff);
    poison(p + bytes, GUARD, 0x7fa5); // a NaN that no computation makes
    return p;
}

void array_free(void *p)
{
    char guard[GUARD];
    header own;
    if (!p)
        return;
    memcpy(&own, (char *)p - HEADER, sizeof(own));
    poison(guard, GUARD, 0x7fa5);
    assert_memory_equal((char *)p + own.bytes, guard, GUARD);
    free(own.allocation);
}

void *array_of(zero_dtype dtype, const float *values, int64_t count)
{
    void *array = array_new(dtype, count);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == ZERO_F32)
            ((float *)array)[i] = values[i];
        else
            ((uint16_t *)array)[i] =
                dtype == ZERO_BF16 ? zr_f32_to_bf16(values[i]) : zr_f32_to_f16(values[i]);
    }
    return array;
}

float *array_floats(zero_dtype dtype, const void *array, int64_t count)
{
    float *values = floats_new(count);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == ZERO_F32)
            values[i] = ((const float *)array)[i];
        else if (dtype == ZERO_BF16)
            values[i] = zr_bf16_to_f32(((const uint16_t *)array)[i]);
        else
            values[i] = zr_f16_to_f32(((const uint16_t *)array)[i]);
    }
    return values;
}

void *array_at(zero_dtype dtype, void *array, int64_t i)
{
    return (char *)array + i * (int64_t)zero_dtype_bytes(dtype);
}

void *array_random(zero_dtype dtype, int64_t count, uint64_t seed, float size)
{
    float *values = floats_random(count, seed, size);
    void *array = array_of(dtype, values, count);
    floats_free(values);
    return array;
}

float *floats_new(int64_t count) { return array_new(ZERO_F32, count); }

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

void floats_free(float *p) { array_free(p); }

#ifdef ZR_COMPUTE_X86
extern const zr_backend zr_cpu_backend_emulated;
#endif

// Opens path emulated as avx2 with other kernels: neither has anything in queue->impl.
static zr_queue *queue_of_path(const char *name, const char *isa, int threads)
{
    zr_queue *queue = NULL;
    zero_error error = {0};
    bool emulated = isa && strcmp(isa, "emulated") == 0;
    zr_queue_open(name, emulated ? "avx2" : isa, threads, &queue, &error);
#ifdef ZR_COMPUTE_X86
    if (queue && emulated)
        queue->backend = &zr_cpu_backend_emulated;
#endif
    return queue;
}

zr_queue *check_queue(const char *name, const char *isa, int threads)
{
    zr_queue *queue = queue_of_path(name, isa, threads);
    if (!queue)
        return NULL;
    queue->scratch = aligned_alloc(64, SCRATCH);
    assert_non_null(queue->scratch);
    queue->scratch_bytes = SCRATCH;
    return queue;
}

void check_queue_close(zr_queue *queue)
{
    zero_error error = {0};
    if (zr_queue_check(queue, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    free(queue->scratch);
    zr_queue_close(queue);
}

zero_status check_run(zr_queue *queue, zr_op op, zero_error *error)
{
    assert_int_equal(zr_queue_check(queue, NULL), ZERO_OK);
    zr_run(queue, op);
    return zr_queue_check(queue, error);
}

void *scratch_new(zr_queue *queue, zr_op op)
{
    return array_new(ZERO_U8, (int64_t)zr_op_scratch(queue, op));
}

// Runs the test with `least` to three threads, under a sanitizer without two.
static int check_path(const char *path, int least, zr_queue *ref, check_body *test)
{
    zr_queue *single = check_queue("cpu", path, 1);
    if (!single) {
        print_message("SKIPPED: this processor does not offer path %s\n", path);
        return 0;
    }
    for (int threads = least; threads <= 3; threads += 1 + SANITIZED) {
        zr_queue *queue = check_queue("cpu", path, threads);
        assert_non_null(queue);
        test(queue, single, ref);
        check_queue_close(queue);
    }
    check_queue_close(single);
    return 1;
}

static void check_paths(check_body *test, bool all)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    assert_non_null(ref);
    int ran = 0;
    void (*before)(zr_queue *, const zr_op *) = NULL;
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        if (strcmp((*backend)->name, "cpu") != 0 || (!all && (*backend)->run == before))
            continue;
        int offered = check_path((*backend)->path(), 1, ref, test);
        before = offered ? (*backend)->run : before;
        ran += offered;
    }
    ran += check_path("emulated", 3, ref, test);
    assert_true(ran > 0);
    check_queue_close(ref);
}

void check_each_cpu(check_body *test) { check_paths(test, true); }

void check_each_kernels(check_body *test) { check_paths(test, false); }

static void check_element(const char *what, int64_t i, int64_t count, double got, double want,
                          double allowed)
{
    double difference = fabs(got - want);
    bool close = got == want || (isfinite(want) && difference <= allowed);
    if (isnan(want) ? isnan(got) : close)
        return;
    fail_msg("%s[%lld of %lld]: %.9g, should be %.9g (off by %.3g, allowed %.3g)", what,
             (long long)i, (long long)count, got, want, difference, allowed);
}

void check_close(const char *what, const float *got, const float *want, int64_t count,
                 double relative, double absolute)
{
    for (int64_t i = 0; i < count; i++)
        check_element(what, i, count, got[i], want[i], relative * fabs((double)want[i]) + absolute);
}

// How far the neighbours of a value are in a type, at most.
static double spacing(zero_dtype dtype, double value)
{
    if (dtype == ZERO_BF16)
        return fmax(ldexp(fabs(value), -7), 0x1p-133);
    return dtype == ZERO_F16 ? fmax(ldexp(fabs(value), -10), 0x1p-24) : 0;
}

void check_same_bits(const char *what, const void *got, const void *want, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (((const char *)got)[i] != ((const char *)want)[i])
            fail_msg("%s: byte %lld of %lld differs", what, (long long)i, (long long)bytes);
}

void check_added(const char *what, const float *added, const float *before, const float *sum,
                 int64_t count)
{
    float *want = floats_new(count);
    for (int64_t i = 0; i < count; i++)
        want[i] = before[i] + sum[i];
    check_same_bits(what, added, want, count * (int64_t)sizeof *want);
    floats_free(want);
}

void check_close_as(const char *what, zero_dtype dtype, const void *got_, const void *want_,
                    int64_t count, double relative, double absolute)
{
    float *got = array_floats(dtype, got_, count), *want = array_floats(dtype, want_, count);
    for (int64_t i = 0; i < count; i++) {
        // infinity begins where 2^16 would be the next number
        if (dtype == ZERO_F16 && isinf(got[i]) != isinf(want[i])) {
            got[i] = isinf(got[i]) ? copysignf(0x1p16f, got[i]) : got[i];
            want[i] = isinf(want[i]) ? copysignf(0x1p16f, want[i]) : want[i];
        }
        double allowed = relative * fabs((double)want[i]) + absolute + spacing(dtype, want[i]);
        check_element(what, i, count, got[i], want[i], allowed);
    }
    floats_free(got);
    floats_free(want);
}

void check_same_array(const char *what, zero_dtype dtype, const void *got, const void *want,
                      int64_t count)
{
    check_same_bits(what, got, want, count * (int64_t)zero_dtype_bytes(dtype));
}

void check_stored(const char *what, zero_dtype dtype, const void *got, const float *want,
                  int64_t count)
{
    void *stored = array_of(dtype, want, count);
    check_same_array(what, dtype, got, stored, count);
    array_free(stored);
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
