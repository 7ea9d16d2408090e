// The emulated driver refuses what a real one refuses, tells of what the host and kernels may not
// touch, and of what is not given back. Each test runs in a process of its own, since a device that
// has failed stays so.
#include "driver_check.h"

static void begin_in_order(void)
{
    zr_cuda_address at;
    int count;
    load();
    REFUSED(NOT_INITIALIZED, cu.cuDeviceGetCount(&count));
    DONE(cu.cuInit(0));
    REFUSED(INVALID_CONTEXT, cu.cuMemAlloc_v2(&at, 8));
    REFUSED(INVALID_DEVICE, cu.cuDeviceGet(&count, 1));
}

static void use_strange_handles(void)
{
    int nothing[16] = {0};
    zr_cuda_event event;
    zr_cuda_stream other;
    open_device();
    REFUSED(INVALID_HANDLE, cu.cuStreamSynchronize((zr_cuda_stream)nothing));
    REFUSED(INVALID_HANDLE, cu.cuEventRecord((zr_cuda_event)nothing, stream));
    DONE(cu.cuStreamCreate(&other, 0));
    DONE(cu.cuEventCreate(&event, ZR_CU_EVENT_DISABLE_TIMING));
    DONE(cu.cuStreamDestroy_v2(other));
    REFUSED(INVALID_HANDLE, cu.cuStreamDestroy_v2(other));
    REFUSED(INVALID_HANDLE, cu.cuEventRecord(event, other));
    REFUSED(INVALID_HANDLE, cu.cuEventRecord((zr_cuda_event)stream, stream));
    DONE(cu.cuEventDestroy_v2(event));
    REFUSED(INVALID_HANDLE, cu.cuEventSynchronize(event));
}

static void copy_outside(void)
{
    zr_cuda_address at, other;
    char host[256] = "";
    open_device();
    DONE(cu.cuMemAlloc_v2(&at, 100));
    DONE(cu.cuMemAlloc_v2(&other, 100));
    DONE(cu.cuMemcpyAsync(at, (zr_cuda_address)host, 100, stream));
    REFUSED(INVALID_VALUE, cu.cuMemcpyAsync(at, (zr_cuda_address)host, 101, stream));
    REFUSED(INVALID_VALUE, cu.cuMemcpyAsync((zr_cuda_address)host, at + 1, 100, stream));
    REFUSED(INVALID_VALUE, cu.cuMemsetD8Async(at + 50, 0, 51, stream));
    DONE(cu.cuMemFree_v2(other));
    REFUSED(INVALID_VALUE, cu.cuMemcpyAsync(other, at, 10, stream));
    REFUSED(INVALID_VALUE, cu.cuMemFree_v2(other));
    REFUSED(INVALID_VALUE, cu.cuMemFree_v2(at + 8));
    REFUSED(OUT_OF_MEMORY, cu.cuMemAlloc_v2(&other, (size_t)2 << 30));
    REFUSED(INVALID_VALUE, cu.cuMemAlloc_v2(&other, 0));
}

static void register_memory(void)
{
    zr_cuda_address at;
    void *host = aligned_alloc(4096, 8192);
    open_device();
    REFUSED(INVALID_VALUE, cu.cuMemHostGetDevicePointer_v2(&at, host, 0));
    DONE(cu.cuMemHostRegister_v2(host, 8192, 0));
    REFUSED(HOST_MEMORY_ALREADY_REGISTERED, cu.cuMemHostRegister_v2((char *)host + 4096, 8192, 0));
    DONE(cu.cuMemHostGetDevicePointer_v2(&at, (char *)host + 100, 0));
    EXPECT(at == (zr_cuda_address)host + 100);
    DONE(cu.cuMemHostUnregister(host));
    REFUSED(HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(host));
    free(host);
}

static void register_neighbours(void)
{
    zr_cuda_address at;
    char *host = aligned_alloc(4096, 4096);
    open_device();
    DONE(cu.cuMemHostRegister_v2(host + 64, 64, 0));
    DONE(cu.cuMemHostRegister_v2(host, 64, 0));
    DONE(cu.cuMemHostRegister_v2(host + 256, 1000, 0));
    REFUSED(HOST_MEMORY_ALREADY_REGISTERED, cu.cuMemHostRegister_v2(host + 127, 64, 0));
    REFUSED(HOST_MEMORY_ALREADY_REGISTERED, cu.cuMemHostRegister_v2(host + 128, 129, 0));
    DONE(cu.cuMemHostRegister_v2(host + 128, 128, 0));
    DONE(cu.cuMemHostUnregister(host + 64));
    DONE(cu.cuMemHostGetDevicePointer_v2(&at, host + 128, 0));
    REFUSED(INVALID_VALUE, cu.cuMemHostGetDevicePointer_v2(&at, host + 64, 0));
    free(host);
}

