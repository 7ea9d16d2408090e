// Checks, when an engine is made, that the parts of a model that tensor ranks and pipeline stages
// hold make up the whole. A rank's plan knows only its own part, and nothing later would tell: a
// job with a tile too few or one too many trains to wrong weights.
#ifndef ZR_ENGINE_PARTS_CHECK_H
#define ZR_ENGINE_PARTS_CHECK_H

#include "engine/rank_grid.h"
#include "plan/plan.h"

// Checks that every element of zero_model.whole counts by one tensor rank of one pipeline stage,
// and that the ranks that share a flat parameter hold the same tiles in it. Collective over the
// tensor ranks of each data rank, and then over the job, all of whose ranks return the same; one
// message a few thousand tensors. Does nothing where the model is not split. ZERO_ERR_USAGE: the
// parts do not make up the whole; the message says what each rank has of the first such tensor.
zero_status zr_parts_check(const zr_grid *grid, const zr_plan *plan, zero_error *error);

#endif
