// Checkpoints of DeepSpeed's ZeRO stages 1, 2 and 3 as a source: fp32 weights, the optimizer's
// states, and the state of the run.
//
//   DIR/latest                                                 "global_step100": the TAG
//   DIR/TAG/mp_rank_00_model_states.pt                         stages 1, 2: names and shapes, in
//                                                              the order of the flat vectors
//   DIR/TAG/zero_pp_rank_R_mp_rank_00_model_states.pt          stage 3: the same, from each rank
//   DIR/TAG/[bf16_]zero_pp_rank_R_mp_rank_00_optim_states.pt   rank R's part of every flat vector
//
//   stages 1, 2   a group's tensors, one after another, are one vector; rank R has the R-th of
//                 equal parts, padded at its end:
//                 | wte ........ | wpe . | h.0.ln_1 | ...  pad |
//                 | rank 0           | rank 1          | rank 2 |
//   stage 3       every tensor is cut by itself, ceil(elements / ranks) for each; rank R's parts,
//                 one after another, are its vector, cut into sub-groups:
//                 rank R: | wte[R] .. | wpe[R] | h.0.ln_1[R] | ... |
//
// This header is for the files that read them: deepspeed.c (the files and their contents),
// deepspeed_parts.c (the ranks' parts), deepspeed_layout.c (where every tensor lies) and
// deepspeed_state.c (the state of the run). source.h declares what others call.
#ifndef ZR_FORMATS_DEEPSPEED_H
#define ZR_FORMATS_DEEPSPEED_H

#include "formats/source.h"
#include "formats/torch_file.h"

enum { ZR_DS_VECTORS = 5 }; // the weights, and the states of known optimizers

// fp32 elements, from a byte of a file on.
typedef struct zr_ds_part {
    int file;
    int64_t begin, elements;
} zr_ds_part;
typedef struct zr_ds_stretch {
    int file;
    int64_t begin, bytes;
} zr_ds_stretch;
// The stretches that a tensor consists of.
typedef struct zr_ds_tensor {
    int first, count;
} zr_ds_tensor;

typedef struct zr_ds_vector {
    const char *name;
    // (groups, ranks): the weights or a state of each flat vector
    zr_ds_part *parts;
    zr_ds_tensor *tensors; // (tensor_count of the source's vector)
} zr_ds_vector;

typedef struct zr_deepspeed {
    char *folder; // DIR/TAG
    int ranks, stage, groups;
    // True if one file has all parameters of the model; at stage 3 each rank's file has a part.
    bool whole;
    zr_torch_file *optim; // (ranks); once the source is open, their pickles are freed
    zr_torch_file *model; // (models)
    int models;           // 1, or at stage 3 the number of ranks
    int vector_count;
    zr_ds_vector vectors[ZR_DS_VECTORS];
    zr_ds_stretch *stretches;
    int stretch_count, stretch_room;
} zr_deepspeed;

// Optim files are numbered first, then model files.
const zr_torch_file *zr_ds_file(const zr_deepspeed *ds, int file);
const char *zr_ds_path(const zr_deepspeed *ds, int file);
// Returns its "optimizer_state_dict".
const zr_pickle_value *zr_ds_optimizer(const zr_deepspeed *ds, int rank);
// Returns the list of flat weights by group.
const zr_pickle_value *zr_ds_flat(const zr_deepspeed *ds, int rank);
// Returns what the optimizer keeps of a group, a dict; NULL if there is none.
const zr_pickle_value *zr_ds_group_state(const zr_deepspeed *ds, int rank, int group);
extern const char *const zr_ds_states[ZR_DS_VECTORS - 1];

// Reads the vectors and their parts.
zero_status zr_ds_read_parts(zr_deepspeed *ds, zero_error *error);
zero_status zr_ds_lay_out(zr_deepspeed *ds, zr_source *out, zero_error *error);
zero_status zr_ds_describe(const zr_deepspeed *ds, zr_source *out, zero_error *error);

#endif
