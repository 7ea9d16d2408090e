// `zero plan --program` and `--draw`: show the program of a plan (plan/program.h) to a person.
#ifndef ZR_REPORT_PLAN_SHOW_H
#define ZR_REPORT_PLAN_SHOW_H

#include "base/alloc.h"
#include "plan/plan.h"
#include <zero/plan.h>

// Writes one view; `view` must not be the table. `model` is the model's name, for the title.
// Returns ZERO_ERR_MEMORY.
zero_status zr_plan_show(const zr_plan *plan, zero_plan_view view, const char *model,
                         zr_buffer *out, zero_error *error);

// Lists every pass, one instruction a line (plan_program.c).
void zr_plan_list_program(const zr_plan *plan, const char *title, zr_buffer *out);

const char *zr_plan_unit_name(const zr_plan *plan, int unit);
// Says whether a view shows a pass of the plan. Each chunk of a pipeline has passes of its own, and
// some passes are of asynchronous schedules alone.
bool zr_plan_shows_pass(const zr_plan *plan, int kind);
// Writes the codes of a pass and how often each occurs: "12 AWAIT, 1 UPDATE", or "nothing".
void zr_pass_summary(const zr_pass *pass, zr_buffer *out);

#endif
