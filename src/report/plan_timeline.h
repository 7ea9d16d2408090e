// A micro-batch of a plan as a timeline (timeline.h): zero plan --draw.
#ifndef ZR_REPORT_PLAN_TIMELINE_H
#define ZR_REPORT_PLAN_TIMELINE_H

#include "plan/plan.h"
#include "report/timeline.h"

// Both fill *t, which has a title, and return ZERO_ERR_MEMORY.
//
// For an SVG: lanes of calls, exchanges and transfers, and a panel for each buffer that holds bytes
// for a while. What is done once a step is listed below in words.
zero_status zr_plan_timeline(const zr_plan *plan, zr_timeline *t, zero_error *error);
// For letters: a lane for each flat parameter, a column for each CALL (plan_letters.c).
zero_status zr_plan_letters(const zr_plan *plan, zr_timeline *t, zero_error *error);

// Returns the instruction at which what `at` begins has ended: the AWAIT of its slot, or the pass's
// count. A JOIN ends at once.
int zr_plan_flight_end(const zr_pass *pass, int at);

// Where each instruction of a pass has its column in an SVG (plan_columns.c). Of a model whose
// drawing is wider than a page, the calls of all units but the first and last ones fold: each run
// of such calls has one narrow column.
enum { ZR_SHOWN_ENDS = 3 }; // units at each end of the model that never fold

typedef struct zr_fold { // instructions [from, to), and the units that they call
    int from, to;
    int first, last;
} zr_fold;

typedef struct zr_columns {
    int *x;         // (pass->count + 1) where each instruction begins, and where the pass ends
    zr_fold *folds; // (fold_count) in the order of time
    int fold_count;
} zr_columns;

// ZERO_ERR_MEMORY. *out is freed with zr_columns_free, also after an error.
zero_status zr_columns_of(const zr_plan *plan, const zr_pass *pass, zr_columns *out,
                          zero_error *error);
void zr_columns_free(zr_columns *columns);
// Returns the fold that has an instruction; NULL if it is in no fold.
const zr_fold *zr_fold_of(const zr_columns *columns, int at);
// Says whether what lasts from one instruction to another begins and ends in one fold.
bool zr_is_folded(const zr_columns *columns, int from, int to);

#endif
