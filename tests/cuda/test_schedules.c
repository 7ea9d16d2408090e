// The emulated driver does what streams were given when its schedule says so, and never before what
// it waits for. It has several devices.
#include "driver_check.h"

#include <dlfcn.h>

#include "../../src/cuda/cublaslt_api.h"

static void copy_byte(zr_cuda_stream on, volatile unsigned char *from, volatile unsigned char *to)
{
    DONE(cu.cuMemcpyAsync(ADDRESS(to), ADDRESS(from), 1, on));
}

// ---- when something is done ----

static void be_eager(void)
{
    schedule("eager");
    volatile unsigned char *bytes = pinned_new(64);
    fill(stream, bytes, 1);
    EXPECT(bytes[0] == 1);
}

static void be_lazy(void)
{
    schedule("lazy");
    zr_cuda_stream other = stream_new();
    volatile unsigned char *bytes = pinned_new(64);
    fill(stream, bytes, 1);
    fill(other, bytes + 1, 1);
    EXPECT(bytes[0] == 0 && bytes[1] == 0);
    DONE(cu.cuStreamSynchronize(other));
    EXPECT(bytes[0] == 0 && bytes[1] == 1);
    DONE(cu.cuStreamSynchronize(stream));
    EXPECT(bytes[0] == 1);
    fill(stream, bytes + 2, 1);
    DONE(cu.cuStreamDestroy_v2(stream));
    EXPECT(bytes[2] == 1);
}

// What comes after a record is not done for those who wait for that.
static void be_asked(void)
{
    schedule("lazy");
    zr_cuda_event event = event_new();
    volatile unsigned char *bytes = pinned_new(64);
    DONE(cu.cuEventQuery(event));
    fill(stream, bytes, 1);
    DONE(cu.cuEventRecord(event, stream));
    fill(stream, bytes + 1, 1);
    REFUSED(NOT_READY, cu.cuEventQuery(event));
    EXPECT(bytes[0] == 0);
    DONE(cu.cuEventQuery(event));
    EXPECT(bytes[0] == 1 && bytes[1] == 0);
    DONE(cu.cuEventRecord(event, stream));
    REFUSED(NOT_READY, cu.cuEventQuery(event));
    DONE(cu.cuEventSynchronize(event));
    EXPECT(bytes[1] == 1);
}

static void test_times(void **state)
{
    (void)state;
    expect_well(be_eager);
    expect_well(be_lazy);
    expect_well(be_asked);
}

// ---- what waits for what ----

// One stream makes a byte, another copies it, with a wait or without one.
static unsigned char copy_what_another_makes(bool waits)
{
    zr_cuda_stream other = stream_new();
    zr_cuda_event event = event_new();
    zr_cuda_address made = device_new(16);
    volatile unsigned char *out = pinned_new(16);
    DONE(cu.cuMemsetD8Async(made, 7, 1, stream));
    DONE(cu.cuEventRecord(event, stream));
    if (waits)
        DONE(cu.cuStreamWaitEvent(other, event, 0));
    DONE(cu.cuMemcpyAsync(ADDRESS(out), made, 1, other));
    DONE(cu.cuStreamSynchronize(other));
    return out[0];
}

static void see_a_missing_wait(void)
{
    schedule("lazy");
    EXPECT(copy_what_another_makes(true) == 7);
    EXPECT(copy_what_another_makes(false) == 0xff);
}

static void wait_at_random(void)
{
    schedule("random:5");
    for (int i = 0; i < 100; i++)
        EXPECT(copy_what_another_makes(true) == 7);
}

