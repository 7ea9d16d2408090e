// Records of a step as text for people: where its time went, what each unit computed, which
// messages there were; and memory.
// Pure functions into a buffer (check out->failed), lines without a prefix. Called by
// observe/observe on rank 0.
#ifndef ZR_MONITOR_BREAKDOWN_H
#define ZR_MONITOR_BREAKDOWN_H

#include "base/alloc.h"
#include "base/recorder.h"
#include <zero/memory.h>
#include <zero/traffic.h>

typedef struct zr_step_times {       // nanoseconds of one step of one rank
    int64_t total;                   // from the begin of its first phase to the end of its last
    int64_t forward, backward, step; // of it
    int64_t reduce;                  // of forward and backward: sums of gradients, without waits
    // of step: norm of the gradient and its scalars; optimizer; parameters for the next step
    int64_t norm, update, gather;
    int64_t wait; // anywhere in it
} zr_step_times;

// Of the phases among records [first, count), and what lies inside of them.
zr_step_times zr_step_times_of(const zr_recorder *recorder, int64_t first);
// "step 7: 36.10 ms; forward 12.01, backward ..."
void zr_breakdown_time(int64_t step, const zr_step_times *times, zr_buffer *out);

// "step 7, planned/held MB: parameters 1.66/1.66, ...; resident at most 80.00"; step 0: "at start".
// resident: bytes
void zr_breakdown_memory(int64_t step, const zero_memory *memory, int64_t resident, zr_buffer *out);

typedef struct zr_unit_facts {
    const char *name;
    int64_t parameters; // that it owns
    bool fused;         // forward computes the gradient too
} zr_unit_facts;

typedef struct zr_flops_facts {
    int64_t step;
    const zr_unit_facts *units; // (unit_count)
    int unit_count, ranks;
    bool detailed;           // false: only the sums
    double recompute_factor; // part of forward's flops that is counted again in backward
} zr_flops_facts;

// The table of flops_profiler, of one rank's step in records [first, count). ZERO_ERR_MEMORY for
// the sums by unit.
bool zr_breakdown_flops_is_one(const char *path); // whether that file begins as one
zero_status zr_breakdown_flops(const zr_flops_facts *facts, const zr_recorder *recorder,
                               int64_t first, zr_buffer *out, zero_error *error);

typedef struct zr_message_row { // calls that fetched the same number of bytes
    zr_activity what;
    int64_t bytes;              // of each: fetched from other ranks
    int64_t calls, nanoseconds; // without waits
} zr_message_row;

// of as many steps as were added; zeroed: of none. Free with zr_messages_free.
typedef struct zr_messages {
    zr_message_row *rows; // (count) by operation and bytes
    int count, capacity;
    int64_t steps, waits, wait_nanoseconds;
} zr_messages;

// Adds the collectives among records [first, count) that `ops` (bit per zero_comm_op) selects, and
// all waits.
zero_status zr_messages_add(zr_messages *messages, const zr_recorder *recorder, int64_t first,
                            uint32_t ops, zero_error *error);
void zr_messages_free(zr_messages *messages);
// The table of comms_logger.
void zr_breakdown_messages(const zr_messages *messages, zr_buffer *out);
// A line for each selected collective among records [first, count). slots (slot_count): names of
// pieces.
void zr_breakdown_message_list(const zr_recorder *recorder, int64_t first, uint32_t ops,
                               const char *const *slots, int slot_count, zr_buffer *out);

#endif
