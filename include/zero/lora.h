// Low-rank adapters (LoRA, arXiv 2106.09685) of the library's language models: next to each weight
// W of a block's linear layers, which keeps its values, stand A (r, in) and B (out, r), which
// train: y = x W + b + s (x A^T) B^T with s = alpha / r.
//
// A training from files needs none of this: the key "libzero.lora" of its configuration, an
// override in C (zero_train_options.overrides) and --lora of the program say the same text.
#ifndef ZERO_LORA_H
#define ZERO_LORA_H

#include <zero/model.h>

#ifdef __cplusplus
extern "C" {
#endif

// Creates the model with adapters; everything else of it is frozen. adapters:
// "r=16[,alpha=32][,targets=all-linear][,dropout=0.05][,rslora][,dora]" (docs/fine-tuning.md). An
// engine of it takes the weights of `model` by zero_load_weights, and an adapter, a directory that
// peft has saved or zero_train has written, by a second zero_load_weights; zero_save_weights writes
// the adapter's file, and checkpoints have adapters and their states alone. `model`, which
// zero_gpt2_create, zero_llama_create or zero_rows_create has made, must outlive it. Returns
// ZERO_ERR_CONFIG for a text that is wrong, with what would be right, ZERO_ERR_UNSUPPORTED for a
// model that a program has made itself. Free it with zero_lora_destroy.
ZERO_API zero_status zero_lora_create(const zero_model *model, const char *adapters,
                                      zero_model **out, zero_error *error);
// The same on a base whose linear layers are kept in `base`: "nf4" or "int8", as bitsandbytes makes
// them (docs/fine-tuning.md), or NULL for plain weights. zero_load_weights makes the codes of plain
// files as it reads them, or reads those that transformers has saved.
ZERO_API zero_status zero_lora_create_on(const zero_model *model, const char *base,
                                         const char *adapters, zero_model **out, zero_error *error);
ZERO_API void zero_lora_destroy(zero_model *model);

#ifdef __cplusplus
}
#endif
#endif
