// Tensor ranks that are threads, and exchange through plain memory. What they exchange must be what
// the sizes of their units list.
#ifndef TEST_LAYERS_TENSOR_RANKS_H
#define TEST_LAYERS_TENSOR_RANKS_H

#include "layers/linear.h"
#include "layers_harness.h"
#include <pthread.h>

enum { MOST_RANKS = 8 };

typedef struct world { // of tensor ranks
    int size;
    char *windows[MOST_RANKS];
    pthread_barrier_t all, groups[MOST_RANKS]; // groups: by the first rank that shares keys
} world;

typedef struct rank {
    struct zr_exchanger exchanger; // first, because `run` gets its address
    world *world;
    harness *net;
    int next;       // exchange of the unit's list
    unsigned parts; // of backward that the call computes; 0: it is forward
} rank;

// Says whether the rank's current call makes an exchange of the list.
bool rank_makes(const rank *r, const zero_exchange *exchange);
// zr_exchanger.run of a rank.
zero_status rank_run(const struct zr_exchanger *self, const zero_context *context,
                     zero_exchange_kind kind, int replicas, int64_t offset, int64_t elements,
                     zero_dtype dtype);

#endif
