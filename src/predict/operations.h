// What the functions of a model's units ask of the backend: each operation's bytes and FLOPs, as
// they are recorded in a run (base/recorder.h). They are found without computing: the units are
// called with a backend that does nothing.
#ifndef ZR_PREDICT_OPERATIONS_H
#define ZR_PREDICT_OPERATIONS_H

#include "base/recorder.h"
#include "plan/plan.h"
#include "predict/harness.h"

typedef struct zr_operation { // one operation
    zr_activity what;
    int64_t bytes, flops;
    int calls; // how often a call of the unit makes it
} zr_operation;

typedef struct zr_operation_list {
    const zr_operation *at; // (count) equal ones are one
    int count;
} zr_operation_list;

enum { ZR_OPERATION_CALLS = 6 }; // zr_call

// Returns the phase to which a call belongs: forward, backward or weight.
zr_activity zr_call_phase(zr_call call);

// The operations of one unit's calls, by zr_call; empty for a call that the plan does not make.
typedef struct zr_unit_operations {
    zr_operation_list calls[ZR_OPERATION_CALLS];
} zr_unit_operations;

typedef struct zr_plan_operations { // of all units of a plan
    int unit_count;
    zr_unit_operations *units; // (unit_count)
    zr_operation *all;
} zr_plan_operations;

// Finds the work of every call that the plan's program makes. backend: whose scratch the units
// reserve, as zr_queue_open takes it. Address buffer alone is used, so the model may be larger than
// memory. The caller frees *out with zr_plan_operations_free, also after an error.
// ZERO_ERR_UNSUPPORTED: the units are a program's own, and may compute anything; a unit's own
// error.
zero_status zr_plan_operations_find(const zr_plan *plan, const char *backend,
                                    zr_plan_operations *out, zero_error *error);
// Finds the same for a step of a generation, as forwards of the units.
zero_status zr_plan_operations_decode(const zr_plan *plan, const char *backend,
                                      const zr_harness_decode_question *decode,
                                      zr_plan_operations *out, zero_error *error);
// Takes the products that units list (zero_unit_sizes), a third for each call, because a program's
// own units may not be called before a run. Freed in the same way.
zero_status zr_plan_operations_from_products(const zr_plan *plan, zr_plan_operations *out,
                                             zero_error *error);
void zr_plan_operations_free(zr_plan_operations *operations);

#endif
