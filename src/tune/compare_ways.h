// The ways in which the ranks of a job can share the training of one model, which zero compare puts
// side by side. Each is a few keys of a configuration; model, data and samples of a step stay the
// same.
#ifndef ZR_TUNE_COMPARE_WAYS_H
#define ZR_TUNE_COMPARE_WAYS_H

#include "base/json.h"
#include <zero/memory.h>

enum { ZR_MOST_WAYS = 9, ZR_WAY_TEXT = 160 };

typedef struct zr_way {
    const char *name;         // "ZeRO stage 2"
    int data, tensor, stages; // ranks: data x tensor x pipeline stages
    int stage;                // of ZeRO, among the data ranks
    zero_tier states;         // where parameters and optimizer states lie
    char effort[ZR_WAY_TEXT]; // the keys and flags that a user writes
    const char *code;         // what the way asks of a model's code
    char needs[ZR_WAY_TEXT];  // why the way cannot be on so many ranks; empty: it can
} zr_way;

// Lists the ways on `ranks` ranks, at least 2, in the order of the tables, and returns how many
// there are. nvme: the one with states on NVMe is among them.
int zr_ways_list(int ranks, bool nvme, zr_way out[ZR_MOST_WAYS]);

typedef struct zr_way_batch { // of every way
    int64_t samples;          // of a step, on all ranks
    int64_t micro_batch;      // of a data rank
} zr_way_batch;

// Writes the configuration of a way as JSON: `base`, a resolved one, with the keys of the way in
// place of its own; tensor ranks and pipeline stages are flags next to it. nvme: the directory, if
// the way's states lie there. Freed with zr_free; NULL: no memory.
char *zr_way_config(const zr_way *way, const json_t *base, const zr_way_batch *batch,
                    const char *nvme, zero_error *error);
// Returns the micro-batches of a step on a data rank.
int64_t zr_way_accumulation(const zr_way *way, const zr_way_batch *batch);

#endif
