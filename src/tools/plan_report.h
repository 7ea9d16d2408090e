// `zero plan`, between the files of plan_*.c: rows of bytes, and how they are written.
#ifndef ZR_TOOLS_PLAN_REPORT_H
#define ZR_TOOLS_PLAN_REPORT_H

#include "base/alloc.h"
#include "config/elastic.h"
#include "plan/plan_settings.h"
#include <zero/memory.h>
#include <zero/plan.h>

typedef struct zr_plan_row {
    int stage, ranks;
    int64_t micro_batch;            // that `bytes` are for; 0: the formula does not know of it
    int64_t bytes[ZERO_MEM_COUNT];  // of one rank, on device and host
    int64_t tiers[ZERO_TIER_COUNT]; // the same bytes by where they are, and those on NVMe
    // micro-batch that fits into the memory given; 0: none does, -1: no memory was given
    int64_t largest;
} zr_plan_row;

int64_t zr_plan_row_total(const zr_plan_row *row); // of memory: device and host

// A heading for the categories that any row uses, then a line a row.
void zr_plan_table(const zr_plan_row *rows, int count, zr_buffer *out);
// The same rows as a JSON object; `model`, `policy` name what they are for. settings: of the
// configuration, all fields (a row has a stage of its own); NULL: there are none. elastic: who can
// share the batch; NULL: that is not asked.
void zr_plan_json(const zr_plan_row *rows, int count, const char *model, const char *policy,
                  double parameters, const zr_settings *settings, const zr_elastic *elastic,
                  zr_buffer *out);

// plan_formula.c: only a number of parameters is known.
zero_status zr_plan_by_formula(const zero_plan_options *options, zr_buffer *out, zero_error *error);
// plan_model.c: from the model's own plan.
zero_status zr_plan_by_model(const zero_plan_options *options, zr_buffer *out, zero_error *error);

#endif
