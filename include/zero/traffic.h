// The traffic of a rank: the bytes that it has fetched from other ranks, by collective operation,
// and those that it has moved between its tiers. All counts start when the engine is created, and
// none of the functions is collective.
#ifndef ZERO_TRAFFIC_H
#define ZERO_TRAFFIC_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zero_engine; // engine.h

#define ZERO_COMM_OPS(X)                                                                           \
    X(all_reduce)                                                                                  \
    X(reduce_scatter)                                                                              \
    X(all_gather)                                                                                  \
    X(broadcast)                                                                                   \
    X(reduce)                                                                                      \
    X(barrier)                                                                                     \
    X(send)                                                                                        \
    X(recv)
typedef enum zero_comm_op {
#define ZERO_COMM_ENUM(name) ZERO_COMM_##name,
    ZERO_COMM_OPS(ZERO_COMM_ENUM)
#undef ZERO_COMM_ENUM
        ZERO_COMM_OP_COUNT
} zero_comm_op;

typedef struct zero_traffic {
    int64_t calls[ZERO_COMM_OP_COUNT];
    // Bytes that this rank had to fetch from others: (N-1)/N of the operands; 0 for mapped flat
    // parameters. Between pipeline stages: send counts the bytes that this rank has sent by any
    // way; recv those that it has received, and 0 if it read them in place.
    int64_t bytes[ZERO_COMM_OP_COUNT];
    // The part of them that came from other machines (send: went to them); not counted for
    // broadcast and reduce.
    int64_t network[ZERO_COMM_OP_COUNT];
} zero_traffic;

typedef struct zero_io {        // bytes that moved between tiers
    int64_t to_host, to_device; // between device and host
    int64_t nvme_read, nvme_written;
} zero_io;

ZERO_API void zero_traffic_report(const struct zero_engine *engine, zero_traffic *out);
ZERO_API void zero_io_report(const struct zero_engine *engine, zero_io *out);
// Returns what was added from `before` to `after`. before: NULL if nothing had been counted yet.
ZERO_API zero_traffic zero_traffic_between(const zero_traffic *before, const zero_traffic *after);
ZERO_API zero_io zero_io_between(const zero_io *before, const zero_io *after);

#ifdef __cplusplus
}
#endif

#endif
