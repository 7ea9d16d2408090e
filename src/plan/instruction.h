// An instruction of a step's program (contract 8): its code, the condition under which it runs, and
// what it works on. program.h says which passes there are.
//
// Each instruction is one call of a lower room. What it begins may go on while later instructions
// run, until an AWAIT of its slot.
//
// The body of a CALL is a list of instructions that the unit runs from inside of the call, as its
// streamed flat parameters come and go (zero_flat_param_begin and _end), each time up to the next
// one with a mark:
//
//   CALL  body 5 | BIND tile 0 (begun) | UNBIND tile 0 (ended)
//                | AWAIT .. BIND tile 1 (begun) | UNBIND tile 1 (ended)
#ifndef ZR_PLAN_INSTRUCTION_H
#define ZR_PLAN_INSTRUCTION_H

#include "base/errors.h"

typedef enum zr_code {
    // All ranks' shards of the flat parameter begin to come to `place`. With 0 bytes they lie there
    // already, which still counts as a message.
    ZR_GATHER,
    // The flat parameter's contributions at `place` begin to be summed into the owners'
    // accumulators.
    ZR_REDUCE,
    ZR_SCALARS, // the loss, the norm and the number of targets are summed over ranks
    ZR_FETCH,   // the slot's data begins to come from its store to `place`
    ZR_STORE,   // the slot's data at `from` begins to go to its store
    // Tensor ranks' shares of a boundary, this one's at `from`, are brought together at `place`; of
    // one that has come in shares, in its slot.
    ZR_JOIN,
    ZR_AWAIT,   // waits until the slot's operation has ended
    ZR_RELEASE, // this rank no longer reads the flat parameter's parameters in this step
    ZR_PUBLISH, // this rank's shard of the flat parameter's parameters is new
    ZR_BIND,    // units read the flat parameter's parameters at `place`, or add their contributions
                // there
    ZR_UNBIND,  // units no longer do that
    // The unit is the first of this micro-batch to contribute to the flat parameter: the gaps at
    // `place` are zeroed, and the flat parameter is bound there.
    ZR_OPEN,
    // Contributions at `from` are rounded to the type of the gradient window, at `place`.
    ZR_ROUND,
    ZR_SQUARES, // the squares of the own shard's gradient are added to the norm
    ZR_CALL,    // one of the unit's functions
    ZR_UPDATE,  // a walk of the update
    // Of a pipeline: the slot of the micro-batch in a link between chunks.
    ZR_RECEIVE,     // waits until the slot holds what the other chunk's rank has sent
    ZR_TAKE,        // waits until the slot may be written
    ZR_SEND,        // what is in the slot is complete
    ZR_GIVE,        // this rank is done with what it has received: the slot may be written again
    ZR_TIED_WEIGHT, // the own shard of a flat parameter that several units share goes to its slot,
                    // or comes
    ZR_CODE_COUNT
} zr_code;

typedef enum zr_when { // what has to hold for an instruction to run; a pass has a bit for each
    ZR_ALWAYS,
    ZR_FIRST,      // micro-batch: it is the first of a step
    ZR_LATER,      // micro-batch: its sums are added to earlier ones
    ZR_LAST,       // micro-batch: it is the last of a step, perhaps the first too
    ZR_OUTDATED,   // the weights have changed since kept flat parameters were gathered
    ZR_FRESH,      // the weights have not changed since then
    ZR_CHANGED,    // update: parameters or buffers will be written; publish: they were
    ZR_FINITE,     // update: the step's gradient is finite
    ZR_AT_ONCE,    // update: the gradient is finite, and the update is made before the next step
    ZR_STALE,      // update: parameters are older than their master
    ZR_OVERLAPPED, // publish: the update overlaps the next step
    ZR_REWRITTEN,  // publish: something other than an update has written weights
    ZR_WHEN_COUNT
} zr_when;

// Why the unit goes on after an instruction: the streamed flat parameter has come, or has gone.
typedef enum zr_body_mark { ZR_UNMARKED, ZR_BEGUN, ZR_ENDED } zr_body_mark;

