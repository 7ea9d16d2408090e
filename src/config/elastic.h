// Elasticity: one global batch that many numbers of ranks can share, so that a run changes its
// ranks and keeps its batch. Pure functions, as DeepSpeed 0.19.6 computes them (0.19.8 has removed
// the section).
//
//   version 0.1   N ranks can share a batch B where some micro-batch m of the list has m x N
//                 dividing B. Candidates for B are each m and the least common multiple of all,
//                 times the largest highly composite number with which they stay within
//                 max_train_batch_size; the one that most numbers of ranks can share is taken.
//   version 0.2   the same on machines of num_gpus_per_node ranks. A number of ranks that this does
//                 not name takes the largest batch that it can: another than that of the others.
#ifndef ZR_CONFIG_ELASTIC_H
#define ZR_CONFIG_ELASTIC_H

#include "base/errors.h"

// the second: divisors that a batch can have
enum { ZR_ELASTIC_MOST_MICROS = 64, ZR_ELASTIC_MOST_RANKS = 1344 };
#define ZR_ELASTIC_MOST_SAMPLES 1000000000

typedef struct zr_elastic_rule { // the section's keys
    bool by_node;                // version 0.2
    int64_t most_samples;        // max_train_batch_size
    int64_t micros[ZR_ELASTIC_MOST_MICROS];
    int micro_count;
    int64_t min_ranks, max_ranks; // min_gpus, max_gpus
    int64_t node_ranks;           // num_gpus_per_node; of version 0.2
    bool prefer_larger;
} zr_elastic_rule;

typedef struct zr_elastic {
    zr_elastic_rule rule;
    int64_t batch;                        // samples
    int64_t ranks[ZR_ELASTIC_MOST_RANKS]; // (count) that can share it, ascending
    int count;                            // 0: nobody can
} zr_elastic;

typedef struct zr_elastic_batch {
    int64_t train, micro, accumulation;
    bool other; // not the batch of the numbers of ranks that are named (version 0.2)
} zr_elastic_batch;

// Every value of the rule is at least 1 and at most ZR_ELASTIC_MOST_SAMPLES. ZERO_ERR_CONFIG where
// a micro-batch is above the largest batch.
zero_status zr_elastic_solve(const zr_elastic_rule *rule, zr_elastic *out, zero_error *error);
// What N ranks train with; false where they cannot.
bool zr_elastic_share(const zr_elastic *elastic, int64_t ranks, zr_elastic_batch *out);
// "1, 2, 3, 4, ... (32 in all)", cut where out ends.
void zr_elastic_list(const zr_elastic *elastic, char *out, size_t bytes);

#endif
