// What the host pays for a launch, for a wait, for two hops between streams, and what a launch
// costs inside of a graph; and whether a stream waits for a word that the host writes.
#include "probe.h"

#include "kernels.h"

#include <unistd.h>

typedef struct launch_setup {
    zr_cuda_function function;
    probe_copy_args arguments; // of 16 KiB
} launch_setup;

static bool open_setup(probe_session *session, launch_setup *out)
{
    zr_cuda_address at;
    if (!probe_function(session, "probe_copy", &out->function) ||
        !probe_hold_device(session, 32 << 10, &at))
        return false;
    PROBE_TRY(session, cuMemsetD8Async, at, 0, 32 << 10, session->stream);
    out->arguments = (probe_copy_args){
        .from = (const void *)at,
        .to = (void *)(at + (16 << 10)),
        .words = 1024,
    };
    return true;
}

static bool launch(probe_session *session, launch_setup *setup, zr_cuda_stream stream)
{
    return probe_launch(session, setup->function, 4, 1, 256, stream, &setup->arguments);
}

// Microseconds a launch that the host is busy for, and a launch from the first to the end of the
// last.
static bool time_launches(probe_session *session, launch_setup *setup, int many)
{
    for (int i = 0; i < PROBE_MIN(many, 100); i++)
        if (!launch(session, setup, session->stream))
            return false;
    PROBE_TRY(session, cuStreamSynchronize, session->stream);
    double began = probe_now();
    for (int i = 0; i < many; i++)
        if (!launch(session, setup, session->stream))
            return false;
    double submitted = probe_now();
    PROBE_TRY(session, cuStreamSynchronize, session->stream);
    probe_answer_number(session->answer, "host_us", (submitted - began) / many * 1e6);
    probe_answer_number(session->answer, "through_us", (probe_now() - began) / many * 1e6);
    return true;
}

static bool time_waits(probe_session *session, launch_setup *setup, int many)
{
    double began = probe_now();
    for (int i = 0; i < many; i++) {
        if (!launch(session, setup, session->stream))
            return false;
        PROBE_TRY(session, cuEventRecord, session->mark, session->stream);
        PROBE_TRY(session, cuEventSynchronize, session->mark);
    }
    probe_answer_number(session->answer, "launch_and_wait_us", (probe_now() - began) / many * 1e6);
    return true;
}

static bool follow(probe_session *session, zr_cuda_stream first, zr_cuda_stream then)
{
    PROBE_TRY(session, cuEventRecord, session->mark, first);
    PROBE_TRY(session, cuStreamWaitEvent, then, session->mark, 0);
    return true;
}

static bool time_hops(probe_session *session, launch_setup *setup, int many)
{
    double began = probe_now();
    for (int i = 0; i < many; i++)
        if (!follow(session, session->stream, session->other) ||
            !launch(session, setup, session->other) ||
            !follow(session, session->other, session->stream) ||
            !launch(session, setup, session->stream))
            return false;
    PROBE_TRY(session, cuStreamSynchronize, session->stream);
    probe_answer_number(session->answer, "two_hops_us", (probe_now() - began) / many * 1e6);
    return true;
}

static void release_graph(probe_session *session, const probe_held *held)
{
    probe_check(session, "cuGraphDestroy", session->cu.cuGraphDestroy(held->pointer));
}

static void release_exec(probe_session *session, const probe_held *held)
{
    probe_check(session, "cuGraphExecDestroy", session->cu.cuGraphExecDestroy(held->pointer));
}

// Ends the capture also where a launch has failed, since the stream is of no use before.
static bool capture(probe_session *session, launch_setup *setup, int many, zr_cuda_graph *graph)
{
    bool ok = true;
    PROBE_TRY(session, cuStreamBeginCapture_v2, session->stream,
              ZR_CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    for (int i = 0; i < many && ok; i++)
        ok = launch(session, setup, session->stream);
    PROBE_TRY(session, cuStreamEndCapture, session->stream, graph);
    return probe_hold(session, (probe_held){.release = release_graph, .pointer = *graph}) && ok;
}

static bool time_graph(probe_session *session, launch_setup *setup, int many)
{
    zr_cuda_graph graph;
    zr_cuda_graph_exec exec;
    if (!capture(session, setup, many, &graph))
        return false;
    PROBE_TRY(session, cuGraphInstantiateWithFlags, &exec, graph, 0);
    if (!probe_hold(session, (probe_held){.release = release_exec, .pointer = exec}))
        return false;
    double began = 0;
    for (int i = 0; i < 2; i++) { // the first does not count
        began = probe_now();
        PROBE_TRY(session, cuGraphLaunch, exec, session->stream);
        PROBE_TRY(session, cuStreamSynchronize, session->stream);
    }
    probe_answer_number(session->answer, "in_graph_us", (probe_now() - began) / many * 1e6);
    return true;
}

bool probe_launches(probe_session *session)
{
    launch_setup setup;
    const int many = (int)probe_size(session, 2000, 3), fewer = PROBE_MIN(many, 500);
    return open_setup(session, &setup) && time_launches(session, &setup, many) &&
           time_waits(session, &setup, fewer) && time_hops(session, &setup, fewer) &&
           time_graph(session, &setup, fewer);
}

// The stream waits for words[0] >= 5, then writes words[1] = 9.
static bool submit_words(probe_session *session, zr_cuda_address at)
{
    PROBE_TRY(session, cuStreamWaitValue64_v2, session->other, at, 5, ZR_CU_STREAM_WAIT_VALUE_GEQ);
    PROBE_TRY(session, cuStreamWriteValue64_v2, session->other, at + 8, 9,
              ZR_CU_STREAM_WRITE_VALUE_DEFAULT);
    return true;
}

bool probe_words(probe_session *session)
{
    void *memory;
    zr_cuda_address at;
    if (!probe_hold_pinned(session, 4096, &memory))
        return false;
    uint64_t *words = memory;
    words[0] = words[1] = 0;
    PROBE_TRY(session, cuMemHostGetDevicePointer_v2, &at, words, 0);
    bool submitted = submit_words(session, at);
    usleep(2000);
    uint64_t early = __atomic_load_n(&words[1], __ATOMIC_ACQUIRE);
    double began = probe_now();
    __atomic_store_n(&words[0], 6, __ATOMIC_RELEASE); // also after a failure: nothing may wait on
    PROBE_TRY(session, cuStreamSynchronize, session->other);
    probe_answer_number(session->answer, "us", (probe_now() - began) * 1e6);
    probe_answer_integer(session->answer, "early", (long long)early);
    probe_answer_integer(session->answer, "after", (long long)words[1]);
    if (submitted && (early != 0 || words[1] != 9))
        probe_answer_fail(session->answer, "the stream did not wait for the host's word");
    return !session->answer->failed;
}
