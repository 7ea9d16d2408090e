// A Chrome trace (chrome://tracing, ui.perfetto.dev) of what the ranks have recorded:
//
//   {"displayTimeUnit": "ms", "traceEvents": [
//   {"ph":"M","pid":0,"tid":0,"name":"process_name","args":{"name":"rank 0"}},
//   {"ph":"X","pid":0,"tid":1,"ts":12.345,"dur":6.789,"name":"product","cat":"compute",
//    "args":{"unit":"h.3","bytes":1,"flops":2}},
//   ...]}
//
// A rank is a process of the trace; its threads are phases (with the turns of units in them),
// compute, and communication. In a pipeline its name has its stage ("rank 4, pipeline stage 1"),
// and phases have their micro-batch ("forward 3", "forward 3, chunk 1"); they begin where the rank
// has no longer to wait for what comes in, so what is between them is the bubble. ts and dur are
// microseconds, exact to the nanosecond, so that a record inside another one is also inside it in
// the trace.
#ifndef ZR_MONITOR_TRACE_H
#define ZR_MONITOR_TRACE_H

#include "base/alloc.h"
#include "base/recorder.h"

typedef struct zr_trace_names {              // of one rank
    const char *const *units, *const *slots; // (unit_count), (slot_count)
    int unit_count, slot_count;
    int stage;  // of a pipeline; -1: there is none
    int chunks; // of the stage
} zr_trace_names;

bool zr_trace_is_one(const char *path); // whether that file begins like a trace
// Call begin, then rank for each rank, then end. Check out->failed. origin: the nanoseconds on that
// rank's clock that become 0 in the trace.
void zr_trace_begin(zr_buffer *out);
void zr_trace_rank(int rank, const zr_recorder *recorder, int64_t origin,
                   const zr_trace_names *names, zr_buffer *out);
void zr_trace_end(zr_buffer *out);

#endif