// An address is given again only when all others were.
static void reuse_addresses(void)
{
    enum { ALL = 8, TAKEN = 8192 }; // a page that nobody may touch follows each
    zr_cuda_address first, at, kept, over;
    setenv("EMULATED_WINDOW", "65536", 1);
    open_device();
    kept = first = device_new(100);
    for (int i = 1; i < ALL; i++) {
        at = device_new(100);
        EXPECT(at == first + (zr_cuda_address)i * TAKEN);
        DONE(cu.cuMemFree_v2(at));
    }
    for (int i = 0; i < 20; i++) { // around what is kept
        at = device_new(100);
        EXPECT(at == kept + (zr_cuda_address)(i % (ALL - 1) + 1) * TAKEN);
        DONE(cu.cuMemFree_v2(at));
    }
    at = device_new(40000);
    REFUSED(OUT_OF_MEMORY, cu.cuMemAlloc_v2(&over, 20000));
    REFUSED(INVALID_VALUE, cu.cuMemsetD8Async(kept, 1, 101, stream));
    DONE(cu.cuMemsetD8Async(at, 1, 40000, stream));
}

static void launch_impossible(void)
{
    zr_cuda_address at;
    open_device();
    zr_cuda_function function = open_copy();
    DONE(cu.cuMemAlloc_v2(&at, 64));
    probe_copy_args a = {(void *)at, (void *)(at + 32), 2};
    DONE(launch(function, 1, 1024, &a));
    REFUSED(INVALID_VALUE, launch(function, 1, 0, &a));
    REFUSED(INVALID_VALUE, launch(function, 1, 1025, &a));
    REFUSED(INVALID_VALUE, launch(function, 0, 32, &a));
    void *list[] = {&a};
    DONE(cu.cuLaunchKernel(function, 1, 1, 1, 64, 16, 1, 0, stream, list, NULL));
    REFUSED(INVALID_VALUE, cu.cuLaunchKernel(function, 1, 1, 1, 64, 17, 1, 0, stream, list, NULL));
    REFUSED(INVALID_VALUE, cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 65, 0, stream, list, NULL));
    REFUSED(INVALID_VALUE, launch(function, 1, 32, NULL));
    REFUSED(INVALID_HANDLE, launch(NULL, 1, 32, &a));
    REFUSED(INVALID_HANDLE, launch((zr_cuda_function)&a, 1, 32, &a));
    a.from = &a; // memory of the host, not pinned
    REFUSED(ILLEGAL_ADDRESS, launch(function, 1, 32, &a));
    REFUSED(ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
}

static void load_strange_images(void)
{
    static const char text[64] = "extern \"C\" __global__ void probe_copy";
    static const unsigned image[16] = {0xba55ed50};
    zr_cuda_module module;
    zr_cuda_function function;
    open_device();
    REFUSED(INVALID_IMAGE, cu.cuModuleLoadData(&module, text));
    DONE(cu.cuModuleLoadData(&module, image));
    REFUSED(NOT_FOUND, cu.cuModuleGetFunction(&function, module, "probe_nothing"));
    DONE(cu.cuModuleGetFunction(&function, module, "probe_limbs"));
    DONE(cu.cuModuleUnload(module));
    REFUSED(INVALID_HANDLE, cu.cuModuleGetFunction(&function, module, "probe_limbs"));
}

static void time_events(void)
{
    zr_cuda_event from, to, plain;
    float milliseconds;
    open_device();
    DONE(cu.cuEventCreate(&from, ZR_CU_EVENT_DEFAULT));
    DONE(cu.cuEventCreate(&to, ZR_CU_EVENT_DEFAULT));
    DONE(cu.cuEventCreate(&plain, ZR_CU_EVENT_DISABLE_TIMING));
    REFUSED(INVALID_HANDLE, cu.cuEventElapsedTime_v2(&milliseconds, from, to));
    DONE(cu.cuEventRecord(from, stream));
    DONE(cu.cuEventRecord(to, stream));
    DONE(cu.cuEventRecord(plain, stream));
    DONE(cu.cuEventElapsedTime_v2(&milliseconds, from, to));
    EXPECT(milliseconds >= 0);
    REFUSED(INVALID_HANDLE, cu.cuEventElapsedTime_v2(&milliseconds, from, plain));
}

// What follows a wait in its stream, and what waits for that in another, is done after it.
static void wait_for_words(void)
{
    void *memory;
    zr_cuda_event event, last;
    zr_cuda_stream other;
    float milliseconds;
    open_device();
    DONE(cu.cuMemHostAlloc(&memory, 64, 0));
    volatile uint64_t *words = memory;
    words[0] = words[1] = words[2] = 0;
    DONE(cu.cuStreamCreate(&other, 0));
    DONE(cu.cuEventCreate(&event, 0));
    DONE(cu.cuEventCreate(&last, 0));
    DONE(cu.cuStreamWaitValue64_v2(stream, (zr_cuda_address)&words[0], 5, 0));
    DONE(cu.cuStreamWriteValue64_v2(stream, (zr_cuda_address)&words[1], 9, 0));
    DONE(cu.cuEventRecord(event, stream));
    DONE(cu.cuStreamWaitEvent(other, event, 0));
    DONE(cu.cuStreamWriteValue64_v2(other, (zr_cuda_address)&words[2], 8, 0));
    DONE(cu.cuEventRecord(last, other));
    REFUSED(NOT_READY, cu.cuEventElapsedTime_v2(&milliseconds, event, last));
    EXPECT(words[1] + words[2] == 0);
    words[0] = 6;
    DONE(cu.cuStreamSynchronize(other));
    EXPECT(words[1] == 9);
    EXPECT(words[2] == 8);
}

