// Orders of the mesh over the nodes. The first axis has neighbouring devices. Pure.
#ifndef ZR_SIMULATE_ORDER_H
#define ZR_SIMULATE_ORDER_H

#include "simulate/step.h"

// Reads "data,tensor" into run->order: the axes that are named come first, in this order, and the
// others follow in that of "tensor,context,data,pipeline". ZERO_ERR_USAGE: a name that is no axis,
// or one twice.
zero_status zr_sim_order_read(const char *text, zr_sim_run *run, zero_error *error);

// Tries all orders, and sets run->order to the fastest and *out to its step. `run` is complete.
// Errors as zr_sim_step_find.
zero_status zr_sim_best_order(zr_sim_run *run, zr_sim_step *out, zero_error *error);

#endif
