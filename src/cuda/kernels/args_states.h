// What the kernels of states.cu get (args.h).
#ifndef ZR_CUDA_ARGS_STATES_H
#define ZR_CUDA_ARGS_STATES_H

#include "args.h"

#define ZR_KERNELS_states(X) X(states, subtract_scaled)

// master -= step * direction, and the master's 16-bit copy.
#define ZR_ARGS_subtract_scaled(P, V, S, R)                                                        \
    P(float, master)                                                                               \
    P(const float, direction)                                                                      \
    P(void, parameters)                                                                            \
    V(int64_t, n)                                                                                  \
    V(float, step)                                                                                 \
    V(int32_t, parameters_type)
ZR_ARGS_DECLARE(subtract_scaled)

#endif
