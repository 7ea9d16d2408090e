// Where each instruction of a pass has its column in a drawing (plan_draw.c). Of a model whose
// drawing is wider than a page, the calls of all units but the first and last ones fold: each run
// of such calls has one narrow column.
#ifndef ZR_REPORT_PLAN_COLUMNS_H
#define ZR_REPORT_PLAN_COLUMNS_H

#include "plan/plan.h"

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

// Finds the columns, the first one at `left`. ZERO_ERR_MEMORY. *out is freed with zr_columns_free,
// also after an error.
zero_status zr_columns_of(const zr_plan *plan, const zr_pass *pass, int left, zr_columns *out,
                          zero_error *error);
void zr_columns_free(zr_columns *columns);
// Returns the fold that has an instruction; NULL: none does.
const zr_fold *zr_fold_of(const zr_columns *columns, int at);
// Says whether what lasts from one instruction to another begins and ends in one fold.
bool zr_is_folded(const zr_columns *columns, int from, int to);

#endif
