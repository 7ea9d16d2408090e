// A device for tests that stands for a GPU: the host cannot read its memory, and what a queue is
// given runs late. A test links far_dep; then zr_queue_open("far", ...) opens a queue of this
// device between far_begin and far_end. The backend "ref" does the arithmetic.
//
// Memory is mapped twice: at the address that all code computes with, where device memory cannot be
// touched, and where the executor alone reads and writes. Device memory is full of NaN when it is
// fresh, and gone when it is released. Of pinned memory the host cannot touch what an operation
// writes, nor change what one reads, from the submission on until a finish covers it. Memory that
// the host pins itself (pin) has one mapping, so that nothing watches over the host there.
//
// A touch that is not allowed prints one message and ends the process with FAR_TOUCHED. System
// calls give EFAULT instead, in pinned memory also of bytes whose page is under way; the host's own
// touches of such bytes are allowed. What an operation must not be given fails its queue, and comes
// with a finish (not with zr_queue_check). All other mistakes are counted as violations, also that
// memory is released before an operation that was given it has run.
#ifndef TESTS_FAR_H
#define TESTS_FAR_H

#include "compute/compute.h"

// Of a rank: what its queues are planned to take by themselves, and logits at once (compute.h).
enum { FAR_RUNTIME_BYTES = 3 << 20, FAR_LOGIT_BYTES = 48 << 20 };
enum { FAR_TOUCHED = 99, FAR_MOST_QUEUES = 64, FAR_MOST_HOSTS = 1024 };

typedef enum far_order {
    FAR_EAGER,  // a row runs when it is submitted, what it waits for first
    FAR_LAZY,   // nothing runs before a finish needs it
    FAR_RANDOM, // at each submit and finish some rows run, of those whose waits have passed
} far_order;

typedef struct far_options {
    far_order order;
    uint64_t seed;        // of FAR_RANDOM
    int64_t device_bytes; // all that the device has; 0: 1 TiB
    int64_t fail_reserve; // the reserve of this number, from 1 on, fails; 0: none
    int64_t fail_row;     // the operation that runs as this number fails instead; 0: none
    bool keeps_rows;      // for far_rows
    bool keeps_touches;   // rows of what the host touches, too; not for memory given to the system
    int (*place)(void);   // tells who makes the wait under way (far_places.h); NULL: 0 does
    int left_out;         // waits of this place are not made; 0: all are
} far_options;

typedef struct far_report {
    int64_t allocations;               // that were not released, and ranges that were not unpinned
    int64_t finishes;                  // that had something to wait for
    int64_t submitted, executed;       // operations
    int64_t reserved[ZR_MEMORY_KINDS]; // bytes so far
    int64_t violations;
    char first[ZERO_MESSAGE_BYTES]; // the text of the first one
} far_report;

// One device for the process; its ranks are threads. far_end wants all memory released and all
// queues closed; what is not, is a violation. `out` may be NULL.
void far_begin(const far_options *options);
void far_end(far_report *out);
void far_report_now(far_report *out);
// From far_seal to far_unseal a reserve is a violation.
void far_seal(void);
void far_unseal(void);
zr_device *far_device(void);
// Returns the number of the calling thread, from 0 on, and the finishes of a thread.
int far_host(void);
int64_t far_finishes_of(int host);

// ---- what was submitted, as a list (options.keeps_rows) ----

typedef enum far_row_kind {
    FAR_OPERATION,
    FAR_MARK,
    FAR_AFTER,
    FAR_FINISH,
    FAR_POST,
    FAR_AWAIT,
    FAR_UNMAP, // what was posted in these bytes says nothing of what lies there later
    FAR_TOUCH, // the host's first of a page of pinned memory since an operation had to do with it
    FAR_ROW_KINDS
} far_row_kind;

// Bytes [first, end) of device or pinned memory. Of rows with strides, from the first to the last;
// a product writes all of its queue's scratch.
typedef struct far_range {
    uintptr_t first, end;
    bool writes;
} far_range;

typedef struct far_row {
    far_row_kind kind;
    int host;        // the thread of the call
    int queue;       // of an operation and an AFTER
    uint64_t number; // its place in the queue, from 1 on
    zr_op_kind op;
    int mark_queue; // of a MARK, AFTER, FINISH: the mark, which is a place in that queue
    uint64_t mark_number;
    const void *word; // of a POST, AWAIT; of an UNMAP its first byte
    uint64_t value;   // that was posted, or that was awaited at least, or how many bytes
    const far_range *ranges;
    int range_count;
    int place; // of an AFTER, FINISH, AWAIT
} far_row;

// Returns the rows so far; call it when no thread submits. They stay until far_rows_forget or
// far_end.
const far_row *far_rows(int *count);
void far_rows_forget(void);
// A thread tells that it posts a value in a word (before it does), and that it has seen it reach a
// target (afterwards). What it knew when it posted, the other one then knows.
void far_note_post(const void *word, uint64_t value);
void far_note_await(const void *word, uint64_t target, int place);
void far_note_unmap(const void *first, uint64_t bytes); // before they are
// Returns whether the wait under way is to be made, and whose it is.
bool far_makes_wait(int *place);

typedef struct far_race { // two rows by their places in the list; the first byte where they meet
    int first, second;
    uintptr_t at;
} far_race;

// Finds the first row that meets an earlier one in a byte that one of them writes, without being
// ordered: by their queue, by an AFTER, or by what the host knew when it submitted or touched.
bool far_races(const far_row *rows, int count, far_race *out);
// The same without some of the waits.
bool far_races_without(const far_row *rows, int count, const bool *left_out, far_race *out);
// Writes "fill, number 3 of queue 0, and copy, number 1 of queue 1, meet at 0x1000".
void far_race_write(const far_row *rows, const far_race *race, char *out, size_t size);
// Leaves out each AFTER and FINISH in turn, and tells whether it is needed: `race` is what is found
// without it, or NULL.
typedef void far_thinned(void *user, int row, const far_race *race);
void far_thin(const far_row *rows, int count, far_thinned *told, void *user);

#endif
