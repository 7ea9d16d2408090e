// Streams, events and graphs of the emulated driver, and what is submitted to them.
#include "emulated_schedule.h"

#include <climits>

using namespace emulated;

namespace {

// The stream without a handle is one of the device's own.
CUstream_st *find_stream(zr_cuda_stream stream)
{
    static CUstream_st *const legacy = new CUstream_st[emulated_most_devices];
    const CUctx_st *context = current_context();
    if (stream || !context)
        return find(stream);
    if (!legacy[context->device].work)
        legacy[context->device].work = new_track(context->device);
    return &legacy[context->device];
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
    working &now = now_working();
    now.kernel = of.name;
    std::string why = of.run(arguments.data(), grid, block, &lost);
    now.kernel = nullptr;
    if (lost) {
        fprintf(stderr, "emulated driver: %s got %p, which is no memory of the device%s%s\n",
                of.name, lost, why.empty() ? "" : ": ", why.c_str());
        break_process(ZR_CUDA_ERROR_ILLEGAL_ADDRESS);
    } else if (!why.empty()) {
        fprintf(stderr, "emulated driver: %s: %s\n", of.name, why.c_str());
        break_process(ZR_CUDA_ERROR_LAUNCH_FAILED);
    }
    return true;
}

bool is_endless() // of the launch that is being submitted
{
    static long launches;
    return ++launches == setting("EMULATED_STUCK", 0);
}

// Memory that was there when the work was submitted is there still when it is done.
void *reach_late(zr_cuda_address at, size_t bytes, bool host, const char *name)
{
    void *real = reach(at, bytes, host);
    if (!real)
        lose(name);
    return real;
}

uint64_t *reach_word(zr_cuda_address at)
{
    return at % sizeof(uint64_t) ? nullptr : (uint64_t *)reach(at, sizeof(uint64_t), false);
}

} // namespace

void emulated::lose(const char *name)
{
    fprintf(stderr, "emulated driver: memory of %s was given back before that ran\n", name);
    break_process(ZR_CUDA_ERROR_ILLEGAL_ADDRESS);
}

zr_cuda_result emulated::submit(zr_cuda_stream stream, emulated_operation operation)
{
    std::lock_guard<std::recursive_mutex> alone(driver_lock());
    CUstream_st *of = find_stream(stream);
    if (!of)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    auto work = std::make_shared<const emulated_operation>(std::move(operation));
    if (of->capture) {
        of->capture->operations.push_back(std::move(work));
        return ZR_CUDA_SUCCESS;
    }
    give(of->work, {std::move(work), nullptr, nullptr});
    return broken();
}

zr_cuda_result cuLaunchKernel(zr_cuda_function function, unsigned blocks_x, unsigned blocks_y,
                              unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                              unsigned threads_z, unsigned shared_bytes, zr_cuda_stream stream,
                              void **arguments, void **extra)
{
    call here("cuLaunchKernel");
    if (here.result)
        return here.result;
    const CUfunc_st *found = find_function(function);
    const CUstream_st *on = find_stream(stream);
    if (!found || !on || on->work->device != found->device)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    dim3 grid(blocks_x, blocks_y, blocks_z), block(threads_x, threads_y, threads_z);
    if (!is_possible(grid, block, shared_bytes) || !arguments || !arguments[0] || extra)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    const kernel &of = *found->of;
    if (is_endless())
        return submit(stream, [] {
            get_stuck();
            return false;
        });
    std::string copy((const char *)arguments[0], of.bytes);
    return submit(stream, [&of, grid, block, copy = std::move(copy)] {
        return run_kernel(of, copy, grid, block);
    });
}

zr_cuda_result cuMemcpyAsync(zr_cuda_address to, zr_cuda_address from, size_t bytes,
                             zr_cuda_stream stream)
{
    call here("cuMemcpyAsync");
    if (here.result)
        return here.result;
    if (!reach(to, bytes, true) || !reach(from, bytes, true))
        return ZR_CUDA_ERROR_INVALID_VALUE;
    return submit(stream, [=] {
        void *target = reach_late(to, bytes, true, "cuMemcpyAsync");
        const void *source = reach_late(from, bytes, true, "cuMemcpyAsync");
        if (target && source)
            memmove(target, source, bytes);
        return true;
    });
}

