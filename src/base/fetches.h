// What of a collective crosses the network. The ranks of a machine divide an all-gather: each shard
// of a rank elsewhere crosses the network once, to one of them, in turn. plan/ computes it
// beforehand, comm/ does it.
#ifndef ZR_BASE_FETCHES_H
#define ZR_BASE_FETCHES_H

#include <stdint.h>
#include <zero/traffic.h>

// Returns how many of the shards of `strangers`, ranks on other machines, a rank brings to its
// machine, on which it is number `place` of `locals`.
static inline int zr_fetches(int strangers, int locals, int place)
{
    return (strangers + locals - 1 - place) / locals;
}

// Returns the shards of a reduce-scatter, an all-gather or an all-reduce, which is both, that come
// over the network to a rank with so many strangers, of which it fetches some.
static inline int zr_shards_from_afar(zero_comm_op op, int strangers, int fetches)
{
    return (op == ZERO_COMM_all_gather ? 0 : strangers) +
           (op == ZERO_COMM_reduce_scatter ? 0 : fetches);
}

// Returns how many of a collective's bytes do, which are those of `counted` shards (0: of none).
static inline int64_t zr_bytes_from_afar(zero_comm_op op, int64_t bytes, int counted, int strangers,
                                         int fetches)
{
    return counted > 0 ? bytes / counted * zr_shards_from_afar(op, strangers, fetches) : 0;
}

#endif
