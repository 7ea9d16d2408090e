// Streams, events and graphs of the emulated driver, and what is submitted to them.
#include "emulated.h"

#include <climits>
#include <unistd.h>

using namespace emulated;
using std::chrono::steady_clock;

namespace {

constexpr double longest_wait = 10; // seconds, then a wait counts as one that never ends

CUstream_st *find_stream(zr_cuda_stream stream)
{
    static CUstream_st &legacy = *new CUstream_st; // the stream without a handle
    return stream ? find(stream) : &legacy;
}

void advance(CUstream_st &stream)
{
    while (!stream.waiting.empty() && !broken() && stream.waiting.front()())
        stream.waiting.pop_front();
}

void advance_all()
{
    for (emulated_handle *handle : handles())
        if (auto *stream = dynamic_cast<CUstream_st *>(handle))
            advance(*stream);
    advance(*find_stream(nullptr));
}

zr_cuda_result wait_until(const std::function<bool()> &is_done)
{
    const auto began = steady_clock::now();
    for (;;) {
        advance_all();
        if (broken())
            return broken();
        if (is_done())
            return ZR_CUDA_SUCCESS;
        if (steady_clock::now() - began > std::chrono::duration<double>(longest_wait)) {
            misuse(std::string(last_call()) + " waited for what never came");
            return break_device(ZR_CUDA_ERROR_LAUNCH_TIMEOUT);
        }
        usleep(20);
    }
}

bool is_possible(dim3 grid, dim3 block, unsigned shared_bytes)
{
    return grid.count() && grid.x <= INT_MAX && grid.y <= 65535 && grid.z <= 65535 &&
           block.count() && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
           block.count() <= 1024 && shared_bytes <= 48 << 10;
}

bool run_kernel(const kernel &of, const std::string &arguments, dim3 grid, dim3 block)
{
    const void *lost = nullptr;
    std::string why = of.run(arguments.data(), grid, block, &lost);
    if (lost) {
        fprintf(stderr, "emulated driver: %s got %p, which is no memory of the device\n", of.name,
                lost);
        break_device(ZR_CUDA_ERROR_ILLEGAL_ADDRESS);
    } else if (!why.empty()) {
        fprintf(stderr, "emulated driver: %s: %s\n", of.name, why.c_str());
        break_device(ZR_CUDA_ERROR_LAUNCH_FAILED);
    }
    return true;
}

const kernel *find_function(zr_cuda_function function)
{
    for (emulated_handle *handle : handles())
        if (auto *module = dynamic_cast<CUmod_st *>(handle))
            for (CUfunc_st *known : module->functions)
                if (known == function)
                    return known->of;
    return nullptr;
}

} // namespace

zr_cuda_result emulated::submit(zr_cuda_stream stream, emulated_operation operation)
{
    CUstream_st *of = find_stream(stream);
    if (!of)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    if (of->capture) {
        of->capture->operations.push_back(std::move(operation));
        return ZR_CUDA_SUCCESS;
    }
    advance(*of);
    if (!of->waiting.empty() || !operation())
        of->waiting.push_back(std::move(operation));
    return broken();
}

zr_cuda_result cuLaunchKernel(zr_cuda_function function, unsigned blocks_x, unsigned blocks_y,
                              unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                              unsigned threads_z, unsigned shared_bytes, zr_cuda_stream stream,
                              void **arguments, void **extra)
{
    if (zr_cuda_result r = begin("cuLaunchKernel"))
        return r;
    const kernel *of = find_function(function);
    if (!of)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    dim3 grid(blocks_x, blocks_y, blocks_z), block(threads_x, threads_y, threads_z);
    if (!is_possible(grid, block, shared_bytes) || !arguments || !arguments[0] || extra)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    std::string copy((const char *)arguments[0], of->bytes);
    return submit(stream, [=] { return run_kernel(*of, copy, grid, block); });
}

zr_cuda_result cuMemcpyAsync(zr_cuda_address to, zr_cuda_address from, size_t bytes,
                             zr_cuda_stream stream)
{
    if (zr_cuda_result r = begin("cuMemcpyAsync"))
        return r;
    void *target = reach(to, bytes, true);
    const void *source = reach(from, bytes, true);
    if (!target || !source)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    return submit(stream, [=] {
        memmove(target, source, bytes);
        return true;
    });
}

zr_cuda_result cuMemsetD8Async(zr_cuda_address to, unsigned char value, size_t bytes,
                               zr_cuda_stream stream)
{
    if (zr_cuda_result r = begin("cuMemsetD8Async"))
        return r;
    void *target = reach(to, bytes, false);
    if (!target)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    return submit(stream, [=] {
        memset(target, value, bytes);
        return true;
    });
}

