// Between deepspeed.c (the files and what they say), deepspeed_parts.c (the ranks' parts),
// deepspeed_layout.c (where every tensor lies) and deepspeed_state.c (where the run stood).
#ifndef ZR_CHECKPOINT_DEEPSPEED_INTERNAL_H
#define ZR_CHECKPOINT_DEEPSPEED_INTERNAL_H

#include "checkpoint/deepspeed.h"
#include "checkpoint/torch_file.h"

enum { ZR_DS_VECTORS = 5 }; // the weights, and states of optimizers that are known

// fp32, from this byte of a file
typedef struct zr_ds_part {
    int file;
    int64_t begin, elements;
} zr_ds_part;
typedef struct zr_ds_run {
    int file;
    int64_t begin, bytes;
} zr_ds_run;
// runs
typedef struct zr_ds_tensor {
    int first, count;
} zr_ds_tensor;

typedef struct zr_ds_vector {
    const char *name;
    zr_ds_part *parts;     // (groups, ranks): the weights or a state of each flat vector
    zr_ds_tensor *tensors; // (the source's vector's tensor_count)
} zr_ds_vector;

typedef struct zr_deepspeed {
    char *folder; // DIR/TAG
    int ranks, stage, groups;
    // one file has the model's parameters; at stage 3 each rank's has a part
    bool whole;
    zr_torch_file *optim; // (ranks); their pickles are gone once it is open
    zr_torch_file *model; // (models)
    int models;           // 1, or at stage 3 ranks
    int vector_count;
    zr_ds_vector vectors[ZR_DS_VECTORS];
    zr_ds_run *runs;
    int run_count, run_room;
} zr_deepspeed;

// optim files first, then model files
const zr_torch_file *zr_ds_file(const zr_deepspeed *ds, int file);
const char *zr_ds_path(const zr_deepspeed *ds, int file);
// its "optimizer_state_dict"
const zr_pickle_value *zr_ds_optimizer(const zr_deepspeed *ds, int rank);
// list of flat weights by group
const zr_pickle_value *zr_ds_flat(const zr_deepspeed *ds, int rank);
// What the optimizer keeps of a group, a dict; NULL where there is none.
const zr_pickle_value *zr_ds_group_state(const zr_deepspeed *ds, int rank, int group);
extern const char *const zr_ds_states[ZR_DS_VECTORS - 1];

zero_status zr_ds_read_parts(zr_deepspeed *ds, zero_error *error); // vectors, with their parts
zero_status zr_ds_lay_out(zr_deepspeed *ds, zr_source *out, zero_error *error);
zero_status zr_ds_describe(const zr_deepspeed *ds, zr_source *out, zero_error *error);

#endif
