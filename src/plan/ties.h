// Ties: pieces that units of several chunks share (a table that embedding and head use). One of
// them owns the piece; each other chunk's unit has a replica of it (model/stage_cut.h): parameters
// and accumulated gradients, but no optimizer states. Owner and replicas have one partition, so
// data rank r exchanges its shard with data rank r alone, twice a step:
//
//   boundary   replica's sum ─> owner, which adds it to its own, in the order of the ties
//   publish    owner's parameters ─> replica
//
// Where both are on one rank nothing is sent.
#ifndef ZR_PLAN_TIES_H
#define ZR_PLAN_TIES_H

#include "plan/emit.h"

// Lists the ties of the model. plan/ calls it before pieces are placed, because what is tied stays
// in memory: it does not go to NVMe.
zero_status zr_plan_ties_list(zr_plan *plan, zero_error *error);
// Says whether a piece is a replica, or has one.
bool zr_piece_is_tied(const zr_plan *plan, const zr_piece *piece);
// Finds the own pieces of the ties, and fills in their links, which begin at plan->links[first].
// Returns the number of all links with them. What is on one rank, or is empty, has none.
int zr_plan_ties_link(zr_plan *plan, int first);

// Emit what the two passes do, between the exchanges of their own stage.
void zr_emit_ties_sum(zr_emitter *e);
void zr_emit_ties_publish(zr_emitter *e);

#endif
