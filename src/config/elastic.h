// Elasticity: one global batch that many numbers of ranks can share, so that a run can change its
// number of ranks and keep its batch. Ranks are data ranks here. These are pure functions, which
// compute what DeepSpeed 0.19.6 does (0.19.8 has removed the section).
//
//   version 0.1   N ranks can share a batch B if some micro-batch m of the list has m x N
//                 dividing B. Candidates for B are each m and the least common multiple of all,
//                 times the largest highly composite number that keeps them within
//                 max_train_batch_size. The one that most numbers of ranks can share is taken.
//   version 0.2   The same on machines of num_gpus_per_node ranks. A number of ranks that this does
//                 not name takes the largest batch it can, which differs from that of the others.
#ifndef ZR_CONFIG_ELASTIC_H
#define ZR_CONFIG_ELASTIC_H

#include "base/errors.h"

// MOST_RANKS: as many divisors as a batch can have.
enum { ZR_ELASTIC_MOST_MICROS = 64, ZR_ELASTIC_MOST_RANKS = 1344 };
#define ZR_ELASTIC_MOST_SAMPLES 1000000000

typedef struct zr_elastic_rule { // the section's keys
    bool by_node;                // version 0.2
    int64_t most_samples;        // max_train_batch_size
    int64_t micros[ZR_ELASTIC_MOST_MICROS];
    int micro_count;
    int64_t min_ranks, max_ranks; // min_gpus, max_gpus; max_ranks may be 0
    int64_t node_ranks;           // num_gpus_per_node; of version 0.2
    bool prefer_larger;
} zr_elastic_rule;

typedef struct zr_elastic {
    zr_elastic_rule rule;
    int64_t batch;                        // samples
    int64_t ranks[ZR_ELASTIC_MOST_RANKS]; // (count) numbers of ranks that can share it, ascending
    int count;                            // 0: no number of ranks can
} zr_elastic;

typedef struct zr_elastic_batch {
    int64_t train, micro, accumulation;
    bool other; // the batch differs from that of the named numbers of ranks (version 0.2)
} zr_elastic_batch;

// Finds the batch and the numbers of ranks that share it. Every value of the rule must be at least
// 1 and at most ZR_ELASTIC_MOST_SAMPLES. Returns ZERO_ERR_CONFIG if a micro-batch is larger than
// the largest batch.
zero_status zr_elastic_solve(const zr_elastic_rule *rule, zr_elastic *out, zero_error *error);
// Computes what N ranks train with; returns false if they cannot share the batch.
bool zr_elastic_share(const zr_elastic *elastic, int64_t ranks, zr_elastic_batch *out);
// Writes "1, 2, 3, 4, ... (32 in all)", cut off at the end of out.
void zr_elastic_list(const zr_elastic *elastic, char *out, size_t bytes);

#endif
