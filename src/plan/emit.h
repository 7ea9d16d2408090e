// The emitters. Each writes the instructions of one concern when emit_accumulate.c, which knows the
// order of a pass, calls it. Emitters do not know where anything lies: they name values, as a
// compiler names virtual registers, and assign.c gives each value its bytes.
#ifndef ZR_PLAN_EMIT_H
#define ZR_PLAN_EMIT_H

#include "plan/plan.h"

// A value: bytes of a buffer that hold something from one instruction to another, such as what one
// visit gathers. Its instructions are counted from ZR_FIRST_INSTRUCTION on, over all passes.
typedef struct zr_plan_value {
    zr_buffer_id buffer;
    int from, to; // where it is first named (0: nowhere yet), and the last that needs it
    int64_t bytes;
    int64_t first; // where it lies in the buffer; assign.c finds it
} zr_plan_value;

enum { ZR_FIRST_INSTRUCTION = 1 };

typedef struct zr_plan_values {
    zr_plan_value *at; // (count) by number; 0 is none
    int count;
    int *begun; // (begun_count) numbers in the order in which values begin
    int begun_count;
} zr_plan_values;

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
    zr_pass *pass;         // being written
    int written;           // the number of its first instruction
    zr_plan_values values; // that have been named
    bool trains;           // this pass makes gradients
    int chunk;             // of units, whose pass it is
    int unit;              // for which instructions are written
    int fetched;           // last visit of this pass whose parameters have begun to come
    int returned;          // last visit whose parked contributions have begun to come back
    int sealed, reduced; // index in plan->sealed of the first not sealed; of the first not awaited
    int segment;         // the segment whose backward has begun; -1: none
    zero_status status;  // sticky: ZERO_ERR_MEMORY
    zero_error *error;
};

// emit_replicas.c: begins to gather a flat parameter into every replica.
void zr_emit_gather_replica(zr_emitter *e, zr_when when, int flat_param);
// emit_stage3.c: begins to gather a visit's flat parameters; what is here already is counted as
// acquired.
void zr_emit_gather_visit(zr_emitter *e, int visit);
// Fetches the parameters of visits up to that one, as far as this has not begun.
void zr_emit_fetches(zr_emitter *e, int last_visit);
// Waits until a visit's flat parameters have come, and binds them.
void zr_emit_bind_gathered(zr_emitter *e, int visit);
// Says whether a visit gathers its flat parameter i: it is neither kept from an earlier visit's
// gather nor reused; and whether its own shard comes from NVMe for that.
bool zr_visit_gathers(const zr_plan *plan, int visit, int i);
bool zr_visit_stages(const zr_plan *plan, int visit, int i);

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
// TAKE, RECEIVE, SEND or GIVE of the current slot of a link; nothing for link -1.
void zr_emit_link(zr_emitter *e, zr_code code, int link);
// Lets the unit go on after the last instruction, because the streamed flat parameter has come or
// gone.
void zr_emit_mark(zr_emitter *e, zr_body_mark mark, int flat_param);
// Waits for what lies in the bytes of flat parameter p's value: until its readers have drained it,
// or its transfer has ended. slot: what has to end before the bytes are used again after the value;
// ZR_NO_SLOT if nothing has.
void zr_emit_await_bytes(zr_emitter *e, zr_when when, int p, zr_buffer_ref value,
                         zr_slot_kind slot);
// Names a value, which begins here if it has not begun before. Its bytes are reserved from here on.
zr_buffer_ref zr_emit_value(zr_emitter *e, zr_buffer_id buffer, int number, int64_t bytes);
// Names the value of flat parameter p in the gradient window, the open arena or the host's buffer
// of sums.
zr_buffer_ref zr_emit_sums(zr_emitter *e, zr_buffer_id buffer, int p);

// assign.c: numbers of values. Of flat parameter p: its gradient in the window, its open sums, and
// its sums in the host's buffer.
int zr_value_of_flat_param(zr_buffer_id buffer, int p);
// Those of a visit: what it gathers, the open sums that it takes up again, and from
// ZR_VALUE_STAGED on the own shards of its flat parameters in the host's buffer.
enum { ZR_VALUE_GATHERED, ZR_VALUE_RETURNED, ZR_VALUE_STAGED };
int zr_value_of_visit(const zr_plan *plan, int visit, int i);
// assign.c: makes room for all values. zr_values_end accepts a zeroed one. ZERO_ERR_MEMORY.
zero_status zr_values_begin(zr_plan_values *values, const zr_plan *plan, zero_error *error);
void zr_values_end(zr_plan_values *values);
// assign.c: finds where every value lies, writes this into instructions, flat parameters and the
// plan's bytes, and adds the AWAITs of what lay there before. ZERO_ERR_MEMORY.
zero_status zr_assign_places(zr_plan *plan, zr_plan_values *values, zero_error *error);

// emit_reduce_scatter.c: called around a visit of backward.
void zr_emit_gradients_open(zr_emitter *e, int visit);
// Reserves the bytes of what zr_emit_gradients_open writes.
void zr_emit_gradients_reserve(zr_emitter *e, int visit);
void zr_emit_gradients_close(zr_emitter *e, int visit);
// Ends the reductions of sealed flat parameters that have to end by the end of that visit, oldest
// first.
void zr_emit_reductions_end(zr_emitter *e, int visit);

// emit_activation_checkpoints.c: boundaries that are stored between forward and backward.
void zr_emit_activation_checkpoint_before_forward(zr_emitter *e, int unit);
void zr_emit_activation_checkpoint_after_forward(zr_emitter *e, int unit);
void zr_emit_activation_checkpoint_before_backward(zr_emitter *e, int unit);

// emit_update.c
void zr_emit_boundary(zr_emitter *e);
void zr_emit_total(zr_emitter *e);
void zr_emit_update(zr_emitter *e);
void zr_emit_publish(zr_emitter *e);

// emit_accumulate.c, for every order. Writes the turn that begins with a visit; forward: the turn
// belongs to the first half of a micro-batch.
void zr_emit_turn(zr_emitter *e, int visit, bool forward);
void zr_emit_evaluation(zr_emitter *e); // the forward turns of the chunk, in order

#endif
