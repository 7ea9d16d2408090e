// Between pickle.c, the machine, and pickle_calls.c, the instructions that make more of values than containers.
#ifndef ZR_CHECKPOINT_PICKLE_MACHINE_H
#define ZR_CHECKPOINT_PICKLE_MACHINE_H

#include "checkpoint/pickle.h"

typedef const zr_pickle_value *value;
struct zr_pickle_machine;

zero_status zr_pickle_refuse(const struct zr_pickle_machine *m, const char *what);
zero_status zr_pickle_failed(const struct zr_pickle_machine *m); // after zr_pickle_make: what it failed with
zr_pickle_value *zr_pickle_make(struct zr_pickle_machine *m, zr_pickle_kind kind); // NULL: zr_pickle_failed
zero_status zr_pickle_push(struct zr_pickle_machine *m, value v);                  // NULL: what zr_pickle_make failed with
zero_status zr_pickle_pop(struct zr_pickle_machine *m, value *out);

// Instructions, as pickle.c's table has them.
zero_status zr_pickle_persistent(struct zr_pickle_machine *m, const unsigned char *argument);
zero_status zr_pickle_reduce(struct zr_pickle_machine *m, const unsigned char *argument);
zero_status zr_pickle_build(struct zr_pickle_machine *m, const unsigned char *argument);

#endif
