// A model's configuration as the keys of a GGUF file, and back.
#ifndef ZR_FORMATS_GGUF_CONFIG_H
#define ZR_FORMATS_GGUF_CONFIG_H

#include "formats/gguf.h"
#include "model/lm_table.h"

// Writes the keys of the architecture, such as "llama.block_count". *factors (zr_free; rotated / 2)
// has the numbers by which rotary frequencies are divided, for rope_freqs.weight; NULL: there are
// none.
// ZERO_ERR_UNSUPPORTED, with the reason, for what llama.cpp does not compute.
zero_status zr_gguf_put_config(zr_gguf_writer *w, const zr_lm_config *config, float **factors,
                               zero_error *error);
// Reads them, with the ids of the tokenizer's begin and end. ZERO_ERR_UNSUPPORTED for an
// architecture that is not computed here; ZERO_ERR_DATA with path and key.
zero_status zr_gguf_read_config(const zr_gguf *gguf, zr_lm_config *out, zero_error *error);

// After the architecture's name: whether each layer has the window.
#define ZR_GGUF_WINDOW_PATTERN "attention.sliding_window_pattern"
#define ZR_GGUF_FACTORS "rope_freqs.weight"

#endif
