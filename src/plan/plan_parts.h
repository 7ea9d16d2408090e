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
// partition.c: sizes, boundaries, which units read and contribute.
zero_status zr_plan_units(zr_plan *plan, zero_error *error);
// partition.c: gets a unit's sizes for the boundary that enters it, and checks them. precision: its
// name, for messages. *total: bytes that the units before it keep, to which this one's are added.
// ZERO_ERR_USAGE, ZERO_ERR_UNSUPPORTED, or the unit's own error.
zero_status zr_unit_find_sizes(const zero_unit *unit, const zero_shape *shape,
                               const char *precision, const zero_tensors *in, int64_t *total,
                               zero_unit_sizes *out, zero_error *error);
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
// gathers.c: where visits find their flat parameters; keep_all: every flat parameter stays in the
// gather window.
zero_status zr_plan_gathers(zr_plan *plan, bool keep_all, zero_error *error);
// reduction.c: when flat parameters are sealed and reduced, and where gradients lie.
zero_status zr_plan_reductions(zr_plan *plan, zero_error *error);
// groups.c: the portions of the update, and what they move.
zero_status zr_plan_groups(zr_plan *plan, zero_error *error);
zero_status zr_plan_program(zr_plan *plan, zero_error *error); // emit.c: the passes
// fold.c: the messages of the passes, and the bytes that they move between tiers.
void zr_plan_fold(zr_plan *plan);
// footprint.c: spaces, stores and slots (spaces.c), and their bytes by category.
void zr_plan_footprint(zr_plan *plan, const zr_machine *machine);
// fold.c: adds a SEND or a RECEIVE of `bytes` bytes.
void zr_link_fold(const zr_plan *plan, zr_code code, int link, int64_t bytes,
                  zr_traffic_plan *traffic);
// fold.c: adds to *moved what an instruction moves between tiers.
void zr_instruction_moves(const zr_plan *plan, const zr_instruction *i, zr_moved *moved);

// first_fit.c: places in a buffer that are taken and given back, first fit, while a schedule is
// played through once. The run itself plays the same schedule, so it allocates nothing.
// Bytes [first, end) of the buffer.
typedef struct zr_taken {
    int64_t first, end;
    int owner;
} zr_taken;

typedef struct zr_first_fit {
    zr_taken *taken; // (count) sorted by first
    int count, capacity;
    int64_t bytes; // that the buffer needs
} zr_first_fit;

// Makes room for `capacity` places at a time. ZERO_ERR_MEMORY. zr_first_fit_end accepts a zeroed
// one.
zero_status zr_first_fit_begin(zr_first_fit *fit, int capacity, zero_error *error);
void zr_first_fit_end(zr_first_fit *fit);
// Returns the first byte of the place.
int64_t zr_first_fit_take(zr_first_fit *fit, int owner, int64_t bytes);
void zr_first_fit_give_back(zr_first_fit *fit, int owner);

#endif
