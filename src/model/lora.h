// Low-rank adapters (LoRA, arXiv 2106.09685): next to a weight W that keeps its values stand A
// (rank, in) and B (out, rank), which train,
//
//   y = x W + b + s (dropout(x) A^T) B^T,     s = alpha / rank, or alpha / sqrt(rank) (rsLoRA)
//
// With magnitudes m (out), which train too (DoRA, arXiv 2402.09353), m is the length of the rows of
// c (W + s B A), where the norm of a row of W + s B A is a constant in backward:
//
//   y = W x + b + (c - 1) W dropout(x) + c s B A dropout(x),     c = m / ||W + s B A||
//
// A begins as torch's Linear does, U(-1/sqrt(in), 1/sqrt(in)), B as zero, and m as the norms of W,
// so that a training begins at the model that it adapts.
//
// What adapters a model has is part of its configuration (zr_lm_config.lora): all its other tensors
// are frozen. Names in files are those of the weights with ".lora_A.weight", ".lora_B.weight" and
// ".lora_magnitude_vector" in place of ".weight".
#ifndef ZR_MODEL_LORA_H
#define ZR_MODEL_LORA_H

#include "base/errors.h"
#include "base/text.h"
#include <stdint.h>

struct zr_lm_config;

#define ZR_LORA_ALL "all-linear"
#define ZR_LORA_A ".lora_A.weight"
#define ZR_LORA_B ".lora_B.weight"
#define ZR_LORA_MAGNITUDE ".lora_magnitude_vector"
enum { ZR_LORA_MOST_RANK = 4096, ZR_LORA_TEXT = 512, ZR_LORA_TARGET = 64 };

typedef struct zr_lora {
    int64_t rank; // 0: the model has no adapters
    double alpha;
    float dropout;    // of what adapters read, from 0 to below 1
    bool rank_root;   // rsLoRA
    bool magnitudes;  // DoRA
    uint32_t targets; // bit t: tensor t of a block (zr_lm_tensors) has an adapter
} zr_lora;

// Parses "r=16,alpha=32,targets=all-linear,dropout=0.05,rslora,dora" for a configuration's model.
// Only r is needed: alpha is otherwise 2 r, and the targets are all linear layers of the blocks. A
// target is the last part of a layer's name ("q_proj"), or several of its last parts; other targets
// follow after commas or +. `name` says where the text is from, for messages. Returns
// ZERO_ERR_CONFIG for unknown words and targets, with the known ones, and for values out of range.
// A text that is NULL or "none" sets no adapters.
zero_status zr_lora_parse(const char *text, const char *name, const struct zr_lm_config *config,
                          zr_lora *out, zero_error *error);
// Writes adapters as zr_lora_parse reads them: text(size), ZR_LORA_TEXT or more.
void zr_lora_write(const zr_lora *lora, const struct zr_lm_config *config, char *text, size_t size);
float zr_lora_scale(const zr_lora *lora); // s
// Returns whether both compute the same where nothing is dropped; their dropout may differ.
bool zr_lora_computes_same(const zr_lora *a, const zr_lora *b);

// Find the targets that a name stands for, as a mask: 0 if it stands for none.
uint32_t zr_lora_targets_named(const struct zr_lm_config *config, const char *name, size_t length);
uint32_t zr_lora_all_targets(const struct zr_lm_config *config);
// Copies the name of a target's layer: the last part of it ("q_proj"), or its whole name within a
// block where several have the same last part (GPT-2's "attn.c_proj"). out: ZR_LORA_TARGET bytes.
void zr_lora_target_name(const struct zr_lm_config *config, int tensor, char *out, size_t size);

#endif
