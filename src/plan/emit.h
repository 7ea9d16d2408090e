// The emitters. Each writes the instructions of one concern when emit_accumulate.c, which knows the
// order of a pass, calls it. Emitters do not choose places: gathers.c, reduction.c and
// activations.c have found them before.
#ifndef ZR_PLAN_EMIT_H
#define ZR_PLAN_EMIT_H

#include "plan/plan.h"

typedef struct zr_occupant { // what was last begun in bytes [place.first, end) of a buffer
    zr_buffer_ref place;
    int64_t end;
    zr_slot slot;
} zr_occupant;

typedef struct zr_occupants {
    zr_occupant *at; // (count)
    int count, capacity;
} zr_occupants;

typedef struct zr_emitter zr_emitter;

// What differs between stages in the program: no emitter, order or fold asks which stage it is, and
// neither does the engine (tools/check-program).
typedef struct zr_stage_emitter {
    // Runs before the first read of a visit's flat parameters. visits: number of visits in this
    // pass.
    void (*acquire)(zr_emitter *e, int visit, int visits);
    // Runs before a flat parameter's contributions are summed. NULL if there is nothing to do.
    void (*seal)(zr_emitter *e, int flat_param);
    // Runs after the last micro-batch, to complete what the update reads. NULL if it is complete.
    void (*boundary)(zr_emitter *e);
    // Runs before this rank's part of a flat parameter is written. NULL if no other rank reads it.
    void (*before_update)(zr_emitter *e, int flat_param);
    void (*publish)(zr_emitter *e); // NULL if other ranks do not read this rank's memory
} zr_stage_emitter;

extern const zr_stage_emitter zr_emit_stage0, zr_emit_stage12, zr_emit_mapped, zr_emit_gathered;
const zr_stage_emitter *zr_stage_of(const zr_plan *plan); // in emit.c: by the plan's settings

// What differs between schedules: the order in which the passes that compute visit the units. A
// turn is what a unit does from one visit on (plan/visit.h). micro_batch also sets its pass's
// end of forward.
typedef struct zr_order_emitter {
    void (*micro_batch)(zr_emitter *e);
    void (*evaluation)(zr_emitter *e);
    // With a pipeline, instead of both: writes one pass of the emitter's chunk.
    void (*chunk)(zr_emitter *e, zr_chunk_part part);
} zr_order_emitter;

extern const zr_order_emitter zr_emit_accumulate, zr_emit_pipeline;

struct zr_emitter {
    const zr_plan *plan;
    const zr_stage_emitter *stage;
    const zr_order_emitter *order;
    zr_program *program;
    zr_pass *pass; // being written
    zr_occupants occupants;
    bool trains;         // this pass makes gradients
    int chunk;           // of units, whose pass it is
    int unit;            // for which instructions are written
    int fetched;         // last visit of this pass whose parameters have begun to come
    int returned;        // last visit whose parked contributions have begun to come back
    int sealed, reduced; // index in plan->sealed of the first not sealed; of the first not awaited
    int segment;         // the segment whose backward has begun; -1: none
    zero_status status;  // sticky: ZERO_ERR_MEMORY
    zero_error *error;
};

// emit_stage12.c: shared by the stages whose ranks hold replicas.
void zr_emit_bind_whole(zr_emitter *e, int visit, int visits);
void zr_emit_gather_replicas(zr_emitter *e, zr_when trained, zr_when others);
void zr_emit_gather_replica(zr_emitter *e, zr_when when, int flat_param); // begins one
// emit_stage3.c: begins to gather a visit's flat parameters; what is here already is counted as
// acquired.
void zr_emit_gather_visit(zr_emitter *e, int visit);

// emit.c: writes every pass of the plan's program anew. ZERO_ERR_MEMORY.
zero_status zr_emit_program(zr_plan *plan, const zr_stage_emitter *stage,
                            const zr_order_emitter *order, zero_error *error);
// Adds an instruction to the pass; its unit becomes the emitter's.
void zr_emit(zr_emitter *e, const zr_instruction *next);
void zr_emit_bind(zr_emitter *e, int flat_param, zr_buffer_ref place);
void zr_emit_unbind(zr_emitter *e, int flat_param, zr_buffer_id buffer);
void zr_emit_await(zr_emitter *e, zr_when when, zr_slot_kind kind, int index);
// Waits until all ranks have drained what the flat parameter last had in the window of this buffer.
void zr_emit_await_readers(zr_emitter *e, zr_when when, zr_buffer_id window, int flat_param);
// Lets the unit go on after the last instruction, because the streamed flat parameter has come or
// gone.
void zr_emit_mark(zr_emitter *e, zr_mark mark, int flat_param);
// Waits for what lay in these bytes last: until readers have drained it, or until its transfer has
// ended.
void zr_emit_await_buffer(zr_emitter *e, zr_when when, zr_buffer_ref place, int64_t bytes);
// Records that `slot` was begun in these bytes, and forgets where it was before.
void zr_emit_occupy(zr_emitter *e, zr_buffer_ref place, int64_t bytes, zr_slot slot);

// emit_reduce_scatter.c: called around a visit of backward.
void zr_emit_gradients_open(zr_emitter *e, int visit);
void zr_emit_gradients_close(zr_emitter *e, int visit);
// Ends the reductions of sealed flat parameters that have to end by the end of that visit, oldest
// first.
void zr_emit_reductions_end(zr_emitter *e, int visit);
// Boundary: adds the squares of those gradients that lie in memory.
void zr_emit_norm(zr_emitter *e);

// emit_offload.c
// Fetches the parameters of visits up to that one, as far as this has not begun.
void zr_emit_fetches(zr_emitter *e, int last_visit);
void zr_emit_fetch_sums(zr_emitter *e, int visit);
// Runs before a flat parameter's sum is put into the host's buffer.
void zr_emit_take_staged(zr_emitter *e, int flat_param);
void zr_emit_store_sum(zr_emitter *e, int flat_param);
void zr_emit_parked_return(zr_emitter *e, int visit);
void zr_emit_parked_leave(zr_emitter *e, int visit);
// Boundary: waits until sums are where they are kept.
void zr_emit_await_transfers(zr_emitter *e);

// emit_activation_checkpoints.c: boundaries that are stored between forward and backward.
void zr_emit_activation_checkpoint_before_forward(zr_emitter *e, int unit);
void zr_emit_activation_checkpoint_after_forward(zr_emitter *e, int unit);
void zr_emit_activation_checkpoint_before_backward(zr_emitter *e, int unit);

// emit_update.c
void zr_emit_boundary(zr_emitter *e);
void zr_emit_total(zr_emitter *e);
void zr_emit_update(zr_emitter *e);
void zr_emit_publish(zr_emitter *e);

// emit_links.c: TAKE, RECEIVE, SEND or GIVE of the current slot of a link; nothing for link -1.
void zr_emit_link(zr_emitter *e, zr_code code, int link);
// emit_links.c: around a call of the emitter's unit, what comes from other chunks and goes to them.
void zr_emit_link_before(zr_emitter *e, zr_call what);
void zr_emit_link_after(zr_emitter *e, zr_call what);
// In the forward of a chunk whose only unit does forward and backward in one call: receives.
void zr_emit_link_in(zr_emitter *e);

// emit_accumulate.c, for every order. Writes the turn that begins with a visit; forward: the turn
// belongs to the first half of a micro-batch.
void zr_emit_turn(zr_emitter *e, int visit, bool forward);
void zr_emit_evaluation(zr_emitter *e); // the forward turns of the chunk, in order

#endif
