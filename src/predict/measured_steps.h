// What a training measures of itself, from the records of a few of its steps: how long operations
// take on this machine (predict/rates.h), and which part of a step is spent on what.
//
// Unlike the sinks of an observation (monitor/sinks.h) it is on every rank, and zero train enables
// it, not the configuration. Steps that overlap are measured together. It neither allocates nor
// reads files.
#ifndef ZR_PREDICT_MEASURED_STEPS_H
#define ZR_PREDICT_MEASURED_STEPS_H

#include "plan/network.h"
#include "predict/rates.h"

typedef struct zr_measured {
    zr_rates rates; // of operations in warm steps
    // Gathers and sums overlap with the rank, so their records are not their own times.
    bool overlaps;
    // Ranks exchange with other machines, so no exchange tells how long it takes in memory. If all
    // exchanges are of one group and none overlaps, `reach` is the group's, and they tell of the
    // network (predict/rates.h); one_copy: gathers are into memory that a machine shares.
    bool across, one_copy;
    zr_reach reach;
    zr_rates links[2]; // the second: of such gathers
    // Sums over `steps`: compute, exchange, update and disk.
    double seconds[ZR_TIME_PARTS];
    double waits; // for other ranks, in those of exchange
    int64_t steps;
    bool warm; // those of `steps` came after the first ones, which warm up
    // Of operations that compute in warm steps: all they took, and what they would have taken if
    // each were the one in the middle of its size.
    double all, usual;
    int64_t calls, taken; // steps, or windows of them, that have begun; that were measured
} zr_measured;

// Returns whether the n-th call (from 1), which makes `together` steps, is one that warms up.
bool zr_measured_is_cold(int64_t call, int64_t together);
// Counts a step, or a window of `together` steps, that begins now. Returns whether its records are
// wanted: of the first few steps, some of which fp16 may skip until its loss scale is found, and
// then of ever fewer.
bool zr_measured_begin(zr_measured *measured, int64_t together);
// Takes records [first, count) of what began last, which made `steps` steps. Called for whole steps
// that no rank skipped.
void zr_measured_take(zr_measured *measured, const zr_recorder *recorder, int64_t first,
                      int64_t steps);
// Returns by which part operations took longer than those in the middle, as they do where other
// programs take the cores: 0.02 on a machine that is idle otherwise. 0: nothing was measured.
double zr_measured_interrupted(const zr_measured *measured);

// unit_spans.c: which records are inside a phase, and when each unit computed.
// Returns the first of the records that are inside record i, or i if there are none. They come
// directly before it.
int64_t zr_records_inside(const zr_recorder *recorder, int64_t first, int64_t i);

// Returns the first of the records inside phase i, as zr_records_inside does; *begin becomes when
// the phase began. An action of a pipeline begins after the waits that come first in it, for what
// other ranks send, because until then its rank has nothing to do.
int64_t zr_records_skip_first_waits(const zr_recorder *recorder, int64_t first, int64_t i,
                                    int64_t *begin);

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
