// Loads the emulated driver, and runs parts of tests in processes of their own.
#include "driver_check.h"

#include <dlfcn.h>
#include <signal.h>

zr_cuda_driver cu;
zr_cuda_stream stream;

// In the process of a part: cmocka's assertions would go on with the next test there.
void expect(bool is, const char *text, int line)
{
    if (is)
        return;
    fprintf(stderr, "line %d: not so: %s\n", line, text);
    _exit(1);
}

void load(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libcuda.so.1", getenv("EMULATED"));
    void *library = dlopen(path, RTLD_NOW);
    EXPECT(library != NULL);
    void *found;
#define LOAD(name, older, parameters)                                                              \
    found = dlsym(library, #name);                                                                 \
    EXPECT(found != NULL);                                                                         \
    memcpy(&cu.name, &found, sizeof found);
    ZR_CUDA_FUNCTIONS(LOAD)
}

void enter_device(int device)
{
    zr_cuda_context context;
    DONE(cu.cuDevicePrimaryCtxRetain(&context, device));
    DONE(cu.cuCtxSetCurrent(context));
}

void open_device(void)
{
    load();
    DONE(cu.cuInit(0));
    enter_device(0);
    stream = stream_new();
}

void schedule(const char *text)
{
    setenv("EMULATED_SCHEDULE", text, 1);
    open_device();
}

zr_cuda_stream stream_new(void)
{
    zr_cuda_stream made;
    DONE(cu.cuStreamCreate(&made, ZR_CU_STREAM_NON_BLOCKING));
    return made;
}

zr_cuda_event event_new(void)
{
    zr_cuda_event made;
    DONE(cu.cuEventCreate(&made, ZR_CU_EVENT_DISABLE_TIMING));
    return made;
}

volatile unsigned char *pinned_new(size_t bytes)
{
    void *at;
    DONE(cu.cuMemHostAlloc(&at, bytes, 0));
    memset(at, 0, bytes);
    return at;
}

zr_cuda_address device_new(size_t bytes)
{
    zr_cuda_address at;
    DONE(cu.cuMemAlloc_v2(&at, bytes));
    return at;
}

zr_cuda_function open_copy(void)
{
    static const unsigned image[16] = {0xba55ed50};
    zr_cuda_module module;
    zr_cuda_function function;
    DONE(cu.cuModuleLoadData(&module, image));
    DONE(cu.cuModuleGetFunction(&function, module, "probe_copy"));
    return function;
}

zr_cuda_result launch_on(zr_cuda_stream on, zr_cuda_function function, unsigned blocks,
                         unsigned threads, probe_copy_args *a)
{
    void *list[] = {a};
    return cu.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, on, list, NULL);
}

zr_cuda_result launch(zr_cuda_function function, unsigned blocks, unsigned threads,
                      probe_copy_args *a)
{
    return launch_on(stream, function, blocks, threads, a);
}

void fill(zr_cuda_stream on, volatile unsigned char *at, unsigned char value)
{
    DONE(cu.cuMemsetD8Async(ADDRESS(at), value, 1, on));
}

char told[4096]; // what the process of a test said on stderr

// Runs a part of a test in a process of its own. Returns how that ended, as waitpid says it.
int run_apart(void (*part)(void))
{
    int ends[2], status = 0;
    size_t used = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        signal(SIGSEGV, SIG_DFL); // which cmocka has taken
        part();
        exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], told + used, sizeof told - 1 - used)) > 0;)
        used += (size_t)got;
    told[used] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(process, &status, 0), process);
    return status;
}

void expect_told(const char *part)
{
    if (!strstr(told, part))
        fail_msg("it said \"%s\", not \"%s\"", told, part);
}

void expect_well(void (*part)(void))
{
    int status = run_apart(part);
    if (status)
        fail_msg("status %x: %s", (unsigned)status, told);
}
