// The tensors of a model, or of an adapter, as GGUF has them: other names, weights as (out, in),
// and the rows of some in another order.
#ifndef ZR_FORMATS_GGUF_TENSORS_H
#define ZR_FORMATS_GGUF_TENSORS_H

#include "formats/gguf.h"
#include "formats/source.h"
#include "model/lm_table.h"

typedef enum zr_gguf_order { // of the rows of a tensor
    ZR_GGUF_AS_IS,
    // Llama's queries and keys: a head's element i is next to its element i + half, because
    // neighbours turn together.
    //   in our files  a0 a1 a2 b0 b1 b2     in GGUF  a0 b0 a1 b1 a2 b2
    ZR_GGUF_NEIGHBOURS,
    // GPT-NeoX's queries, keys and values: all queries come first, then all keys.
    //   in our files  q0 k0 v0 q1 k1 v1     in GGUF  q0 q1 k0 k1 v0 v1    (each of a head)
    ZR_GGUF_THREE_PARTS
} zr_gguf_order;

enum { ZR_GGUF_NAME = 96 };

typedef struct zr_gguf_tensor {
    char name[ZR_GGUF_NAME];  // in GGUF: "blk.0.attn_q.weight"
    char model[ZR_GGUF_NAME]; // in our files: "model.layers.0.self_attn.q_proj.weight"
    int dims;                 // 1 or 2
    int64_t rows, columns;    // in GGUF; of a vector: its elements, and 1
    bool transposed;          // in our files the rows are columns
    bool plain;               // always fp32
    zr_gguf_order order;
    int64_t heads, head_dim; // of an order
    // From where it is written: the number of a source's tensor, or, if that is negative, `values`
    // (rows).
    int source;
    const float *values;
    const zr_gguf_type *type; // in the file
} zr_gguf_tensor;

// Returns how GGUF names and orders models of this kind; NULL for a program's own rows.
const zr_lm_gguf *zr_gguf_kind_of(const zr_lm_config *config);
// Lists the tensors of a model; *out (zr_free) has no sources and types yet. ZERO_ERR_UNSUPPORTED
// for a tensor that llama.cpp does not compute.
zero_status zr_gguf_tensors_of(const zr_lm_config *config, zr_gguf_tensor **out, int *count,
                               zero_error *error);
// Fills a tensor of block `layer`: number `t` of the architecture's.
void zr_gguf_block_tensor(const zr_lm_config *config, int layer, int t, zr_gguf_tensor *out);
// Return the row of our file for a row of GGUF's, and the other way round.
int64_t zr_gguf_row_of_model(const zr_gguf_tensor *tensor, int64_t row);
int64_t zr_gguf_row_of_file(const zr_gguf_tensor *tensor, int64_t row);
// Chooses the type: the wanted one, fp32 for norms and vectors, fp16 where a row is no whole number
// of blocks.
const zr_gguf_type *zr_gguf_type_for(const zr_gguf_tensor *tensor, const zr_gguf_type *wanted);

// Finds the source of each tensor by its name, and compares shapes. ZERO_ERR_DATA for a tensor that
// is missing or has another shape, and for one that GGUF would not have.
zero_status zr_gguf_find_sources(const zr_lm_config *config, const zr_source *source,
                                 zr_gguf_tensor *tensors, int count, zero_error *error);

typedef struct zr_gguf_export {
    const char *path;
    zr_gguf_writer *head;    // with its keys
    zr_gguf_tensor *tensors; // (count) with sources and types
    int count;
    zr_source *source;
    zr_source_progress progress; // optional; called with the bytes that were read
    void *user;
    // The results.
    int64_t bytes;
    int64_t overflowed; // finite numbers that became infinite in fp16
} zr_gguf_export;

// Writes the file, which appears whole or not at all. It takes a few MiB of memory, or 64 MiB where
// weights lie the other way round.
zero_status zr_gguf_write(zr_gguf_export *export, zero_error *error);

#endif
