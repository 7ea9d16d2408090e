// The machine that reads a pickle, between pickle_machine.c (its stack, its memo, its memory),
// pickle.c (the instructions) and pickle_calls.c (those that make more of values than containers).
#ifndef ZR_CHECKPOINT_PICKLE_MACHINE_H
#define ZR_CHECKPOINT_PICKLE_MACHINE_H

#include "checkpoint/pickle.h"

enum { ZR_PICKLE_MOST_MARKS = 1000 };

typedef const zr_pickle_value *value;

struct zr_pickle_machine {
    const char *name; // of the file
    const unsigned char *text;
    size_t length, at, start; // start: of the instruction
    value *stack;
    size_t height, stack_room;
    size_t marks[ZR_PICKLE_MOST_MARKS]; // heights
    int mark_count;
    value *memo;
    size_t memo_count, memo_room;
    struct zr_pickle_block *blocks;
    size_t memory;
    bool stopped;
    zero_error *error;
};

zero_status zr_pickle_refuse(const struct zr_pickle_machine *m, const char *what);
zero_status zr_pickle_failed(const struct zr_pickle_machine *m); // after NULL: what it failed with

// Zeroed; NULL where the memory that a pickle may take is used up.
void *zr_pickle_take(struct zr_pickle_machine *m, size_t bytes);
zr_pickle_value *zr_pickle_make(struct zr_pickle_machine *m, zr_pickle_kind kind); // or NULL
zero_status zr_pickle_extend(struct zr_pickle_machine *m, zr_pickle_items *list,
                             const zr_pickle_items *with);

// The next bytes of the text, or NULL.
const unsigned char *zr_pickle_need(struct zr_pickle_machine *m, size_t bytes);

// NULL: what zr_pickle_make failed with.
zero_status zr_pickle_push(struct zr_pickle_machine *m, value v);
zero_status zr_pickle_pop(struct zr_pickle_machine *m, value *out);
// Values above the topmost mark: those below are out of reach.
size_t zr_pickle_reach(const struct zr_pickle_machine *m);
zero_status zr_pickle_mark(struct zr_pickle_machine *m);
// What lies on the topmost mark, which goes away; the items stay where they are until the next
// push.
zero_status zr_pickle_pop_mark(struct zr_pickle_machine *m, zr_pickle_items *out);

// The memo's numbers follow each other, as Python's pickler gives them. Put: the topmost value.
zero_status zr_pickle_memo_put(struct zr_pickle_machine *m, size_t index);
zero_status zr_pickle_memo_get(struct zr_pickle_machine *m, size_t index);

// Instructions, as pickle.c's table has them.
zero_status zr_pickle_persistent(struct zr_pickle_machine *m, const unsigned char *argument);
zero_status zr_pickle_reduce(struct zr_pickle_machine *m, const unsigned char *argument);
zero_status zr_pickle_build(struct zr_pickle_machine *m, const unsigned char *argument);

#endif
