// Time spans that are computed from a step's records: which records are inside a phase, and when
// each unit had its turn.
#ifndef ZR_MONITOR_SPANS_H
#define ZR_MONITOR_SPANS_H

#include "base/recorder.h"

// Returns the first of the records that are inside record i, or i if there are none. They come
// directly before it.
int64_t zr_records_inside(const zr_recorder *recorder, int64_t first, int64_t i);

// Returns the first of the records inside phase i, as zr_records_inside does; *begin becomes when
// the phase began. An action of a pipeline begins after the waits that come first in it, for what
// other ranks send, because until then its rank has nothing to do.
int64_t zr_records_at_work(const zr_recorder *recorder, int64_t first, int64_t i, int64_t *begin);

typedef struct zr_unit_span { // one turn of a unit: its consecutive records in a phase
    zr_activity phase;
    int32_t unit;
    int64_t begin, end; // nanoseconds
    int64_t flops;
} zr_unit_span;

// Calls `take` for every turn in the phases among records [first, count), in the order of time.
typedef void (*zr_unit_span_take)(void *user, const zr_unit_span *span);
void zr_for_unit_spans(const zr_recorder *recorder, int64_t first, zr_unit_span_take take,
                       void *user);

#endif
