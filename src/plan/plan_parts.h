// The parts of a plan, which zr_plan_create makes in this order. For the files of plan/ alone.
#ifndef ZR_PLAN_PLAN_PARTS_H
#define ZR_PLAN_PLAN_PARTS_H

#include "base/alloc.h"
#include "plan/plan.h"

// Limits of a model's elements and of activations' bytes. What exceeds them is refused, so that no
// sum overflows.
#define ZR_MOST_ELEMS ((int64_t)1 << 54)
#define ZR_MOST_BYTES ((int64_t)1 << 60)
#define ZR_MOST_SHARD_SLICES (1 << 24)
#define ZR_IO_PAGE 4096                      // alignment of what travels to NVMe
#define ZR_MOST_POSITIONS ((int64_t)1 << 32) // of a micro-batch

// partition.c: flat parameters, tensors, shards, offsets.
zero_status zr_plan_flat_params(zr_plan *plan, zero_error *error);
// tensor_numbers.c: numbers of tensors, over the whole model. ZERO_ERR_USAGE: the model is no part
// of its whole.
zero_status zr_plan_tensor_numbers(zr_plan *plan, zero_error *error);
// factors.c: what is kept of tensors where settings.factored. ZERO_ERR_UNSUPPORTED: a tensor has
// more than two dimensions.
zero_status zr_plan_factors(zr_plan *plan, zero_error *error);
// partition.c: sizes, boundaries, which units read and contribute.
zero_status zr_plan_units(zr_plan *plan, zero_error *error);
// partition.c: gets a unit's sizes for the boundary that enters it, and checks them. precision: its
// name, for messages. *total: bytes that the units before it keep, to which this one's are added.
// backend: a far device's, or NULL. ZERO_ERR_USAGE, ZERO_ERR_UNSUPPORTED, or the unit's own error.
zero_status zr_unit_find_sizes(const zero_unit *unit, const struct zr_backend *backend,
                               const zero_shape *shape, const char *precision,
                               const zero_tensors *in, int64_t *total, zero_unit_sizes *out,
                               zero_error *error);
// exchanges.c: checks a unit's exchanges with other tensor ranks, and makes room for them.
zero_status zr_plan_exchanges(zr_plan *plan, const zero_unit *unit, const zero_unit_sizes *sizes,
                              zero_error *error);
// activations.c: where activations lie, and the segments that are computed again.
void zr_plan_activations(zr_plan *plan);
int64_t zr_boundary_bytes(const zero_tensors *tensors);
// Says whether a segment is computed again, because what its units save is gone when its backward
// begins.
bool zr_plan_computes_again(const zr_plan *plan, int segment);
// emit_accumulate.c: the order in which flat parameters are acquired.
zero_status zr_plan_visits(zr_plan *plan, zero_error *error);
// gathers.c: what visits gather, and when; keep_all: every flat parameter stays in the gather
// window.
void zr_plan_gathers(zr_plan *plan, bool keep_all);
// gathers.c: returns the last visit, of a pass that ends at `end`, whose parameters may be on their
// way while visit v is the next to be gathered. Those of v itself always may.
int zr_last_fetched(const zr_plan *plan, int v, int end);
// reduction.c: when flat parameters are sealed and reduced, and where what stays for a step lies.
zero_status zr_plan_reductions(zr_plan *plan, zero_error *error);
// reduction.c: says whether a visit makes the last contribution to flat parameter p; for one that
// does not stream, the unit's own visit does.
bool zr_visit_seals(const zr_plan *plan, int visit, int p);
// groups.c: the portions of the update, and what they move.
zero_status zr_plan_groups(zr_plan *plan, zero_error *error);
// emit.c: the passes, with the places of what they hold
zero_status zr_plan_program(zr_plan *plan, zero_error *error);
// fold.c: the messages of the passes, and the bytes that they move between tiers.
void zr_plan_fold(zr_plan *plan);
// footprint.c: spaces, stores and slots (spaces.c), and their bytes by category.
void zr_plan_footprint(zr_plan *plan, const zr_machine *machine);
// fold.c: adds a SEND or a RECEIVE of `bytes` bytes.
void zr_link_fold(const zr_plan *plan, zr_code code, int link, int64_t bytes,
                  zr_traffic_plan *traffic);
// fold.c: adds to *moved what an instruction moves between tiers.
void zr_instruction_moves(const zr_plan *plan, const zr_instruction *i, zr_moved *moved);

#endif