static void capture_a_graph(void)
{
    void *memory;
    zr_cuda_graph graph;
    zr_cuda_graph_exec exec;
    open_device();
    DONE(cu.cuMemHostAlloc(&memory, 64, 0));
    volatile unsigned char *bytes = memory;
    bytes[0] = 1;
    DONE(cu.cuStreamBeginCapture_v2(stream, ZR_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    DONE(cu.cuMemsetD8Async((zr_cuda_address)memory, 7, 64, stream));
    DONE(cu.cuStreamEndCapture(stream, &graph));
    DONE(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(bytes[0] == 1);
    DONE(cu.cuGraphLaunch(exec, stream));
    DONE(cu.cuStreamSynchronize(stream));
    EXPECT(bytes[0] == 7);
    REFUSED(INVALID_VALUE, cu.cuStreamEndCapture(stream, &graph));
}

static void test_refusals(void **state)
{
    (void)state;
    expect_well(begin_in_order);
    expect_well(use_strange_handles);
    expect_well(copy_outside);
    expect_well(register_memory);
    expect_well(register_neighbours);
    expect_well(reuse_addresses);
    expect_well(launch_impossible);
    expect_well(load_strange_images);
    expect_well(time_events);
}

static void test_order(void **state)
{
    (void)state;
    expect_well(wait_for_words);
    expect_well(capture_a_graph);
}

static void read_on_host(void)
{
    zr_cuda_address at;
    open_device();
    DONE(cu.cuMemAlloc_v2(&at, 100));
    DONE(cu.cuMemsetD8Async(at, 1, 100, stream));
    exit(((volatile char *)at)[5]);
}

static void go_past_the_end(void)
{
    zr_cuda_address from, to;
    open_device();
    zr_cuda_function function = open_copy();
    DONE(cu.cuMemAlloc_v2(&from, 128));
    DONE(cu.cuMemAlloc_v2(&to, 64));
    probe_copy_args a = {(void *)from, (void *)to, 5}; // of 16 bytes, and there are 4
    launch(function, 1, 32, &a);
}

static void write_to_a_pipe(void)
{
    zr_cuda_address at;
    int ends[2];
    open_device();
    DONE(cu.cuMemAlloc_v2(&at, 100));
    EXPECT(pipe(ends) == 0);
    EXPECT(write(ends[1], (const void *)at, 4) == -1);
}

static void test_far_memory(void **state)
{
    (void)state;
    assert_int_not_equal(run_apart(read_on_host), 0);
    expect_told("the host touched memory of the device: byte 5 of the 100 bytes of cuMemAlloc_v2 "
                "number 1; the last call was cuMemsetD8Async");
    assert_int_not_equal(run_apart(go_past_the_end), 0);
    expect_told("something went past the end of the 64 bytes of cuMemAlloc_v2 number 2; "
                "probe_copy ran; the last call was cuLaunchKernel");
    expect_well(write_to_a_pipe);
}

static void leave_things(void)
{
    zr_cuda_address at;
    zr_cuda_event event;
    open_device();
    DONE(cu.cuMemAlloc_v2(&at, 100));
    DONE(cu.cuEventCreate(&event, 0));
    DONE(cu.cuEventDestroy_v2(event));
    cu.cuEventDestroy_v2(event);
}

static void leave_nothing(void)
{
    zr_cuda_address at;
    open_device();
    DONE(cu.cuMemAlloc_v2(&at, 100));
    DONE(cu.cuMemFree_v2(at));
    DONE(cu.cuStreamDestroy_v2(stream));
    DONE(cu.cuDevicePrimaryCtxRelease_v2(0));
}

static void test_leaks(void **state)
{
    (void)state;
    setenv("EMULATED_LEAKS", "1", 1);
    int status = run_apart(leave_things);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 86);
    expect_told("not given back: 100 bytes of cuMemAlloc_v2 number 1");
    expect_told("not given back: a stream");
    expect_told("not given back: a context");
    expect_told("cuEventDestroy_v2 of what is not there");
    expect_well(leave_nothing);
    unsetenv("EMULATED_LEAKS");
}

static void fail_the_second(void)
{
    zr_cuda_address at;
    setenv("EMULATED_FAIL", "cuMemAlloc_v2:2", 1);
    open_device();
    DONE(cu.cuMemAlloc_v2(&at, 100));
    REFUSED(UNKNOWN, cu.cuMemAlloc_v2(&at, 100));
    DONE(cu.cuMemAlloc_v2(&at, 100));
}

static void test_failure_on_demand(void **state)
{
    (void)state;
    expect_well(fail_the_second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),          cmocka_unit_test(test_order),
        cmocka_unit_test(test_far_memory),        cmocka_unit_test(test_leaks),
        cmocka_unit_test(test_failure_on_demand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
