// The running hash of messages: plan/ computes it beforehand, and comm/ folds in each message as it
// happens (contract 8).
#ifndef ZR_BASE_MESSAGE_H
#define ZR_BASE_MESSAGE_H

#include "base/errors.h"

#define ZR_MESSAGE_SEED 0x9e3779b97f4a7c15ull

static inline uint64_t zr_message_fold(uint64_t hash, int op, int slot, int64_t shard_elems)
{
    hash ^= (uint64_t)op << 56 ^ (uint64_t)(uint32_t)slot << 32 ^ (uint64_t)shard_elems;
    hash *= 0xff51afd7ed558ccdull;
    return hash ^ hash >> 32;
}

#endif
