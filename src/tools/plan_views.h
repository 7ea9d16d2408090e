// `zero plan --program` and `--draw`: the program of a plan (plan/program.h) for a person.
#ifndef ZR_TOOLS_PLAN_VIEWS_H
#define ZR_TOOLS_PLAN_VIEWS_H

#include "base/alloc.h"
#include "plan/full_plan.h"
#include <zero/plan.h>

// model: its name, for the title. ZERO_ERR_MEMORY. `view` is none of the table.
zero_status zr_plan_show(const zr_plan *plan, zero_plan_view view, const char *model,
                         zr_buffer *out, zero_error *error);

// plan_program.c: every pass, one instruction a line.
void zr_plan_list_program(const zr_plan *plan, const char *title, zr_buffer *out);
// plan_draw.c: an SVG of a micro-batch; what is done once a step stands below it in words.
zero_status zr_plan_draw(const zr_plan *plan, const char *title, zr_buffer *out, zero_error *error);
// plan_letters.c: the same as a table of letters, a row a piece, a column a CALL.
zero_status zr_plan_draw_letters(const zr_plan *plan, const char *title, zr_buffer *out,
                                 zero_error *error);

const char *zr_plan_unit_name(const zr_plan *plan, int unit);
// The codes of a pass and how often each occurs: "12 AWAIT, 1 UPDATE"; "nothing".
void zr_pass_summary(const zr_pass *pass, zr_buffer *out);

#endif
