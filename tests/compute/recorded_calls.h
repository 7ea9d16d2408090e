// Every call of a backend with what a recording notes of it. The rows are the slots of the
// backend's tables, so that a slot that no case calls fails by name (backend_tables.h).
#ifndef TESTS_COMPUTE_RECORDED_CALLS_H
#define TESTS_COMPUTE_RECORDED_CALLS_H

#include "backend_tables.h"
#include "base/recorder.h"

enum {
    ROWS = 8,
    WIDTH = 64,
    HEADS = 2,
    ELEMS = ROWS * WIDTH,
    FLOATS = 8 * ELEMS,
    PARTS = 2,
    SCRATCH_BYTES = 1 << 20
};

typedef struct operands { // every call reads and writes these; 64-byte aligned
    size_t asked;         // bytes of scratch, of a case that asks
    _Alignas(64) float a[FLOATS], b[FLOATS], c[FLOATS], d[FLOATS], e[FLOATS];
    _Alignas(64) double sums[8];
    _Alignas(64) int32_t ids[64];
    _Alignas(64) char scratch[SCRATCH_BYTES]; // what follows is not compared
    slot_called called;
} operands;

// Returns operands of fixed values; free them with free.
operands *operands_new(void);

typedef void call(zr_queue *queue, operands *o);

typedef struct expected {
    const char *name;
    call *run;
    zr_activity what; // ZR_ACTIVITY_COUNT: no record
    int64_t bytes, flops;
} expected;

extern const expected recorded_calls[];
extern const int recorded_call_count;
// Checks that the recorder, whose unit is 9, has the record of the call, and no other one.
void check_record(const expected *want, const zr_recorder *recorder);

#endif
