// Collective operations as plan/ computes them beforehand and comm/ carries them out: their names,
// the running hash of messages (contract 8), and how much of one crosses the network.
#ifndef ZR_BASE_TRAFFIC_H
#define ZR_BASE_TRAFFIC_H

#include "base/errors.h"
#include <zero/grid.h>
#include <zero/traffic.h>

// Returns the name of an operation in files and messages: "all_reduce".
static inline const char *zr_op_name(zero_comm_op op)
{
    static const char *const names[ZERO_COMM_OP_COUNT] = {
#define NAME(name) [ZERO_COMM_##name] = #name,
        ZERO_COMM_OPS(NAME)
#undef NAME
    };
    return names[op];
}

// Returns "tensor", "data" or "pipeline", as keys and messages name the ranks of an axis.
static inline const char *zr_axis_name(zero_axis axis)
{
    static const char *const names[ZERO_AXIS_COUNT] = {[ZERO_AXIS_tensor] = "tensor",
                                                       [ZERO_AXIS_data] = "data",
                                                       [ZERO_AXIS_pipeline] = "pipeline"};
    return names[axis];
}

#define ZR_MESSAGE_SEED 0x9e3779b97f4a7c15ull

// Returns the hash of the messages so far, with one more folded in.
static inline uint64_t zr_message_fold(uint64_t hash, int op, int slot, int64_t shard_elems)
{
    hash ^= (uint64_t)op << 56 ^ (uint64_t)(uint32_t)slot << 32 ^ (uint64_t)shard_elems;
    hash *= 0xff51afd7ed558ccdull;
    return hash ^ hash >> 32;
}

// The ranks of a machine divide an all-gather: each shard of a rank on another machine crosses the
// network once, to one of them, in turn.

// Returns how many shards of `strangers` (ranks on other machines) a rank fetches for its machine,
// where it is number `place` of `locals` ranks.
static inline int zr_fetches(int strangers, int locals, int place)
{
    return (strangers + locals - 1 - place) / locals;
}

// Returns how many shards of a collective come over the network to a rank that has `strangers` and
// fetches `fetches` of their shards. An all-reduce is a reduce-scatter and an all-gather.
static inline int zr_collective_network_shards(zero_comm_op op, int strangers, int fetches)
{
    return (op == ZERO_COMM_all_gather ? 0 : strangers) +
           (op == ZERO_COMM_reduce_scatter ? 0 : fetches);
}

// Returns how many shards of a reduce-scatter of codes come over the network to a rank. Where all
// machines have equal numbers of ranks (even), these sum up first, and one shard comes from each
// other machine.
static inline int zr_coded_network_shards(int size, int strangers, bool even)
{
    return even ? size / (size - strangers) - 1 : strangers;
}

// Returns how many of a collective's `bytes`, which are those of `counted` shards (0: it moves
// nothing), come over the network.
static inline int64_t zr_collective_network_bytes(zero_comm_op op, int64_t bytes, int counted,
                                                  int strangers, int fetches)
{
    return counted > 0 ? bytes / counted * zr_collective_network_shards(op, strangers, fetches) : 0;
}

#endif
