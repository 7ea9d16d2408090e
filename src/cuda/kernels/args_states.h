// What the kernels of states.cu get (args.h). `*_type` is a zr_kernel_type; n counts elements. An
// array begins at any element.
#ifndef ZR_CUDA_ARGS_STATES_H
#define ZR_CUDA_ARGS_STATES_H

#include "args.h"

#define ZR_KERNELS_states(X)                                                                       \
    X(states, update)                                                                              \
    X(states, update_blocks)                                                                       \
    X(states, subtract_scaled)                                                                     \
    X(states, average)

// How an element is updated. Adam's two kinds differ in their factors alone.
enum zr_kernel_update {
    ZR_UPDATES_ADAM,
    ZR_UPDATES_SGD,
    ZR_UPDATES_ADAGRAD,
    ZR_UPDATES_LION,
    ZR_UPDATES_LAMB
};

enum { ZR_STATE_ELEMENTS = 256, ZR_STATE_CODES = 256 }; // of a block in eight bits; of a map

// out: the master, which the kernel writes, and whose 16-bit copy it writes to parameters, unless
// that is NULL; of LAMB the direction. SGD without momentum has no state0.
//
// The factors are made in double on the host: state = keep state + take g, and the others as
// states.cu has them.
#define ZR_ARGS_update(P, V, S, R)                                                                 \
    P(const float, master)                                                                         \
    P(float, out)                                                                                  \
    P(void, state0)                                                                                \
    P(void, state1)                                                                                \
    P(const void, gradient)                                                                        \
    P(void, parameters)                                                                            \
    V(int64_t, n)                                                                                  \
    V(int32_t, kind)                                                                               \
    V(int32_t, gradient_type)                                                                      \
    V(int32_t, states_type)                                                                        \
    V(int32_t, parameters_type)                                                                    \
    V(float, scale)                                                                                \
    V(float, keep0)                                                                                \
    V(float, take0)                                                                                \
    V(float, keep1)                                                                                \
    V(float, take1)                                                                                \
    V(float, keep_p)                                                                               \
    V(float, step)                                                                                 \
    V(float, root)                                                                                 \
    V(float, epsilon)                                                                              \
    V(float, weight_decay)                                                                         \
    V(int32_t, first)                                                                              \
    V(int32_t, nesterov)
ZR_ARGS_DECLARE(update)

// Adam of states in eight bits: zr_block_constants (compute/state_blocks.h), and the maps that
// codes stand for (base/dynamic_map.h).
#define ZR_ARGS_update_blocks(P, V, S, R)                                                          \
    P(float, master)                                                                               \
    P(uint8_t, codes0)                                                                             \
    P(uint8_t, codes1)                                                                             \
    P(float, scales0)                                                                              \
    P(float, scales1)                                                                              \
    P(const void, gradient)                                                                        \
    P(void, parameters)                                                                            \
    V(int64_t, n)                                                                                  \
    V(int32_t, gradient_type)                                                                      \
    V(int32_t, parameters_type)                                                                    \
    V(float, scale)                                                                                \
    V(float, keep0)                                                                                \
    V(float, take0)                                                                                \
    V(float, keep1)                                                                                \
    V(float, take1)                                                                                \
    V(float, keep_p)                                                                               \
    V(float, step)                                                                                 \
    V(float, root)                                                                                 \
    V(float, epsilon)                                                                              \
    V(float, weight_decay)                                                                         \
    R(float, signed_map, ZR_STATE_CODES)                                                           \
    R(float, unsigned_map, 256)
ZR_ARGS_DECLARE(update_blocks)

// master -= step * direction, and the master's 16-bit copy.
#define ZR_ARGS_subtract_scaled(P, V, S, R)                                                        \
    P(float, master)                                                                               \
    P(const float, direction)                                                                      \
    P(void, parameters)                                                                            \
    V(int64_t, n)                                                                                  \
    V(float, step)                                                                                 \
    V(int32_t, parameters_type)
ZR_ARGS_DECLARE(subtract_scaled)

// average += take * (master - average)
#define ZR_ARGS_average(P, V, S, R)                                                                \
    P(const float, master)                                                                         \
    P(float, average)                                                                              \
    V(int64_t, n)                                                                                  \
    V(float, take)                                                                                 \
    V(int32_t, unused)
ZR_ARGS_DECLARE(average)

#endif
