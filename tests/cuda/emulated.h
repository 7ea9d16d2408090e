// A driver without a GPU: a libcuda.so.1 whose device is memory of this machine that the host
// cannot reach, and whose kernels are compiled for the CPU (simt.h). The program that runs over it
// is the one that runs on a GPU. It refuses what the real one refuses: unknown handles, copies that
// leave their memory, grids and blocks of impossible sizes, other programs' images. One thread
// calls it.
//
// Work is done when it is submitted, but for what stands after a wait in its stream, which is done
// when the wait has ended. The environment chooses:
//   EMULATED_FAIL=NAME:N    the Nth call of NAME, or of all functions (*), fails with 999. One that
//                           gives something back has still done so. NAME:N:hang never returns,
//                           NAME:N:abort ends the program.
//   EMULATED_LEAKS=1        at exit lists what was not given back, or twice; status 86
//   EMULATED_COUNT=FILE     at exit writes the number of calls there
//   EMULATED_MEMORY=BYTES   of the device; 1 GiB without it
//   EMULATED_DEVICES=N      0 or 1
//   EMULATED_CAPABILITY=90  of the device
//   EMULATED_ORDER=forward, backward or drawn: the order of threads
#ifndef ZR_EMULATED_H
#define ZR_EMULATED_H

#include "../../src/cuda/driver_api.h"
#include "simt_launch.h"

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#ifdef EMULATED_CUDA12 // a driver of 12.4, which does not have the newer name yet
#define cuEventElapsedTime_v2 cuEventElapsedTime
#endif

#define EMULATED_VISIBLE __attribute__((visibility("default")))
#define EMULATED_API extern "C" EMULATED_VISIBLE
#define EMULATED_DECLARE(name, older, parameters) EMULATED_API zr_cuda_result name parameters;
ZR_CUDA_FUNCTIONS(EMULATED_DECLARE)
#undef EMULATED_DECLARE

// What programs hold: one of the structures below, alive until it is destroyed.
struct emulated_handle {
    virtual ~emulated_handle() = default;
    virtual const char *kind() const = 0;
};

using emulated_operation = std::function<bool()>; // false: it still has to wait

struct CUgraph_st : emulated_handle {
    std::vector<emulated_operation> operations;
    const char *kind() const override { return "graph"; }
};

struct CUgraphExec_st : emulated_handle {
    std::vector<emulated_operation> operations;
    const char *kind() const override { return "executable graph"; }
};

struct CUstream_st : emulated_handle {
    std::deque<emulated_operation> waiting;
    CUgraph_st *capture = nullptr;
    const char *kind() const override { return "stream"; }
};

struct CUevent_st : emulated_handle {
    bool timed = true, recorded = false, done = false;
    std::chrono::steady_clock::time_point at;
    const char *kind() const override { return "event"; }
};

struct CUctx_st : emulated_handle {
    const char *kind() const override { return "context"; }
};

namespace emulated {

// A kernel, with the size of the structure that it gets.
struct kernel {
    const char *file; // of src/cuda/kernels, or nothing
    const char *name;
    size_t bytes;
    // Runs it; the message says what was wrong, or nothing. *lost: a pointer that leads nowhere.
    std::string (*run)(const void *arguments, dim3 grid, dim3 block, const void **lost);
};
const kernel *find_kernel(const char *name);
// What the emulated NVRTC makes of a file: a head, then the names of its kernels, a line each.
const std::string image_head("\x50\xed\x55\xba\1\0\20\0\0\0\0\0\0\0\0\0emulated\n", 25);
EMULATED_VISIBLE std::string image_of(const char *file);

} // namespace emulated

struct CUmod_st;
struct CUfunc_st {
    const emulated::kernel *of;
};

struct CUmod_st : emulated_handle {
    std::string text; // the image's bytes where its names can be read, else empty
    std::vector<CUfunc_st *> functions;
    const char *kind() const override { return "module"; }
    ~CUmod_st() override
    {
        for (CUfunc_st *function : functions)
            delete function;
    }
};

namespace emulated {

// emulated_calls.cpp: what each call begins with, and what programs hold.
EMULATED_VISIBLE zr_cuda_result begin(const char *name, bool needs_context = true);
const char *last_call();
zr_cuda_result break_device(zr_cuda_result why); // every call from now on returns it
zr_cuda_result broken();
long setting(const char *name, long otherwise);
void misuse(const std::string &what); // told at exit
void make_current(bool is);
simt::order thread_order();

void keep(emulated_handle *handle);
bool is_alive(const void *handle);
const std::vector<emulated_handle *> &handles();
bool destroy(emulated_handle *handle); // false: there is no such handle

template <class T> T *find(T *handle)
{
    return is_alive(handle) ? dynamic_cast<T *>((emulated_handle *)handle) : nullptr;
}

// emulated_memory.cpp
void list_memory(std::vector<std::string> &out); // what is alive
// Where the bytes really lie that a program knows under this address; nullptr where they leave the
// memory that they begin in. With host, memory of the host that was not pinned lies where it is.
EMULATED_VISIBLE void *reach(zr_cuda_address at, size_t bytes, bool host);

// emulated_streams.cpp
EMULATED_VISIBLE zr_cuda_result submit(zr_cuda_stream stream, emulated_operation operation);

} // namespace emulated

#endif
