// Any thread calls the emulated driver: ranks, comm threads and savers have streams of their own.
#include "driver_check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 60, BYTES = 1024 };

// A ring of threads: each copies on what the one before it has made, as often as there are rounds.
typedef struct member {
    pthread_t thread;
    zr_cuda_stream stream;
    zr_cuda_event made; // bytes
    zr_cuda_address bytes;
} member;

static member members[THREADS];
static zr_cuda_function copy_function;
static pthread_barrier_t barrier;

static void expect_round(zr_cuda_stream on, zr_cuda_address at, unsigned char value)
{
    zr_cuda_event event = event_new();
    unsigned char *host = malloc(BYTES);
    DONE(cu.cuMemHostRegister_v2(host, BYTES, 0));
    DONE(cu.cuMemcpyAsync(ADDRESS(host), at, BYTES, on));
    DONE(cu.cuEventRecord(event, on));
    zr_cuda_result result;
    while ((result = cu.cuEventQuery(event)) == ZR_CUDA_ERROR_NOT_READY)
        usleep(20);
    DONE(result);
    EXPECT(host[0] == value && host[BYTES - 1] == value);
    DONE(cu.cuMemHostUnregister(host));
    DONE(cu.cuEventDestroy_v2(event));
    free(host);
}

static void *work_in_a_ring(void *which)
{
    member *self = which, *before = &members[(self - members + THREADS - 1) % THREADS];
    enter_device(0);
    zr_cuda_address next = device_new(BYTES);
    for (int round = 1; round <= ROUNDS; round++) {
        probe_copy_args a = {(void *)(uintptr_t)before->bytes, (void *)(uintptr_t)next, BYTES / 16};
        DONE(cu.cuStreamWaitEvent(self->stream, before->made, 0));
        DONE(launch_on(self->stream, copy_function, 2, 32, &a));
        expect_round(self->stream, next, (unsigned char)round);
        pthread_barrier_wait(&barrier); // all have read
        DONE(cu.cuMemcpyAsync(self->bytes, next, BYTES, self->stream));
        DONE(cu.cuMemsetD8Async(self->bytes, (unsigned char)(round + 1), BYTES, self->stream));
        DONE(cu.cuEventRecord(self->made, self->stream));
        pthread_barrier_wait(&barrier); // all have recorded
    }
    DONE(cu.cuStreamSynchronize(self->stream));
    DONE(cu.cuMemFree_v2(next));
    DONE(cu.cuDevicePrimaryCtxRelease_v2(0));
    return NULL;
}

static void run_a_ring(void)
{
    open_device();
    copy_function = open_copy();
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        members[i].stream = stream_new();
        members[i].made = event_new();
        members[i].bytes = device_new(BYTES);
        DONE(cu.cuMemsetD8Async(members[i].bytes, 1, BYTES, members[i].stream));
        DONE(cu.cuEventRecord(members[i].made, members[i].stream));
    }
    for (int i = 0; i < THREADS; i++)
        EXPECT(!pthread_create(&members[i].thread, NULL, work_in_a_ring, &members[i]));
    for (int i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
}

static void test_threads(void **state)
{
    static const char *const all[] = {"eager", "lazy", "random:1", "random:2", "random:3"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        setenv("EMULATED_SCHEDULE", all[i], 1);
        expect_well(run_a_ring);
    }
}

static zr_cuda_stream waiting;
static volatile unsigned char *waited; // two words

static void *wait_elsewhere(void *unused)
{
    enter_device(0);
    DONE(cu.cuStreamSynchronize(waiting));
    EXPECT(waited[8] == 1);
    return NULL;
}

// A thread that waits leaves the driver to others, who make what it waits for.
static void end_the_wait_of_another(void)
{
    pthread_t thread;
    size_t unused, all;
    schedule("lazy");
    waiting = stream;
    waited = pinned_new(64);
    DONE(cu.cuStreamWaitValue64_v2(stream, ADDRESS(waited), 1, 0));
    fill(stream, waited + 8, 1);
    EXPECT(!pthread_create(&thread, NULL, wait_elsewhere, NULL));
    usleep(20000);
    DONE(cu.cuMemGetInfo_v2(&unused, &all));
    EXPECT(waited[8] == 0);
    zr_cuda_stream other = stream_new();
    DONE(cu.cuStreamWriteValue64_v2(other, ADDRESS(waited), 1, 0));
    DONE(cu.cuStreamSynchronize(other));
    pthread_join(thread, NULL);
}

static void *hang_elsewhere(void *unused)
{
    size_t left, all;
    enter_device(0);
    cu.cuMemGetInfo_v2(&left, &all);
    return NULL;
}

static void outlive_one_that_hangs(void)
{
    pthread_t thread;
    setenv("EMULATED_FAIL", "cuMemGetInfo_v2:1:hang", 1);
    open_device();
    EXPECT(!pthread_create(&thread, NULL, hang_elsewhere, NULL));
    usleep(20000);
    volatile unsigned char *bytes = pinned_new(64);
    fill(stream, bytes, 1);
    DONE(cu.cuStreamSynchronize(stream));
}

static void run_in_a_thread(void *(*part)(void *))
{
    pthread_t thread;
    EXPECT(!pthread_create(&thread, NULL, part, NULL));
    pthread_join(thread, NULL);
}

static void *need_a_context(void *unused)
{
    zr_cuda_address at;
    REFUSED(INVALID_CONTEXT, cu.cuMemAlloc_v2(&at, 16));
    enter_device(0);
    REFUSED(UNKNOWN, cu.cuMemAlloc_v2(&at, 16)); // the second
    device_new(16);
    DONE(cu.cuDevicePrimaryCtxRelease_v2(0));
    return NULL;
}

static void fail_in_a_thread(void)
{
    setenv("EMULATED_FAIL", "cuMemAlloc_v2:2", 1);
    open_device();
    run_in_a_thread(need_a_context);
}

static void *touch(void *unused)
{
    enter_device(0);
    return (void *)(uintptr_t) * (volatile unsigned char *)(uintptr_t)device_new(100);
}

static void touch_in_a_thread(void)
{
    open_device();
    run_in_a_thread(touch);
}

static void *go_past_the_end(void *unused)
{
    enter_device(0);
    DONE(cu.cuStreamSynchronize(stream));
    return NULL;
}

// A kernel that one thread submits fails in another, which waits for it.
static void fault_in_a_thread(void)
{
    schedule("lazy");
    zr_cuda_address from = device_new(128), to = device_new(64);
    probe_copy_args a = {(void *)(uintptr_t)from, (void *)(uintptr_t)to, 5}; // there are 4
    DONE(launch(open_copy(), 1, 32, &a));
    run_in_a_thread(go_past_the_end);
}

static void test_failures_of_threads(void **state)
{
    (void)state;
    expect_well(end_the_wait_of_another);
    expect_well(outlive_one_that_hangs);
    assert_int_not_equal(run_apart(touch_in_a_thread), 0);
    expect_told("the host touched memory of the device: byte 0 of the 100 bytes of cuMemAlloc_v2 "
                "number 1; the last call was cuMemAlloc_v2");
    assert_int_not_equal(run_apart(fault_in_a_thread), 0);
    expect_told("something went past the end of the 64 bytes of cuMemAlloc_v2 number 2; "
                "probe_copy ran; the last call was cuStreamSynchronize");
    setenv("EMULATED_LEAKS", "1", 1);
    int status = run_apart(fail_in_a_thread);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 86);
    expect_told("not given back: 16 bytes of cuMemAlloc_v2 number 1");
    unsetenv("EMULATED_LEAKS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_failures_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
