// A driver without a GPU: a libcuda.so.1 whose devices are memory of this machine that the host
// cannot reach, and whose kernels are compiled for the CPU (simt.h). The program that runs over it
// is the one that runs on a GPU. It refuses what the real one refuses: unknown handles, copies that
// leave their memory, grids and blocks of impossible sizes, other programs' images, handles and
// memory of another device. Any thread calls it: one lock holds from a call's begin to its end.
//
// Nothing works by itself: what was submitted is done in the calls of the program, in an order that
// a real device may choose as well. The environment chooses:
//   EMULATED_SCHEDULE=eager   a stream goes as far as it can when something is submitted
//   EMULATED_SCHEDULE=lazy    nothing is done before a call waits for it, or asks a second time,
//                             and then that alone which it hangs on
//   EMULATED_SCHEDULE=random:SEED  at each submission and question some streams that need not wait
//                             go one piece further; which, the seed draws
//   EMULATED_FAIL=NAME:N    the Nth call of NAME, or of all functions (*), fails with 999. One that
//                           gives something back has still done so. NAME:N:hang never returns,
//                           NAME:N:abort ends the program.
//   EMULATED_LEAKS=1        at exit lists what was not given back, or twice; status 86
//   EMULATED_COUNT=FILE     at exit writes the number of calls there
//   EMULATED_MEMORY=BYTES   of each device, or a list: BYTES,BYTES; 1 GiB without it
//   EMULATED_WINDOW=BYTES   for addresses of all devices; 64 GiB without it
//   EMULATED_DEVICES=N      0 to 4; 1 without it
//   EMULATED_DRIVER=13000   the version that the driver says it has
//   EMULATED_LONGEST=10     seconds, then a wait counts as one that never ends
//   EMULATED_CAPABILITY=90  of the devices
//   EMULATED_ORDER=forward, backward or drawn: the order of threads
// A device's first user reads the schedule anew; each launch the order of threads.
#ifndef ZR_EMULATED_H
#define ZR_EMULATED_H

#include "../../src/cuda/driver_api.h"
#include "simt_launch.h"

#include <functional>
#include <memory>
#include <mutex>
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

constexpr int emulated_most_devices = 4;

// What programs hold: one of the structures below, alive until it is destroyed.
struct emulated_handle {
    virtual ~emulated_handle() = default;
    virtual const char *kind() const = 0;
};

using emulated_operation = std::function<bool()>; // false: it still has to wait

namespace emulated {

struct track; // emulated_schedule.h
struct mark;

} // namespace emulated

using emulated_graph = std::vector<std::shared_ptr<const emulated_operation>>;

struct CUgraph_st : emulated_handle {
    emulated_graph operations;
    const char *kind() const override { return "graph"; }
};

struct CUgraphExec_st : emulated_handle {
    emulated_graph operations;
    const char *kind() const override { return "executable graph"; }
};

struct CUstream_st : emulated_handle {
    std::shared_ptr<emulated::track> work;
    CUgraph_st *capture = nullptr;
    const char *kind() const override { return "stream"; }
};

struct CUevent_st : emulated_handle {
    int device;
    bool timed = true;
    std::shared_ptr<emulated::mark> last; // of the last record; nothing before the first
    const char *kind() const override { return "event"; }
};

struct CUctx_st : emulated_handle { // of a device; there for ever, alive while it has users
    int device, users = 0;
    unsigned life = 0; // how often it has ended: who had it current then has it no more
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

struct CUfunc_st {
    const emulated::kernel *of;
    int device;
};

struct CUmod_st : emulated_handle {
    int device;
    std::string text; // the image's bytes where its names can be read, else empty
    std::vector<std::unique_ptr<CUfunc_st>> functions;
    const char *kind() const override { return "module"; }
    ~CUmod_st() override;
};

namespace emulated {

// emulated_calls.cpp: what each call begins with.
// Holds the driver from here to its end; result is what the call ends with at once, unless 0.
class call {
  public:
    explicit call(const char *name, bool needs_context = true);
    void pause(); // lets other threads call for a moment

    zr_cuda_result result;

  private:
    std::unique_lock<std::recursive_mutex> held;
};

std::recursive_mutex &driver_lock();
EMULATED_VISIBLE zr_cuda_result begin(const char *name, bool needs_context = true); // no lock after
const char *last_call(); // of this thread
zr_cuda_result broken();
void break_process(zr_cuda_result why); // every call from now on returns it, for any device
long setting(const char *name, long otherwise);
void misuse(const std::string &what); // told at exit
simt::order thread_order();

// emulated_handles.cpp: what programs hold, and which context each thread has.
CUctx_st &context_of(int device);
void make_current(CUctx_st *context); // nullptr: none
CUctx_st *current_context();          // nullptr: none that is alive
void keep(emulated_handle *handle);
void forget(emulated_handle *handle);
bool is_alive(const void *handle);
bool destroy(emulated_handle *handle); // false: there is no such handle
void list_handles(std::vector<std::string> &out);
CUfunc_st *add_function(CUmod_st &module, const kernel *of);
const CUfunc_st *find_function(zr_cuda_function function); // nullptr: there is no such

template <class T> T *find(T *handle)
{
    return is_alive(handle) ? dynamic_cast<T *>((emulated_handle *)handle) : nullptr;
}

// emulated_memory.cpp
void list_memory(std::vector<std::string> &out); // what is alive
// Where the bytes really lie that a program knows under this address; nullptr where they leave the
// memory that they begin in. With host, memory of the host that was not pinned lies where it is,
// and memory of any device is reached; without, that of the device that works, or is current.
EMULATED_VISIBLE void *reach(zr_cuda_address at, size_t bytes, bool host);

// emulated_streams.cpp
// Memory of what was submitted was given back before that ran: every call fails from now on.
EMULATED_VISIBLE void lose(const char *name);
EMULATED_VISIBLE zr_cuda_result submit(zr_cuda_stream stream, emulated_operation operation);

} // namespace emulated

#endif
