// What the records of a step show: which of them are inside a phase, and, as text for people, where
// the time went, what each unit computed, which messages there were, and memory. `of` names the
// part of the model: " of pipeline stage 0" on rank 0 of a pipeline, else "".
// Pure functions that write into a buffer (check out->failed); the lines have no prefix. The sinks
// call them on rank 0.
#ifndef ZR_MONITOR_BREAKDOWN_H
#define ZR_MONITOR_BREAKDOWN_H

#include "base/alloc.h"
#include "base/recorder.h"
#include "predict/measured_steps.h"
#include <zero/memory.h>
#include <zero/traffic.h>

typedef struct zr_step_times {       // nanoseconds of a rank's step, or of steps made together
    int64_t total;                   // from the start of its first phase to the end of its last
    int64_t forward, backward, step; // parts of it; backward in both of its parts
    int64_t reduce;                  // in forward and backward: sums of gradients, without waits
    // In `step`: the gradient's norm and its scalars; the optimizer; parameters for the next step.
    int64_t norm, update, gather;
    int64_t wait; // anywhere in it
} zr_step_times;

// Sums up the phases among records [first, count), and what is inside them.
zr_step_times zr_step_times_of(const zr_recorder *recorder, int64_t first);
// Writes "step 7: 36.10 ms; forward 12.01, backward ..."; of steps that were recorded together
// "steps 1 to 8: ...".
void zr_breakdown_time(int64_t step, int64_t last, const char *of, const zr_step_times *times,
                       zr_buffer *out);

// Writes "step 7, planned/held MB: parameters 1.66/1.66, ...; resident at most 80.00"; for step 0
// "at start". resident: in bytes.
void zr_breakdown_memory(int64_t step, const char *of, const zero_memory *memory, int64_t resident,
                         zr_buffer *out);

typedef struct zr_unit_facts {
    const char *name;
    int64_t parameters; // that the unit owns
    bool fused;         // forward computes the gradient too
} zr_unit_facts;

typedef struct zr_flops_facts {
    int64_t step, last_step; // that the records are of; more than one were recorded together
    const char *of;
    const zr_unit_facts *units; // (unit_count)
    int unit_count, ranks;
    int64_t parameters;      // of the whole model, if this rank computes a part of it; else 0
    bool detailed;           // false: writes only the sums
    double recompute_factor; // the part of forward's FLOPs that is counted again in backward
} zr_flops_facts;

// Write the table of flops_profiler, for one rank's steps in records [first, count).
// ZERO_ERR_MEMORY if there is no memory for the sums per unit.
bool zr_breakdown_flops_is_one(const char *path); // whether that file begins like such a table
zero_status zr_breakdown_flops(const zr_flops_facts *facts, const zr_recorder *recorder,
                               int64_t first, zr_buffer *out, zero_error *error);

typedef struct zr_message_row { // calls that fetched the same number of bytes
    zr_activity what;
    int64_t bytes;              // that each call fetched from other ranks
    int64_t calls, nanoseconds; // without waits
} zr_message_row;

// The messages of the steps that were added; when zeroed, of none. Free it with zr_messages_free.
typedef struct zr_messages {
    zr_message_row *rows; // (count) ordered by operation and bytes
    int count, capacity;
    int64_t steps, waits, wait_nanoseconds;
} zr_messages;

// Adds those collectives among records [first, count) that `ops` (one bit per zero_comm_op)
// selects, and all waits. steps: how many these records are of.
zero_status zr_messages_add(zr_messages *messages, const zr_recorder *recorder, int64_t first,
                            int64_t steps, uint32_t ops, zero_error *error);
void zr_messages_free(zr_messages *messages);
// Writes the table of comms_logger.
void zr_breakdown_messages(const zr_messages *messages, const char *of, zr_buffer *out);
// Writes a line for each selected collective among records [first, count). slots (slot_count):
// names of flat parameters.
void zr_breakdown_message_list(const zr_recorder *recorder, int64_t first, uint32_t ops,
                               const char *const *slots, int slot_count, zr_buffer *out);

#endif
