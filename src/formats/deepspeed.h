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
#ifndef ZR_FORMATS_DEEPSPEED_H
#define ZR_FORMATS_DEEPSPEED_H

#include "formats/source.h"

// Returns whether the directory looks like one: DIR/latest names a folder in it, or it contains
// *_optim_states.pt.
bool zr_deepspeed_is(const char *path);
// Its vectors are the weights, and those of the optimizer's states that have their size (exp_avg,
// exp_avg_sq, sum, momentum_buffer); tied names appear once. Its `state` is like that of a
// checkpoint of ours (checkpoint/training_checkpoint.c), with "lineage".
zero_status zr_deepspeed_open(const char *path, zr_source *out, zero_error *error);

#endif
