// What each unit of a model costs a rank: time and memory, from which a pipeline divides the units
// among its stages (plan/pipeline/stage_split.h). Pure.
//
// Times are FLOPs of the matrix products of forward and backward, 2 m n k each, so only their
// shares mean anything. Memory is an estimate from each unit alone; the plan of a pipeline stage,
// made later, is exact.
#ifndef ZR_PLAN_UNIT_COSTS_H
#define ZR_PLAN_UNIT_COSTS_H

#include "config/pipeline_spec.h"
#include "plan/plan_settings.h"
#include <zero/model.h>

typedef struct zr_unit_cost {
    const char *name, *kind; // of the unit: "h.3", "block"
    double time;             // of a micro-batch's forward and backward, in whatever is added up
    int64_t states;          // bytes that are there always: parameters, gradients, optimizer states
    int64_t version;         // bytes of its parameters: of one more version of them
    int64_t activations;     // bytes of one set, kept from forward to backward
    int64_t workspace;       // bytes while it computes; a rank holds those of its largest unit
    int64_t parameters;      // trained elements
} zr_unit_cost;

// Fills `out` (model->unit_count). model: whole, or a tensor rank's part. data_ranks: among which
// ZeRO partitions. kind: with an asynchronous schedule there is always a master, and with 2bw the
// accumulated gradients of two steps.
//   time         where activations are computed again, a third more but for the last unit. If no
//                unit lists products, each counts as one.
//   states       of the stage and tiers of the settings, without what lies on NVMe. What a unit
//                borrows counts as a tied copy of its own: parameters and gradients.
//   activations  what it saves, and its boundary; where activations are computed again, its
//                boundary if it enters a segment
//   workspace    also what a segment saves while it is computed again
// ZERO_ERR_USAGE, ZERO_ERR_UNSUPPORTED, or a unit's own error, as in planning.
zero_status zr_unit_costs(const zero_model *model, const zero_shape *shape,
                          const zr_settings *settings, zr_pipeline_kind kind, int data_ranks,
                          zr_unit_cost *out, zero_error *error);

#endif