zr_cuda_result cuStreamCreate(zr_cuda_stream *stream, unsigned flags)
{
    if (zr_cuda_result r = begin("cuStreamCreate"))
        return r;
    if (flags > 1)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    keep(*stream = new CUstream_st);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuStreamDestroy_v2(zr_cuda_stream stream)
{
    zr_cuda_result before = begin("cuStreamDestroy_v2");
    if (CUstream_st *of = find(stream); of && of->capture) {
        misuse("a stream was destroyed whose capture has not ended");
        destroy(of->capture);
    }
    if (CUstream_st *of = find(stream); of && !of->waiting.empty() && !broken())
        misuse("a stream was destroyed that still waits");
    zr_cuda_result r = destroy(stream) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_INVALID_HANDLE;
    return before ? before : r;
}

zr_cuda_result cuStreamSynchronize(zr_cuda_stream stream)
{
    if (zr_cuda_result r = begin("cuStreamSynchronize"))
        return r;
    CUstream_st *of = find_stream(stream);
    if (!of || of->capture)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    return wait_until([=] { return of->waiting.empty(); });
}

zr_cuda_result cuStreamWaitEvent(zr_cuda_stream stream, zr_cuda_event event, unsigned flags)
{
    if (zr_cuda_result r = begin("cuStreamWaitEvent"))
        return r;
    if (!find(event) || flags)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    return submit(stream, [=] { return !find(event) || !event->recorded || event->done; });
}

zr_cuda_result cuStreamWaitValue64_v2(zr_cuda_stream stream, zr_cuda_address at, uint64_t value,
                                      unsigned flags)
{
    if (zr_cuda_result r = begin("cuStreamWaitValue64_v2"))
        return r;
    uint64_t *word = (uint64_t *)reach(at, sizeof *word, false);
    if (!word || at % sizeof *word || flags != ZR_CU_STREAM_WAIT_VALUE_GEQ)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    return submit(stream,
                  [=] { return (int64_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0; });
}

zr_cuda_result cuStreamWriteValue64_v2(zr_cuda_stream stream, zr_cuda_address at, uint64_t value,
                                       unsigned flags)
{
    if (zr_cuda_result r = begin("cuStreamWriteValue64_v2"))
        return r;
    uint64_t *word = (uint64_t *)reach(at, sizeof *word, false);
    if (!word || at % sizeof *word || flags != ZR_CU_STREAM_WRITE_VALUE_DEFAULT)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    return submit(stream, [=] {
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
        return true;
    });
}

zr_cuda_result cuEventCreate(zr_cuda_event *event, unsigned flags)
{
    if (zr_cuda_result r = begin("cuEventCreate"))
        return r;
    if (flags > 7)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    keep(*event = new CUevent_st);
    (*event)->timed = !(flags & ZR_CU_EVENT_DISABLE_TIMING);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuEventDestroy_v2(zr_cuda_event event)
{
    zr_cuda_result before = begin("cuEventDestroy_v2");
    zr_cuda_result r = destroy(event) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_INVALID_HANDLE;
    return before ? before : r;
}

zr_cuda_result cuEventRecord(zr_cuda_event event, zr_cuda_stream stream)
{
    if (zr_cuda_result r = begin("cuEventRecord"))
        return r;
    if (!find(event))
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    event->recorded = true;
    event->done = false;
    return submit(stream, [=] {
        if (find(event)) {
            event->done = true;
            event->at = steady_clock::now();
        }
        return true;
    });
}

zr_cuda_result cuEventQuery(zr_cuda_event event)
{
    if (zr_cuda_result r = begin("cuEventQuery"))
        return r;
    if (!find(event))
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    advance_all();
    return !event->recorded || event->done ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_NOT_READY;
}

zr_cuda_result cuEventSynchronize(zr_cuda_event event)
{
    if (zr_cuda_result r = begin("cuEventSynchronize"))
        return r;
    if (!find(event))
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    return wait_until([=] { return !event->recorded || event->done; });
}

zr_cuda_result cuEventElapsedTime_v2(float *milliseconds, zr_cuda_event from, zr_cuda_event to)
{
    if (zr_cuda_result r = begin("cuEventElapsedTime_v2"))
        return r;
    if (!find(from) || !find(to) || !from->timed || !to->timed || !from->recorded || !to->recorded)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    if (!from->done || !to->done)
        return ZR_CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuStreamBeginCapture_v2(zr_cuda_stream stream, unsigned mode)
{
    if (zr_cuda_result r = begin("cuStreamBeginCapture_v2"))
        return r;
    if (!find(stream) || stream->capture || mode > 2)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    stream->capture = new CUgraph_st;
    keep(stream->capture);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuStreamEndCapture(zr_cuda_stream stream, zr_cuda_graph *graph)
{
    zr_cuda_result before = begin("cuStreamEndCapture");
    if (!find(stream) || !stream->capture)
        return before ? before : (zr_cuda_result)ZR_CUDA_ERROR_INVALID_VALUE;
    *graph = stream->capture;
    stream->capture = nullptr;
    if (before) { // the capture has ended all the same, without a graph
        destroy(*graph);
        *graph = nullptr;
    }
    return before;
}

zr_cuda_result cuGraphInstantiateWithFlags(zr_cuda_graph_exec *exec, zr_cuda_graph graph,
                                           unsigned long long flags)
{
    if (zr_cuda_result r = begin("cuGraphInstantiateWithFlags"))
        return r;
    if (!find(graph) || flags)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    keep(*exec = new CUgraphExec_st);
    (*exec)->operations = graph->operations;
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuGraphLaunch(zr_cuda_graph_exec exec, zr_cuda_stream stream)
{
    if (zr_cuda_result r = begin("cuGraphLaunch"))
        return r;
    if (!find(exec))
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    for (const emulated_operation &operation : exec->operations)
        if (zr_cuda_result r = submit(stream, operation))
            return r;
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuGraphExecDestroy(zr_cuda_graph_exec exec)
{
    zr_cuda_result before = begin("cuGraphExecDestroy");
    zr_cuda_result r = destroy(exec) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_INVALID_HANDLE;
    return before ? before : r;
}

zr_cuda_result cuGraphDestroy(zr_cuda_graph graph)
{
    zr_cuda_result before = begin("cuGraphDestroy");
    zr_cuda_result r = destroy(graph) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_INVALID_HANDLE;
    return before ? before : r;
}