typedef enum zr_buffer_id { // memory that places lie in
    ZR_BUFFER_NONE,
    ZR_BUFFER_PARAMETERS,        // replicas, or the one copy that all ranks map
    ZR_BUFFER_FROZEN,            // frozen parameters, once on a machine
    ZR_BUFFER_SHARDS,            // own shards, on the flat parameter's tier
    ZR_BUFFER_GATHERED,          // the gather window
    ZR_BUFFER_GRADIENTS,         // the gradient window
    ZR_BUFFER_FULL_GRADS,        // the window of whole accumulated gradients
    ZR_BUFFER_OPEN_SUMS,         // the open arena: fp32 contributions
    ZR_BUFFER_STAGED_PARAMETERS, // host buffers between NVMe and device
    ZR_BUFFER_STAGED_SUMS,
    ZR_BUFFER_ACTIVATION_CHECKPOINTS, // boundaries between segments
    // The slot's store: of parameters, parked contributions or activation checkpoints.
    ZR_BUFFER_STORED,
    ZR_BUFFER_COUNT
} zr_buffer_id;

// A byte offset in a buffer. While a program is emitted, it counts from the beginning of a value
// (plan/emit.h); assign.c then finds the value's place.
typedef struct zr_buffer_ref {
    zr_buffer_id buffer;
    int64_t first; // bytes
    int value;     // its number; 0: `first` counts from the beginning of the buffer
} zr_buffer_ref;

typedef enum zr_slot_kind { // what was begun and has not ended; an AWAIT waits until
    ZR_NO_SLOT,
    ZR_SLOT_SUM,       // the reduction of flat parameter `index` has ended
    ZR_SLOT_GATHER,    // the gather of flat parameter `index` has ended
    ZR_SLOT_READERS,   // all ranks have drained what it last had in the window of `place`
    ZR_SLOT_PUBLISHED, // all ranks have published its parameters
    ZR_SLOT_RELEASED,  // all ranks have released them
    ZR_SLOT_FETCHED,   // parameters number `index` (visit, flat parameter) have come from NVMe
    ZR_SLOT_TRAVELLED, // its accumulators' transfers have ended
    ZR_SLOT_PARKED,    // the transfer of its parked contributions has ended
    ZR_SLOT_KEPT,      // the transfer through the buffer of kept boundaries `index` has ended
    ZR_SLOT_GROUP,     // an overlapped update is done with groups from `index` on
    ZR_SLOT_LINK,      // no AWAIT: of link `index` of the plan, the slot of the micro-batch
    ZR_SLOT_KIND_COUNT
} zr_slot_kind;

typedef struct zr_slot {
    zr_slot_kind kind;
    int index;
} zr_slot;

// What a CALL calls. ZR_CALL_AGAIN: forward runs again for what it did not keep.
// INPUT and WEIGHT: the two parts of a backward that is made in two.
typedef enum zr_call {
    ZR_CALL_FORWARD,
    ZR_CALL_AGAIN,
    ZR_CALL_BACKWARD,
    ZR_CALL_BOTH,
    ZR_CALL_INPUT,
    ZR_CALL_WEIGHT,
} zr_call;

// What an UPDATE computes: means of buffers, the optimizer's groups, or parameters from master.
typedef enum zr_update_part { ZR_PART_MEAN, ZR_PART_GROUPS, ZR_PART_COPY } zr_update_part;

// Among which ranks SCALARS sums; in asynchronous schedules among those of a pipeline stage, and
// then by way of a slot of a link.
typedef enum zr_scalars_part {
    ZR_SCALARS_OF_ALL,
    ZR_SCALARS_OF_PIPELINE_STAGE,
    ZR_SCALARS_GIVE, // the sums go to the slot
    ZR_SCALARS_ADD,  // what comes is added to them
    ZR_SCALARS_TAKE, // they become what comes
} zr_scalars_part;

// What a TIE does with its flat parameter's own shard; what comes is in the slot, or is flat
// parameter `stream`'s.
typedef enum zr_tied_weight_part {
    ZR_TIED_WEIGHT_GIVE_SUM,        // the accumulated gradient goes to the slot
    ZR_TIED_WEIGHT_ADD_SUM,         // what comes is added to it
    ZR_TIED_WEIGHT_GIVE_PARAMETERS, // parameters go to the slot
    ZR_TIED_WEIGHT_TAKE_PARAMETERS, // and become what comes
} zr_tied_weight_part;

typedef struct zr_instruction {
    zr_code code;
    zr_when when;
    zr_body_mark mark;
    int stream; // the streamed flat parameter of the mark; TIE: the own flat parameter at the other
                // end, or -1
    // CALL: zr_call; UPDATE: zr_update_part; TIE: zr_tied_weight_part; SCALARS: zr_scalars_part
    int what;
    int unit;       // for which it is run; -1 if for no unit
    int flat_param; // -1 if it has none
    zr_buffer_ref place, from;
    int64_t bytes; // fetched by this rank from other ranks, or moved between tiers
    zr_slot slot;
    int body; // CALL: number of the following instructions that the unit runs
} zr_instruction;

#endif
