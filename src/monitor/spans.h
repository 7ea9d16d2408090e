// Time spans that follow from a step's records: which records lie inside a phase, and when each
// unit's turn was.
#ifndef ZR_MONITOR_SPANS_H
#define ZR_MONITOR_SPANS_H

#include "base/recorder.h"

// The first of the records that lie inside record i; i itself where there is none. They stand right
// before it.
int64_t zr_records_inside(const zr_recorder *recorder, int64_t first, int64_t i);

typedef struct zr_unit_span { // one turn of a unit: its records in a phase that follow one another
    zr_activity phase;
    int32_t unit;
    int64_t begin, end; // nanoseconds
    int64_t flops;
} zr_unit_span;

// Calls visit for every turn in the phases among records [first, count), in the order of time.
typedef void (*zr_unit_span_visit)(void *user, const zr_unit_span *span);
void zr_for_unit_spans(const zr_recorder *recorder, int64_t first, zr_unit_span_visit visit,
                       void *user);

#endif
