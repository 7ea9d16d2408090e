// Muon's update: the directions of matrices, which ranks hold in pieces, come together at their
// owners (plan/muon.h), are made orthogonal there, and go back.
//
//   walk 0      each rank: momentum, and a direction in state 1's place; vectors: AdamW
//   round       pieces of the directions -> owners' matrices; the iteration; the result back
//   walk 1      each rank: the weights of matrices, by the direction that came back
//
// Pieces are rectangles of the whole matrix, so shards, slices of tensor ranks and whole replicas
// are one case.
#ifndef ZR_ENGINE_MUON_H
#define ZR_ENGINE_MUON_H

#include "engine/update.h"

typedef struct zr_muon zr_muon; // NULL if the optimizer is another one

// Collective over the ranks of a pipeline stage: owners learn which pieces each rank has.
zero_status zr_muon_create(zero_engine *engine, zero_error *error);
void zr_muon_destroy(zr_muon *muon);
extern const zr_update_step zr_muon_steps[2];

#endif
