// What the files of the far device share. All of it is guarded by the one lock.
#ifndef TESTS_FAR_STATE_H
#define TESTS_FAR_STATE_H

#include "far.h"

#include <stdatomic.h>

// ---- far_state.c ----

void far_lock(void);
void far_unlock(void);
bool far_is_locked_here(void); // by the calling thread
bool far_has_begun(void);
bool far_is_sealed(void);
const far_options *far_options_now(void);
far_report *far_counts(void);
void far_violate(const char *format, ...) ZERO_PRINTF(1, 2);
void far_count_finish(int host);
uint64_t far_draw(uint64_t below); // a random number, a function of the seed and of how many came
void *far_alloc(size_t bytes);     // zeroed; ends the process if there is none

// ---- far_memory.c ----

typedef struct far_allocation {
    int number; // from 1 on
    zr_memory kind;
    unsigned char *at, *real; // the address that all compute with, and the executor's
    size_t bytes, mapped;     // mapped: whole pages; 0 of what the host has pinned
    bool live;
    int attached;
    uint16_t *readers, *writers; // of each page of pinned memory: pieces under way
    // What the host has done there since an operation had to do with it, where touches are kept:
    // PROT_READ, PROT_WRITE.
    uint8_t *touched;
} far_allocation;

// Part of an operation's operands: bytes that lie together.
typedef struct far_piece {
    const char *name; // of the operand
    unsigned char *at;
    size_t bytes;
    bool writes;
    void **place; // where the operation has the address
} far_piece;

// Returns the live allocation that queues can reach; else what remains of one, or NULL.
far_allocation *far_allocation_at(const void *at);
bool far_allocation_is_reachable(const far_allocation *allocation);
void far_memory_watch(const far_piece *piece);   // it is under way
void far_memory_unwatch(const far_piece *piece); // a finish covers it
// Lets the host touch the page of a byte, whatever is under way there; or no longer.
void far_memory_open_page(const far_allocation *allocation, const void *at, bool open);
// Keeps the host's first touch of a page, if touches are kept, and allows it.
bool far_memory_keep_touch(far_allocation *allocation, const void *at, bool writes);
void far_memory_end(void);

// ---- far_touch.c ----

void far_touch_begin(void);
void far_touch_end(void);
void far_touch_note(zr_op_kind kind); // the last operation that this thread submitted

// ---- far_queue.c, far_executor.c ----

typedef struct far_work { // a row of a queue
    uint64_t number;
    uint64_t clock[FAR_MOST_QUEUES]; // how far each other queue has to be
    int host;
    bool waits; // an AFTER, which does nothing else
    zr_op op;
    void *arrays[ZR_MOST_OPERANDS]; // copies of the arrays of the host
    void *scratch;                  // of a product
    size_t scratch_bytes;
    far_piece *pieces;
    int piece_count;
    zr_queue_failure *failure; // found when it was submitted: it is not run
} far_work;

typedef struct far_queue {
    int index;
    zr_queue *inner;
    far_work **works; // those that no finish has covered, in order
    int count, capacity;
    uint64_t clock[FAR_MOST_QUEUES]; // of the row that comes next
    zr_queue_failure failed;
    atomic_int inside; // the thread that submits, + 1
} far_queue;

// How far each queue is: rows that it was given, that have run, that a finish has covered.
typedef struct far_progress {
    far_queue *queue; // NULL: closed
    uint64_t given, executed, finished;
} far_progress;

far_progress *far_progress_of(int queue);
void far_work_destroy(far_work *work);
void far_work_translate(far_work *work, zr_queue_failure *failure);
// Whether a byte is under way; if it `writes`, whether a row writes it.
bool far_is_under_way(const void *at, bool *writes);
void far_work_give(far_queue *queue, far_work *work); // and runs what the order says
// Waits until the queue has executed the row.
zero_status far_reach(far_queue *queue, uint64_t number, double seconds, zero_error *error);
void far_cover(far_queue *queue, uint64_t number);
void far_run_some(void); // what FAR_RANDOM draws
void far_joined(uint64_t *clock, const uint64_t *with);
// Joins what the mark stands for.
void far_join_mark(uint64_t *clock, const far_queue *queue, uint64_t number);

// ---- far_rows.c ----

void far_record(const far_row *row, const far_piece *pieces, int count);

#endif
