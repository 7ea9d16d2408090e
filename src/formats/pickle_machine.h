// The machine that reads a pickle. Shared by pickle_machine.c (its stack, memo and memory),
// pickle.c (the instructions) and pickle_calls.c (those that turn values into more than
// containers).
#ifndef ZR_FORMATS_PICKLE_MACHINE_H
#define ZR_FORMATS_PICKLE_MACHINE_H

#include "formats/pickle.h"

enum { ZR_PICKLE_MOST_MARKS = 1000 };

typedef const zr_pickle_value *value;

struct zr_pickle_machine {
    const char *name; // the file's
    const unsigned char *text;
    size_t length, at, start; // start: where the instruction begins
    value *stack;
    size_t height, stack_room;
    size_t marks[ZR_PICKLE_MOST_MARKS]; // heights of the stack
    int mark_count;
    value *memo;
    size_t memo_count, memo_room;
    struct zr_pickle_block *blocks;
    size_t memory;
    bool stopped;
    zero_error *error;
};

zero_status zr_pickle_refuse(const struct zr_pickle_machine *m, const char *what);
// Returns the failure after a function returned NULL.
zero_status zr_pickle_failed(const struct zr_pickle_machine *m);

// Returns zeroed memory, or NULL where a pickle's memory is used up.
void *zr_pickle_alloc(struct zr_pickle_machine *m, size_t bytes);
zr_pickle_value *zr_pickle_make(struct zr_pickle_machine *m, zr_pickle_kind kind); // or NULL
zero_status zr_pickle_extend(struct zr_pickle_machine *m, zr_pickle_items *list,
                             const zr_pickle_items *with);

// Takes the next bytes of the text; NULL where it ends before.
const unsigned char *zr_pickle_next_bytes(struct zr_pickle_machine *m, size_t bytes);

// Pushes v; a NULL v fails with what zr_pickle_make failed with.
zero_status zr_pickle_push(struct zr_pickle_machine *m, value v);
zero_status zr_pickle_pop(struct zr_pickle_machine *m, value *out);
// Returns the number of values above the topmost mark; those below cannot be reached.
size_t zr_pickle_count_above_mark(const struct zr_pickle_machine *m);
zero_status zr_pickle_mark(struct zr_pickle_machine *m);
// Removes the topmost mark and returns the values above it, which stay in place until the next
// push.
zero_status zr_pickle_pop_mark(struct zr_pickle_machine *m, zr_pickle_items *out);

// The memo's numbers are consecutive, as Python's pickler assigns them. Put stores the topmost
// value.
zero_status zr_pickle_memo_put(struct zr_pickle_machine *m, size_t index);
zero_status zr_pickle_memo_get(struct zr_pickle_machine *m, size_t index);

// Instructions, for the table in pickle.c.
zero_status zr_pickle_persistent(struct zr_pickle_machine *m, const unsigned char *argument);
zero_status zr_pickle_reduce(struct zr_pickle_machine *m, const unsigned char *argument);
zero_status zr_pickle_build(struct zr_pickle_machine *m, const unsigned char *argument);

#endif
