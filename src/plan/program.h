// The program of a step (contract 8): plan/ writes it, engine/ runs it, and neither decides again what the other has decided.
//
// A pass is a list of instructions. Each is one call of a lower room; what it begins may go on while later instructions run, until an AWAIT
// of its slot. Which pass comes next, and what of a pass holds (zr_when), follows from the number of the step and of the micro-batch, or from
// scalars that all ranks share, because ranks have to send the same messages in the same order.
//
//   micro-batch   forward of every unit | seam: zero_forward returns | backward of every unit, last first
//   evaluation    forward of every unit
//   boundary      after the last micro-batch: what the update reads is complete, its norm is known on every rank
//   update        nobody reads the old parameters any more; the optimizer's passes
//   publish       others can read the new ones; an update beside the next step begins
//
// The body of a CALL: instructions that the unit itself runs from inside, as its streamed pieces come and go (zero_piece_begin and _end), each
// up to the next one with a mark:
//
//   CALL  body 5 | BIND tile 0 (begun) | UNBIND tile 0 (ended) | AWAIT .. BIND tile 1 (begun) | UNBIND tile 1 (ended) |
#ifndef ZR_PLAN_PROGRAM_H
#define ZR_PLAN_PROGRAM_H

#include "base/errors.h"

typedef struct zr_plan zr_plan;

typedef enum zr_code {
    ZR_GATHER,  // all ranks' shards of the piece begin to come to `place`; 0 bytes: they lie there, which is counted as a message all the same
    ZR_REDUCE,  // the piece's contributions, at `place`, begin to be summed into the owners' accumulators
    ZR_SCALARS, // the loss, the norm and the number of targets are summed over the ranks
    ZR_FETCH,   // the slot's data begins to come from its store to `place`
    ZR_STORE,   // the slot's data, at `place`, begins to go to its store
    ZR_AWAIT,   // what the slot has begun has come to its end
    ZR_RELEASE, // this rank reads no more of the piece's parameters in this step
    ZR_PUBLISH, // this rank's shard of the piece's parameters is new
    ZR_BIND,    // units read the piece's parameters at `place`, or add their contributions to those at `place`
    ZR_UNBIND,  // and now no more
    ZR_OPEN,    // the unit is the first of this micro-batch to contribute to the piece: the gaps at `place` are zeroed, and it is bound
    ZR_ROUND,   // contributions at `from` are rounded to the type of the gradient window, at `place`
    ZR_SQUARES, // the squares of the own shard's gradient are added to the norm
    ZR_CALL,    // one of the unit's functions
    ZR_UPDATE,  // a pass of the update
    ZR_CODE_COUNT
} zr_code;

typedef enum zr_when { // what has to hold for an instruction to be run; a pass's are one bit each
    ZR_ALWAYS,
    ZR_FIRST,  // micro-batch of a step: the first;
    ZR_LATER,  // one that is added to sums of earlier ones;
    ZR_LAST,   // the last, which may be the first
    ZR_STALE, ZR_FRESH, // the weights have changed since kept pieces were gathered, or have not
    ZR_CHANGED,   // update: parameters or buffers will be written
    ZR_FINITE,    // the step's gradient is
    ZR_AT_ONCE,   // it is, and its update is made before the next step
    ZR_BEHIND,    // parameters are older than their master
    ZR_BESIDE,    // publish: the update is made beside the next step
    ZR_REWRITTEN, // weights were written by somebody else than an update
    ZR_WHEN_COUNT
} zr_when;

typedef enum zr_call { ZR_CALL_FORWARD, ZR_CALL_AGAIN, ZR_CALL_BACKWARD, ZR_CALL_BOTH } zr_call; // again: what forward did not keep is computed again

typedef enum zr_update_part { ZR_PART_MEAN, ZR_PART_GROUPS, ZR_PART_COPY } zr_update_part; // of a buffer; by the optimizer; master to parameters

typedef enum zr_mark { ZR_UNMARKED, ZR_BEGUN, ZR_ENDED } zr_mark; // the unit goes on with the streamed piece; without it

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
    ZR_SPACE_ACTIVATION_CHECKPOINTS,       // boundaries between segments
    ZR_SPACE_STORED,            // the slot's store: of parameters, parked contributions, checkpoints
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
    int stream;    // piece of the mark
    int what;      // CALL: zr_call; UPDATE: zr_update_part
    int unit;      // on whose behalf; -1: none's
    int piece;     // -1: none
    zr_place place, from;
    int64_t bytes; // that this rank fetches from other ranks, or that travel between tiers
    zr_slot slot;
    int body;      // CALL: instructions after it that the unit runs
} zr_instruction;

typedef enum zr_pass_kind { ZR_PASS_MICRO_BATCH, ZR_PASS_EVALUATION, ZR_PASS_BOUNDARY, ZR_PASS_UPDATE, ZR_PASS_PUBLISH, ZR_PASS_COUNT } zr_pass_kind;

typedef struct zr_pass {
    zr_instruction *at; // (count)
    int count, capacity;
    int seam;           // micro-batch: the first of backward
} zr_pass;

typedef struct zr_program {
    zr_pass passes[ZR_PASS_COUNT];
    int fetch_count; // slots of ZR_SLOT_FETCHED
} zr_program;

const char *zr_code_name(zr_code code);   // "GATHER"
const char *zr_when_name(zr_when when);   // "always"
const char *zr_space_name(zr_space space);
const char *zr_slot_name(zr_slot_kind kind);
const char *zr_call_name(zr_call call);   // "forward again"
const char *zr_update_part_name(zr_update_part part);
const char *zr_pass_name(zr_pass_kind kind);
void zr_program_destroy(zr_program *program);

#endif
