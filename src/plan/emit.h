// Between the emitters: each writes the instructions of one concern, in the order that the order of
// passes (order_accumulate.c) calls them in. They decide nothing about places: those are found
// before (gathers.c, reduction.c, activations.c).
#ifndef ZR_PLAN_EMIT_H
#define ZR_PLAN_EMIT_H

#include "plan/full_plan.h"

typedef struct zr_occupant { // what was last begun in bytes [place.first, end) of a space
    zr_place place;
    int64_t end;
    zr_slot slot;
} zr_occupant;

typedef struct zr_occupants {
    zr_occupant *at; // (count)
    int count, capacity;
} zr_occupants;

typedef struct zr_emitter zr_emitter;

// What differs between stages. No other file asks which stage it is.
typedef struct zr_stage_emitter {
    // Before the first read of a visit's pieces. visits: of this pass.
    void (*acquire)(zr_emitter *e, int visit, int visits);
    // Before a piece's contributions are summed. NULL: nothing.
    void (*seal)(zr_emitter *e, int piece);
    // After the last micro-batch: what the update reads becomes complete. NULL: it is already.
    void (*boundary)(zr_emitter *e);
    // Before the own part of a piece is written. NULL: nobody else reads it.
    void (*before_update)(zr_emitter *e, int piece);
    void (*publish)(zr_emitter *e); // NULL: others look at nothing of this rank's
} zr_stage_emitter;

extern const zr_stage_emitter zr_emit_stage0, zr_emit_stage12, zr_emit_mapped, zr_emit_gathered;
const zr_stage_emitter *zr_stage_of(const zr_plan *plan); // emit.c: by its settings

// What differs between schedules: in which order the passes that compute visit the units. A turn is
// what a unit does from one visit on (plan/visits.h); micro_batch also sets the seam of its pass.
typedef struct zr_order_emitter {
    void (*micro_batch)(zr_emitter *e);
    void (*evaluation)(zr_emitter *e);
} zr_order_emitter;

extern const zr_order_emitter zr_emit_accumulate;

struct zr_emitter {
    const zr_plan *plan;
    const zr_stage_emitter *stage;
    const zr_order_emitter *order;
    zr_program *program;
    zr_pass *pass; // being written
    zr_occupants occupants;
    bool trains;         // gradients are made in this pass
    int unit;            // on whose behalf instructions are written
    int fetched;         // last visit of this pass whose parameters have begun to come
    int returned;        // last visit whose parked contributions have begun to come back
    int sealed, reduced; // first of plan->sealed that is not sealed, not waited for
    int segment;         // whose backward has begun, -1: none
    zero_status status;  // sticky: ZERO_ERR_MEMORY
    zero_error *error;
};

// emit_stage12.c: what the stages share whose ranks hold replicas.
void zr_emit_bind_whole(zr_emitter *e, int visit, int visits);
void zr_emit_gather_replicas(zr_emitter *e, zr_when trained, zr_when others);

// emit.c: every pass of the plan's program, anew. ZERO_ERR_MEMORY.
zero_status zr_emit_program(zr_plan *plan, const zr_stage_emitter *stage,
                            const zr_order_emitter *order, zero_error *error);
// The next instruction of the pass; its unit is the emitter's.
void zr_emit(zr_emitter *e, const zr_instruction *next);
void zr_emit_bind(zr_emitter *e, int piece, zr_place place);
void zr_emit_unbind(zr_emitter *e, int piece, zr_space space);
void zr_emit_await(zr_emitter *e, zr_when when, zr_slot_kind kind, int index);
// Waits until all ranks have drained what the piece last had in the window of this space.
void zr_emit_await_readers(zr_emitter *e, zr_when when, zr_space window, int piece);
// The unit goes on after the last instruction, because the streamed piece has come or gone.
void zr_emit_mark(zr_emitter *e, zr_mark mark, int piece);
// Waits for what lay in these bytes last: until readers have drained it, or its transfer has ended.
void zr_emit_await_place(zr_emitter *e, zr_when when, zr_place place, int64_t bytes);
// From here on `slot` is what was begun there; where it was before is forgotten.
void zr_emit_occupy(zr_emitter *e, zr_place place, int64_t bytes, zr_slot slot);

// emit_gradients.c, around a visit of backward.
void zr_emit_gradients_open(zr_emitter *e, int visit);
void zr_emit_gradients_close(zr_emitter *e, int visit);
// Of what is sealed, those reductions end now that have to by the end of that visit, oldest first.
void zr_emit_reductions_end(zr_emitter *e, int visit);
void zr_emit_norm(zr_emitter *e); // boundary: the squares of what lies in memory

// emit_offload.c
// parameters, up to that visit, as far as not begun
void zr_emit_fetches(zr_emitter *e, int last_visit);
void zr_emit_fetch_sums(zr_emitter *e, int visit);
void zr_emit_take_staged(zr_emitter *e, int piece); // before its sum is put into the host's buffer
void zr_emit_store_sum(zr_emitter *e, int piece);
void zr_emit_parked_return(zr_emitter *e, int visit);
void zr_emit_parked_leave(zr_emitter *e, int visit);
void zr_emit_await_transfers(zr_emitter *e); // boundary: sums are where they are kept

// emit_activation_checkpoints.c: activations that leave the device between forward and backward.
void zr_emit_activation_checkpoint_before_forward(zr_emitter *e, int unit);
void zr_emit_activation_checkpoint_after_forward(zr_emitter *e, int unit);
void zr_emit_activation_checkpoint_before_backward(zr_emitter *e, int unit);

// emit_update.c
void zr_emit_boundary(zr_emitter *e);
void zr_emit_update(zr_emitter *e);
void zr_emit_publish(zr_emitter *e);

// order_accumulate.c, for every order: the turn that begins with a visit; forward: of the first
// half of a micro-batch.
void zr_emit_turn(zr_emitter *e, int visit, bool forward);
void zr_emit_evaluation(zr_emitter *e); // the forward turns, in order

#endif
