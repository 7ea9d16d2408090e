// Records with chosen times, for the tests of what is made from records.
#ifndef MONITOR_MADE_RECORDS_H
#define MONITOR_MADE_RECORDS_H

#include "base/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static inline zr_recorder *records_new(void)
{
    zr_recorder *recorder;
    assert_int_equal(zr_recorder_create(64, &recorder, NULL), ZERO_OK);
    return recorder;
}

// Appends a record. Call it in the order in which records end, as a run writes them. Times are in
// milliseconds; unit and slot -1: none.
static inline zr_record *records_put(zr_recorder *recorder, zr_activity what, int unit,
                                     double begin, double end)
{
    assert_true(recorder->count < recorder->capacity);
    zr_record *record = &recorder->records[recorder->count++];
    *record = (zr_record){.begin = (int64_t)(begin * 1e6),
                          .end = (int64_t)(end * 1e6),
                          .unit = unit,
                          .slot = -1,
                          .what = what};
    return record;
}

// Makes one step of a model of three units, the last one fused, with an evaluation before it that
// belongs to no phase:
//
//   forward  100..110   unit 0: embedding 100..101
//                       unit 1: product 101..105
//                       unit 2: product 105..109
//   backward 112..124   unit 1: product 112..118, reduce-scatter 118..121 (of it 1 ms waited)
//                       unit 0: embedding 121..123
//   step     124..130   gradient norm 124..125, scalars 125..126, optimizer 126..129,
//                       all-gather 129..129.5
static inline zr_recorder *records_step(void)
{
    zr_recorder *r = records_new();
    records_put(r, ZR_ACTIVITY_product, 1, 50, 90)->flops = 1000;
    records_put(r, ZR_ACTIVITY_embedding, 0, 100, 101)->bytes = 4096;
    records_put(r, ZR_ACTIVITY_product, 1, 101, 105)->flops = 40000000;
    records_put(r, ZR_ACTIVITY_product, 2, 105, 109)->flops = 60000000;
    records_put(r, ZR_ACTIVITY_forward, -1, 100, 110);
    records_put(r, ZR_ACTIVITY_product, 1, 112, 118)->flops = 80000000;
    records_put(r, ZR_ACTIVITY_wait, 1, 119, 120);
    zr_record *reduce = records_put(r, ZR_ACTIVITY_reduce_scatter, 1, 118, 121);
    reduce->bytes = 1048576;
    reduce->slot = 1;
    records_put(r, ZR_ACTIVITY_embedding, 0, 121, 123);
    records_put(r, ZR_ACTIVITY_backward, -1, 112, 124);
    records_put(r, ZR_ACTIVITY_square_sum, -1, 124, 125);
    records_put(r, ZR_ACTIVITY_all_reduce, -1, 125, 126)->bytes = 16;
    records_put(r, ZR_ACTIVITY_optimizer, -1, 126, 129);
    records_put(r, ZR_ACTIVITY_all_gather, -1, 129, 129.5)->bytes = 2048;
    records_put(r, ZR_ACTIVITY_step, -1, 124, 130);
    return r;
}

#endif
