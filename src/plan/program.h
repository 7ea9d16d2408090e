// The program of a step (contract 8): plan/ writes it, engine/ runs it, and neither decides anew
// what the other has decided.
//
// A pass is a list of instructions (instruction.h). Which pass comes next, and which instructions
// of a pass run (zr_when), follows from the number of the step and of the micro-batch, or from
// scalars that all ranks share, because ranks have to send the same messages in the same order.
//
//   micro-batch   forward of every unit | end of forward: zero_forward returns
//                 | backward of every unit, last first
//   evaluation    forward of every unit
//   boundary      after the last micro-batch: what the update reads is complete, and every rank
//                 knows its norm
//   total         asynchronous schedules: what ranks of other pipeline stages add to the norm has
//                 come
//   update        nobody reads the old parameters any more; the optimizer's walks over the groups
//   tied weights  pipedream: shared tables of another pipeline stage have come
//                 (plan/pipeline/tied_weights.h)
//   publish       other ranks can read the new parameters; an overlapped update begins
//
// With a pipeline there is no pass of a whole micro-batch, nor of a whole evaluation: each chunk of
// units has passes of its own, which run as the stage's list of actions says
// (plan/pipeline/schedules.h).
//
//   forward       forward of the chunk's units, except of a last unit that does both in one call
//   backward      backward of the chunk's units, last first; for units whose backward is made in
//                 two parts, the part of the input
//   weight        the part of the weights of these units
//   evaluation    forward of the chunk's units
#ifndef ZR_PLAN_PROGRAM_H
#define ZR_PLAN_PROGRAM_H

#include "plan/instruction.h"
#include "plan/pipeline/schedules.h"

typedef struct zr_plan zr_plan;
typedef struct zr_flat_param zr_flat_param;

typedef enum zr_pass_kind {
    ZR_PASS_MICRO_BATCH,
    ZR_PASS_EVALUATION,
    ZR_PASS_BOUNDARY,
    ZR_PASS_TOTAL,
    ZR_PASS_UPDATE,
    ZR_PASS_TIED_WEIGHTS,
    ZR_PASS_PUBLISH,
    ZR_PASS_COUNT
} zr_pass_kind;

// The passes of a chunk: zr_chunk_pass returns their zr_pass_kind.
typedef enum zr_chunk_part {
    ZR_CHUNK_FORWARD,
    ZR_CHUNK_BACKWARD,
    ZR_CHUNK_WEIGHT,
    ZR_CHUNK_EVALUATION,
    ZR_CHUNK_PARTS
} zr_chunk_part;

#define ZR_PASSES ((int)ZR_PASS_COUNT + (int)ZR_MOST_CHUNKS * (int)ZR_CHUNK_PARTS)

typedef struct zr_pass {
    zr_instruction *at; // (count)
    int count, capacity;
    int forward_end; // micro-batch: index of the first instruction of backward
} zr_pass;

typedef struct zr_program {
    zr_pass passes[ZR_PASSES]; // a pass that does not exist is empty
    int fetch_count;           // number of slots of ZR_SLOT_FETCHED
} zr_program;

// Names, by the number of what they name.
extern const char *const zr_code_names[]; // "GATHER"
extern const char *const zr_when_names[]; // "always"
extern const char *const zr_buffer_names[];
extern const char *const zr_slot_names[];
extern const char *const zr_call_names[]; // "forward again"
extern const char *const zr_update_part_names[];
extern const char *const zr_scalars_part_names[]; // "stage"
extern const char *const zr_tied_weight_part_names[];
const char *zr_pass_name(zr_pass_kind kind);
zr_pass_kind zr_chunk_pass(zr_chunk_part part, int chunk);
zr_pass_kind zr_action_pass(const zr_action *action); // of a forward, backward or weight
bool zr_pass_is_of_micro_batch(int kind);             // it runs once for each micro-batch of a step
// Adds a copy of an instruction. ZERO_ERR_MEMORY.
zero_status zr_pass_add(zr_pass *pass, const zr_instruction *next, zero_error *error);
void zr_program_destroy(zr_program *program);

// live_ranges.c: which bytes of each buffer a pass holds, and from when to when. One walk over the
// program finds this.
typedef struct zr_live_range { // bytes [first, first + bytes) of a buffer hold a flat parameter
    zr_buffer_id buffer;       // GATHERED, GRADIENTS, OPEN_SUMS, STAGED_PARAMETERS or STAGED_SUMS
    int flat_param;
    int value; // its number before values have places; 0: `first` counts from the buffer's
               // beginning
    int64_t first, bytes;
    int from, to; // instructions of the pass: the first to write there, the last to need it
} zr_live_range;

typedef struct zr_live_ranges {
    zr_live_range *at; // (count) in the order in which they begin
    int count, capacity;
} zr_live_ranges;

// ZERO_ERR_MEMORY. The caller frees *out with zr_live_ranges_free, also after an error.
zero_status zr_live_ranges_of(const zr_plan *plan, zr_pass_kind kind, zr_live_ranges *out,
                              zero_error *error);
// Returns the bytes that a flat parameter takes in one of these buffers.
int64_t zr_bytes_in_buffer(const zr_plan *plan, const zr_flat_param *flat_param,
                           zr_buffer_id buffer);
void zr_live_ranges_free(zr_live_ranges *live_ranges);
int64_t zr_live_ranges_end(const zr_live_ranges *live_ranges,
                           zr_buffer_id buffer); // bytes that the buffer needs

#endif