zr_cuda_result cuMemsetD8Async(zr_cuda_address to, unsigned char value, size_t bytes,
                               zr_cuda_stream stream)
{
    call here("cuMemsetD8Async");
    if (here.result)
        return here.result;
    if (!reach(to, bytes, false))
        return ZR_CUDA_ERROR_INVALID_VALUE;
    return submit(stream, [=] {
        if (void *target = reach_late(to, bytes, false, "cuMemsetD8Async"))
            memset(target, value, bytes);
        return true;
    });
}

zr_cuda_result cuStreamCreate(zr_cuda_stream *stream, unsigned flags)
{
    call here("cuStreamCreate");
    if (here.result)
        return here.result;
    if (flags > 1)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    keep(*stream = new CUstream_st);
    (*stream)->work = new_track(current_context()->device);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuStreamDestroy_v2(zr_cuda_stream stream)
{
    const call here("cuStreamDestroy_v2");
    if (CUstream_st *of = find(stream); of && of->capture) {
        misuse("a stream was destroyed whose capture has not ended");
        destroy(of->capture);
    }
    if (CUstream_st *of = find(stream); of && !end_track(of->work))
        misuse("a stream was destroyed that still waits");
    zr_cuda_result r = destroy(stream) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_INVALID_HANDLE;
    return here.result ? here.result : r;
}

zr_cuda_result cuStreamSynchronize(zr_cuda_stream stream)
{
    call here("cuStreamSynchronize");
    if (here.result)
        return here.result;
    CUstream_st *of = find_stream(stream);
    if (!of || of->capture)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    return wait_for(here, {of->work, of->work->given});
}

zr_cuda_result cuStreamWaitEvent(zr_cuda_stream stream, zr_cuda_event event, unsigned flags)
{
    call here("cuStreamWaitEvent");
    if (here.result)
        return here.result;
    CUstream_st *of = find_stream(stream);
    if (!find(event) || !of || flags)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    if (of->capture)
        return ZR_CUDA_ERROR_INVALID_VALUE; // a graph of several streams is not emulated
    if (event->last)
        give(of->work, {nullptr, event->last, nullptr});
    return broken();
}

zr_cuda_result cuStreamWaitValue64_v2(zr_cuda_stream stream, zr_cuda_address at, uint64_t value,
                                      unsigned flags)
{
    call here("cuStreamWaitValue64_v2");
    if (here.result)
        return here.result;
    if (!reach_word(at) || flags != ZR_CU_STREAM_WAIT_VALUE_GEQ)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    return submit(stream, [=] {
        const uint64_t *word = reach_word(at);
        return word && (int64_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0;
    });
}

zr_cuda_result cuStreamWriteValue64_v2(zr_cuda_stream stream, zr_cuda_address at, uint64_t value,
                                       unsigned flags)
{
    call here("cuStreamWriteValue64_v2");
    if (here.result)
        return here.result;
    if (!reach_word(at) || flags != ZR_CU_STREAM_WRITE_VALUE_DEFAULT)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    return submit(stream, [=] {
        if (void *word = reach_late(at, sizeof value, false, "cuStreamWriteValue64_v2"))
            __atomic_store_n((uint64_t *)word, value, __ATOMIC_RELEASE);
        return true;
    });
}

zr_cuda_result cuEventCreate(zr_cuda_event *event, unsigned flags)
{
    call here("cuEventCreate");
    if (here.result)
        return here.result;
    if (flags > 7)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    keep(*event = new CUevent_st);
    (*event)->device = current_context()->device;
    (*event)->timed = !(flags & ZR_CU_EVENT_DISABLE_TIMING);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuEventDestroy_v2(zr_cuda_event event)
{
    const call here("cuEventDestroy_v2");
    zr_cuda_result r = destroy(event) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_INVALID_HANDLE;
    return here.result ? here.result : r;
}

zr_cuda_result cuEventRecord(zr_cuda_event event, zr_cuda_stream stream)
{
    call here("cuEventRecord");
    if (here.result)
        return here.result;
    CUstream_st *of = find_stream(stream);
    if (!find(event) || !of || of->work->device != event->device)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    if (of->capture)
        return ZR_CUDA_ERROR_INVALID_VALUE; // nor are events of a graph
    event->last = std::make_shared<mark>();
    event->last->of = of->work;
    event->last->position = of->work->given + 1;
    give(of->work, {nullptr, nullptr, event->last});
    return broken();
}

zr_cuda_result cuEventQuery(zr_cuda_event event)
{
    call here("cuEventQuery");
    if (here.result)
        return here.result;
    if (!find(event))
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    const bool is_done = !event->last || ask(*event->last);
    if (broken())
        return broken();
    return is_done ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_NOT_READY;
}

zr_cuda_result cuEventSynchronize(zr_cuda_event event)
{
    call here("cuEventSynchronize");
    if (here.result)
        return here.result;
    if (!find(event))
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    const std::shared_ptr<mark> last = event->last;
    return last ? wait_for(here, *last) : (zr_cuda_result)ZR_CUDA_SUCCESS;
}

zr_cuda_result cuEventElapsedTime_v2(float *milliseconds, zr_cuda_event from, zr_cuda_event to)
{
    call here("cuEventElapsedTime_v2");
    if (here.result)
        return here.result;
    if (!find(from) || !find(to) || !from->timed || !to->timed || !from->last || !to->last)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    if (!is_passed(*from->last) || !is_passed(*to->last))
        return ZR_CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(to->last->at - from->last->at).count();
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuStreamBeginCapture_v2(zr_cuda_stream stream, unsigned mode)
{
    call here("cuStreamBeginCapture_v2");
    if (here.result)
        return here.result;
    if (!find(stream) || stream->capture || mode > 2)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    stream->capture = new CUgraph_st;
    keep(stream->capture);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuStreamEndCapture(zr_cuda_stream stream, zr_cuda_graph *graph)
{
    const call here("cuStreamEndCapture");
    if (!find(stream) || !stream->capture)
        return here.result ? here.result : (zr_cuda_result)ZR_CUDA_ERROR_INVALID_VALUE;
    *graph = stream->capture;
    stream->capture = nullptr;
    if (here.result) { // the capture has ended all the same, without a graph
        destroy(*graph);
        *graph = nullptr;
    }
    return here.result;
}

zr_cuda_result cuGraphInstantiateWithFlags(zr_cuda_graph_exec *exec, zr_cuda_graph graph,
                                           unsigned long long flags)
{
    call here("cuGraphInstantiateWithFlags");
    if (here.result)
        return here.result;
    if (!find(graph) || flags)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    keep(*exec = new CUgraphExec_st);
    (*exec)->operations = graph->operations;
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuGraphLaunch(zr_cuda_graph_exec exec, zr_cuda_stream stream)
{
    call here("cuGraphLaunch");
    if (here.result)
        return here.result;
    if (!find(exec))
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    CUstream_st *of = find_stream(stream);
    if (!of || of->capture)
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    for (const auto &operation : exec->operations)
        give(of->work, {operation, nullptr, nullptr});
    return broken();
}

zr_cuda_result cuGraphExecDestroy(zr_cuda_graph_exec exec)
{
    const call here("cuGraphExecDestroy");
    zr_cuda_result r = destroy(exec) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_INVALID_HANDLE;
    return here.result ? here.result : r;
}

zr_cuda_result cuGraphDestroy(zr_cuda_graph graph)
{
    const call here("cuGraphDestroy");
    zr_cuda_result r = destroy(graph) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_INVALID_HANDLE;
    return here.result ? here.result : r;
}