// A wait is for the record that was there when it was submitted, not for a later one.
static void record_twice(void)
{
    schedule("lazy");
    zr_cuda_stream other = stream_new(), third = stream_new();
    zr_cuda_event event = event_new();
    volatile unsigned char *bytes = pinned_new(64);
    DONE(cu.cuStreamWaitEvent(other, event, 0)); // never recorded: no wait
    fill(stream, bytes, 1);
    DONE(cu.cuEventRecord(event, stream));
    DONE(cu.cuStreamWaitEvent(other, event, 0));
    copy_byte(other, bytes, bytes + 8);
    fill(stream, bytes, 2);
    DONE(cu.cuEventRecord(event, stream));
    DONE(cu.cuStreamWaitEvent(third, event, 0));
    copy_byte(third, bytes, bytes + 16);
    DONE(cu.cuStreamSynchronize(other));
    EXPECT(bytes[0] == 1 && bytes[8] == 1);
    DONE(cu.cuEventDestroy_v2(event)); // which the wait outlives
    DONE(cu.cuStreamSynchronize(third));
    EXPECT(bytes[0] == 2 && bytes[16] == 2);
}

static void wait_in_a_row(void)
{
    enum { STREAMS = 20 };
    zr_cuda_stream streams[STREAMS];
    schedule("lazy");
    zr_cuda_event event = event_new(); // one for all: each record moves it
    volatile unsigned char *bytes = pinned_new(STREAMS + 1);
    fill(stream, bytes, 9);
    DONE(cu.cuEventRecord(event, stream));
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = stream_new();
        DONE(cu.cuStreamWaitEvent(streams[i], event, 0));
        copy_byte(streams[i], bytes + i, bytes + i + 1);
        DONE(cu.cuEventRecord(event, streams[i]));
    }
    EXPECT(bytes[1] == 0);
    DONE(cu.cuEventSynchronize(event));
    EXPECT(bytes[STREAMS] == 9);
}

static void wait_for_ever(void)
{
    setenv("EMULATED_LONGEST", "1", 1);
    schedule("lazy");
    volatile unsigned char *word = pinned_new(64);
    DONE(cu.cuStreamWaitValue64_v2(stream, ADDRESS(word), 1, 0));
    REFUSED(LAUNCH_TIMEOUT, cu.cuStreamSynchronize(stream));
    REFUSED(LAUNCH_TIMEOUT, cu.cuStreamSynchronize(stream));
}

static void end_well(int number)
{
    (void)number;
    _exit(0);
}

// A launch that never ends: queries tell it, other streams go on, and giving memory back waits.
static void get_stuck(void)
{
    setenv("EMULATED_STUCK", "2", 1);
    schedule("lazy");
    zr_cuda_stream other = stream_new();
    zr_cuda_event event = event_new();
    volatile unsigned char *bytes = pinned_new(64);
    zr_cuda_address memory = device_new(64);
    probe_copy_args copy = {(void *)bytes, (void *)(bytes + 16), 1};
    zr_cuda_function function = open_copy();
    DONE(launch(function, 1, 32, &copy));
    DONE(cu.cuStreamSynchronize(stream));
    DONE(launch(function, 1, 32, &copy));
    DONE(cu.cuEventRecord(event, stream));
    for (int i = 0; i < 5; i++)
        REFUSED(NOT_READY, cu.cuEventQuery(event));
    fill(other, bytes, 3);
    DONE(cu.cuStreamSynchronize(other));
    EXPECT(bytes[0] == 3);
    signal(SIGALRM, end_well);
    alarm(1);
    DONE(cu.cuMemFree_v2(memory));
    EXPECT(!"the memory of a stuck device is given back");
}

static void test_waits(void **state)
{
    (void)state;
    expect_well(get_stuck);
    expect_well(see_a_missing_wait);
    expect_well(wait_at_random);
    expect_well(record_twice);
    expect_well(wait_in_a_row);
    expect_well(wait_for_ever);
}

// ---- memory under way ----

