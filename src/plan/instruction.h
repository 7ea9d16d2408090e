// An instruction of a step's program (contract 8): its code, when it holds, and what it is about.
// program.h says in which passes they stand.
//
// Each is one call of a lower room; what it begins may go on while later instructions run, until an
// AWAIT of its slot.
//
// The body of a CALL: instructions that the unit itself runs from inside, as its streamed pieces
// come and go (zero_piece_begin and _end), each up to the next one with a mark:
//
//   CALL  body 5 | BIND tile 0 (begun) | UNBIND tile 0 (ended)
//                | AWAIT .. BIND tile 1 (begun) | UNBIND tile 1 (ended)
#ifndef ZR_PLAN_INSTRUCTION_H
#define ZR_PLAN_INSTRUCTION_H

#include "base/errors.h"

typedef enum zr_code {
    // all ranks' shards of the piece begin to come to `place`; 0 bytes: they lie there, which is
    // counted as a message all the same
    ZR_GATHER,
    // the piece's contributions, at `place`, begin to be summed into the owners' accumulators
    ZR_REDUCE,
    ZR_SCALARS, // the loss, the norm and the number of targets are summed over the ranks
    ZR_FETCH,   // the slot's data begins to come from its store to `place`
    ZR_STORE,   // the slot's data, at `place`, begins to go to its store
    ZR_AWAIT,   // what the slot has begun has come to its end
    ZR_RELEASE, // this rank reads no more of the piece's parameters in this step
    ZR_PUBLISH, // this rank's shard of the piece's parameters is new
    // units read the piece's parameters at `place`, or add their contributions to those at `place`
    ZR_BIND,
    ZR_UNBIND, // and now no more
    // the unit is the first of this micro-batch to contribute to the piece: the gaps at `place` are
    // zeroed, and it is bound
    ZR_OPEN,
    // contributions at `from` are rounded to the type of the gradient window, at `place`
    ZR_ROUND,
    ZR_SQUARES, // the squares of the own shard's gradient are added to the norm
    ZR_CALL,    // one of the unit's functions
    ZR_UPDATE,  // a pass of the update
    ZR_CODE_COUNT
} zr_code;

typedef enum zr_when { // what has to hold for an instruction to be run; a pass's are one bit each
    ZR_ALWAYS,
    ZR_FIRST,     // micro-batch of a step: the first;
    ZR_LATER,     // one that is added to sums of earlier ones;
    ZR_LAST,      // the last, which may be the first
    ZR_STALE,     // the weights have changed since kept pieces were gathered,
    ZR_FRESH,     // or have not
    ZR_CHANGED,   // update: parameters or buffers will be written
    ZR_FINITE,    // the step's gradient is
    ZR_AT_ONCE,   // it is, and its update is made before the next step
    ZR_BEHIND,    // parameters are older than their master
    ZR_BESIDE,    // publish: the update is made beside the next step
    ZR_REWRITTEN, // weights were written by somebody else than an update
    ZR_WHEN_COUNT
} zr_when;

// What a CALL calls; again: what forward did not keep is computed again.
typedef enum zr_call { ZR_CALL_FORWARD, ZR_CALL_AGAIN, ZR_CALL_BACKWARD, ZR_CALL_BOTH } zr_call;

// What an UPDATE does: means of buffers; the optimizer's groups; parameters from their master.
typedef enum zr_update_part { ZR_PART_MEAN, ZR_PART_GROUPS, ZR_PART_COPY } zr_update_part;

// Where the unit goes on, with the streamed piece or without it.
typedef enum zr_mark { ZR_UNMARKED, ZR_BEGUN, ZR_ENDED } zr_mark;

typedef enum zr_space { // memory that places lie in
    ZR_SPACE_NONE,
    ZR_SPACE_PARAMETERS,        // replicas, or the one copy that all ranks map
    ZR_SPACE_SHARDS,            // own shards, on the piece's tier
    ZR_SPACE_GATHERED,          // the gather window
    ZR_SPACE_GRADIENTS,         // the gradient window
    ZR_SPACE_WHOLES,            // the window of whole accumulated gradients
    ZR_SPACE_OPEN_SUMS,         // the open arena: fp32 contributions
    ZR_SPACE_STAGED_PARAMETERS, // host buffers between NVMe and device
    ZR_SPACE_STAGED_SUMS,
    ZR_SPACE_ACTIVATION_CHECKPOINTS, // boundaries between segments
    // the slot's store: of parameters, parked contributions, checkpoints
    ZR_SPACE_STORED,
    ZR_SPACE_COUNT
} zr_space;

typedef struct zr_place {
    zr_space space;
    int64_t first; // byte
} zr_place;

typedef enum zr_slot_kind { // what is begun and not ended; an AWAIT of it waits until
    ZR_NO_SLOT,
    ZR_SLOT_SUM,       // the reduction of piece `index` has ended
    ZR_SLOT_GATHER,    // its gather has
    ZR_SLOT_READERS,   // all ranks have drained what it last had in the window of `place`
    ZR_SLOT_PUBLISHED, // all ranks have published its parameters
    ZR_SLOT_RELEASED,  // all ranks have released them
    ZR_SLOT_FETCHED,   // parameters number `index` (visit, piece) have come from NVMe
    ZR_SLOT_TRAVELLED, // its accumulators' transfers have ended
    ZR_SLOT_PARKED,    // its parked contributions' transfer has
    ZR_SLOT_KEPT,      // the transfer through checkpoint buffer `index` has
    ZR_SLOT_GROUP,     // an update beside the step has done with group `index` and all after it
    ZR_SLOT_KIND_COUNT
} zr_slot_kind;

typedef struct zr_slot {
    zr_slot_kind kind;
    int index;
} zr_slot;

typedef struct zr_instruction {
    zr_code code;
    zr_when when;
    zr_mark mark;
    int stream; // piece of the mark
    int what;   // CALL: zr_call; UPDATE: zr_update_part
    int unit;   // on whose behalf; -1: none's
    int piece;  // -1: none
    zr_place place, from;
    int64_t bytes; // that this rank fetches from other ranks, or that travel between tiers
    zr_slot slot;
    int body; // CALL: instructions after it that the unit runs
} zr_instruction;

const char *zr_code_name(zr_code code); // "GATHER"
const char *zr_when_name(zr_when when); // "always"
const char *zr_space_name(zr_space space);
const char *zr_slot_name(zr_slot_kind kind);
const char *zr_call_name(zr_call call); // "forward again"
const char *zr_update_part_name(zr_update_part part);

#endif
