// Memory and a context with which a unit of a plan is called without an engine: to count what it
// asks of the backend (operations.h), or to time it. Each operand has a place of its own. Exchanges
// with tensor ranks move nothing; they are recorded as the engine records them.
//
// Address buffer alone suffices for a queue that counts (compute/compute.h): units then touch
// nothing but ids and losses of rows. For a queue that computes, parameters, gradients of
// boundaries and what enters are small finite values, and the ids of tokens are scattered over the
// vocabulary.
#ifndef ZR_PREDICT_HARNESS_H
#define ZR_PREDICT_HARNESS_H

#include "base/recorder.h"
#include "compute/compute.h"
#include "layers/layers.h"
#include "plan/plan.h"

typedef struct zr_harness zr_harness;

typedef enum zr_harness_memory {
    ZR_HARNESS_ADDRESSES, // address space that no memory backs
    ZR_HARNESS_FILLED,    // memory of the caller's, filled with values; and the queue's scratch
} zr_harness_memory;

typedef struct zr_harness_decode_question { // a step of a generation
    zr_decode_step step;                    // its rows are those of the harness's shape
    int64_t sequences, capacity;            // of the cache of keys and values
} zr_harness_decode_question;

typedef struct zr_harness_question {
    const zr_plan *plan; // outlives the harness
    int unit;            // of the plan
    // The plan's, or a smaller micro-batch: fewer samples, or shorter ones.
    zero_shape shape;
    zr_harness_memory memory;
    char *base;            // FILLED: (zr_harness_bytes) 64-byte aligned; it outlives the harness
    zr_queue *queue;       // with as many threads as the shape, or fewer; outlives the harness
    zr_recorder *recorder; // of exchanges; NULL: they are not recorded
    // ADDRESSES: for zr_harness_decode alone, with a batch of 1; it outlives the harness. NULL: for
    // zr_harness_call.
    const zr_harness_decode_question *decode;
} zr_harness_question;

// Says whether the plan is of one of the library's own models, or of a part of one: the units of
// others may compute anything, on memory of their own.
bool zr_harness_can_call(const zr_plan *plan);
// Finds a unit's sizes for a shape other than the plan's. Returns what the unit returns.
zero_status zr_harness_sizes(const zr_plan *plan, int unit, const zero_shape *shape,
                             zero_unit_sizes *out);
// Returns the bytes of such a harness, scratch of products excepted; 0: the unit refuses the shape.
int64_t zr_harness_bytes(const zr_plan *plan, int unit, const zero_shape *shape);
// Makes a harness; free it with zr_harness_close, before the queue. ZERO_ERR_UNSUPPORTED: the units
// are a program's own. ZERO_ERR_MEMORY.
zero_status zr_harness_open(const zr_harness_question *question, zr_harness **out,
                            zero_error *error);
// Calls one of the unit's functions; training: false in an evaluation. AGAIN is a FORWARD. Backward
// reads what a forward before it has saved, and WEIGHT what an INPUT has held. Returns what the
// unit returns.
zero_status zr_harness_call(zr_harness *harness, zr_call call, bool training, zero_error *error);
// Takes the unit's part of the step of a generation.
zero_status zr_harness_decode(zr_harness *harness, zero_error *error);
// Fills in the gradient of what leaves, which a backward overwrites: called before each, because
// gradients would grow from one to the next. Does nothing where nothing is computed.
void zr_harness_refill(zr_harness *harness);
void zr_harness_close(zr_harness *harness); // NULL is allowed

#endif