static void free_too_early(void)
{
    schedule("lazy");
    zr_cuda_address at = device_new(16);
    volatile unsigned char *out = pinned_new(16);
    DONE(cu.cuMemcpyAsync(ADDRESS(out), at, 16, stream));
    DONE(cu.cuMemFree_v2(at));
    REFUSED(ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
}

static void free_under_a_kernel(void)
{
    schedule("lazy");
    zr_cuda_address from = device_new(16), to = device_new(16);
    probe_copy_args a = {(void *)(uintptr_t)from, (void *)(uintptr_t)to, 1};
    DONE(launch(open_copy(), 1, 32, &a));
    DONE(cu.cuMemFree_v2(to));
    REFUSED(ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
}

#define MEMBER(result, name, parameters) result(*name) parameters;
static struct {
    ZR_BLAS_FUNCTIONS(MEMBER)
} blas;

static void load_blas(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libcublasLt.so.13", getenv("EMULATED"));
    void *library = dlopen(path, RTLD_NOW), *found;
    EXPECT(library != NULL);
#define LOAD(result, name, parameters)                                                             \
    found = dlsym(library, #name);                                                                 \
    EXPECT(found != NULL);                                                                         \
    memcpy(&blas.name, &found, sizeof found);
    ZR_BLAS_FUNCTIONS(LOAD)
}

// Frees an operand of a product, as large as 8 x 8, when that may not have run yet.
static void free_under_a_product(void)
{
    enum { N = 8, BYTES = N * N * sizeof(float) };
    const float one = 1, none = 0;
    const void *at[3];
    int found;
    zr_blas_handle handle;
    zr_blas_product product;
    zr_blas_layout layout;
    zr_blas_wishes wishes;
    zr_blas_choice choice;
    schedule("lazy");
    load_blas();
    for (int i = 0; i < 3; i++)
        at[i] = (const void *)(uintptr_t)device_new(BYTES);
    EXPECT(!blas.cublasLtCreate(&handle));
    EXPECT(!blas.cublasLtMatmulDescCreate(&product, ZR_CUBLAS_COMPUTE_32F, ZR_CUDA_R_32F));
    EXPECT(!blas.cublasLtMatrixLayoutCreate(&layout, ZR_CUDA_R_32F, N, N, N));
    EXPECT(!blas.cublasLtMatmulPreferenceCreate(&wishes));
    EXPECT(!blas.cublasLtMatmulAlgoGetHeuristic(handle, product, layout, layout, layout, layout,
                                                wishes, 1, &choice, &found));
    for (int i = 0; i < 2; i++) {
        EXPECT(!blas.cublasLtMatmul(handle, product, &one, at[0], layout, at[1], layout, &none,
                                    at[2], layout, (void *)at[2], layout, &choice.algorithm, NULL,
                                    0, stream));
        if (i == 0)
            DONE(cu.cuStreamSynchronize(stream));
    }
    DONE(cu.cuMemFree_v2((uintptr_t)at[1]));
    REFUSED(ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
    blas.cublasLtMatmulPreferenceDestroy(wishes);
    blas.cublasLtMatrixLayoutDestroy(layout);
    blas.cublasLtMatmulDescDestroy(product);
    blas.cublasLtDestroy(handle);
}

static void test_memory_under_way(void **state)
{
    (void)state;
    expect_well(free_too_early);
    expect_told("memory of cuMemcpyAsync was given back before that ran");
    expect_well(free_under_a_kernel);
    expect_told("probe_copy got ");
    expect_well(free_under_a_product);
    expect_told("memory of cublasLtMatmul was given back before that ran");
}

// ---- seeds ----

// Writes how far each of some streams is after each submission.
static void tell_the_order(void)
{
    enum { STREAMS = 4, PIECES = 12 };
    zr_cuda_stream streams[STREAMS];
    open_device();
    volatile unsigned char *bytes = pinned_new(STREAMS);
    for (int s = 0; s < STREAMS; s++)
        streams[s] = stream_new();
    for (int piece = 1; piece <= PIECES; piece++)
        for (int s = 0; s < STREAMS; s++) {
            fill(streams[s], bytes + s, (unsigned char)piece);
            fprintf(stderr, "%x%x%x%x ", bytes[0], bytes[1], bytes[2], bytes[3]);
        }
    for (int s = 0; s < STREAMS; s++) {
        DONE(cu.cuStreamSynchronize(streams[s]));
        EXPECT(bytes[s] == PIECES);
    }
}

static void test_seeds(void **state)
{
    static const char *const seeds[] = {"random:1", "random:2", "random:3", "random:1"};
    static char orders[4][sizeof told];
    (void)state;
    for (int i = 0; i < 4; i++) {
        setenv("EMULATED_SCHEDULE", seeds[i], 1);
        expect_well(tell_the_order);
        memcpy(orders[i], told, sizeof told);
    }
    for (int i = 0; i < 3; i++)
        assert_string_not_equal(orders[i], orders[(i + 1) % 3]);
    assert_string_equal(orders[0], orders[3]);
}

// ---- devices ----

static void take_of(int device, size_t all)
{
    size_t unused, found;
    enter_device(device);
    DONE(cu.cuMemGetInfo_v2(&unused, &found));
    EXPECT(found == all && unused == all);
    zr_cuda_address at = device_new(all - 100), more;
    REFUSED(OUT_OF_MEMORY, cu.cuMemAlloc_v2(&more, 101));
    DONE(cu.cuMemGetInfo_v2(&unused, &found));
    EXPECT(found == all && unused == 100);
    DONE(cu.cuMemFree_v2(at));
}

static void have_own_memory(void)
{
    int count, version;
    zr_cuda_device device;
    setenv("EMULATED_DEVICES", "3", 1);
    setenv("EMULATED_MEMORY", "100000,200000", 1);
    setenv("EMULATED_DRIVER", "12020", 1);
    load();
    DONE(cu.cuInit(0));
    DONE(cu.cuDeviceGetCount(&count));
    DONE(cu.cuDriverGetVersion(&version));
    EXPECT(count == 3 && version == 12020);
    REFUSED(INVALID_DEVICE, cu.cuDeviceGet(&device, 3));
    take_of(0, 100000);
    take_of(1, 200000);
    take_of(2, 200000);
}

static void count_users(void)
{
    zr_cuda_context first, again, other;
    size_t unused, all;
    setenv("EMULATED_DEVICES", "2", 1);
    load();
    DONE(cu.cuInit(0));
    DONE(cu.cuDevicePrimaryCtxRetain(&first, 0));
    DONE(cu.cuDevicePrimaryCtxRetain(&again, 0));
    DONE(cu.cuDevicePrimaryCtxRetain(&other, 1));
    EXPECT(first == again && first != other);
    DONE(cu.cuCtxSetCurrent(first));
    DONE(cu.cuDevicePrimaryCtxRelease_v2(0));
    DONE(cu.cuMemGetInfo_v2(&unused, &all));
    DONE(cu.cuDevicePrimaryCtxRelease_v2(0));
    REFUSED(INVALID_CONTEXT, cu.cuMemGetInfo_v2(&unused, &all));
    REFUSED(INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease_v2(0));
    REFUSED(INVALID_CONTEXT, cu.cuCtxSetCurrent(first));
    DONE(cu.cuDevicePrimaryCtxRetain(&again, 0));
    REFUSED(INVALID_CONTEXT, cu.cuMemGetInfo_v2(&unused, &all));
    DONE(cu.cuCtxSetCurrent(again));
    DONE(cu.cuMemGetInfo_v2(&unused, &all));
}

static void keep_devices_apart(void)
{
    setenv("EMULATED_DEVICES", "2", 1);
    open_device();
    zr_cuda_function function = open_copy();
    zr_cuda_event event = event_new();
    zr_cuda_address here = device_new(16), there;
    enter_device(1);
    zr_cuda_stream other = stream_new();
    there = device_new(16);
    probe_copy_args a = {(void *)(uintptr_t)here, (void *)(uintptr_t)there, 1};
    REFUSED(INVALID_HANDLE, launch_on(other, function, 1, 32, &a));
    REFUSED(INVALID_HANDLE, cu.cuEventRecord(event, other));
    DONE(cu.cuEventRecord(event, stream));
    DONE(cu.cuStreamWaitEvent(other, event, 0));
    DONE(cu.cuMemcpyAsync(there, here, 16, other));
    REFUSED(ILLEGAL_ADDRESS, launch_on(other, open_copy(), 1, 32, &a));
    REFUSED(ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
}

static void test_devices(void **state)
{
    (void)state;
    expect_well(have_own_memory);
    expect_well(count_users);
    expect_well(keep_devices_apart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_memory_under_way),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
