// Tensors in files of any program, for zero inspect and zero convert.
//
//   a checkpoint of ours               weights, exp_avg, ...: every extent is compared with its
//                                      checksum as it is read
//   a Hugging Face directory or file   weights; the format has no checksums
//   a DeepSpeed checkpoint, ZeRO 1-3   weights, exp_avg, ...: put together from the parts of all
//                                      ranks (deepspeed.h)
//   a GGUF file                        weights, as Hugging Face's files have them (source_gguf.h)
//   pytorch_model.bin, or a file       weights (source_torch.h)
//   of a state dict
//
// Tensors are whole, have the dtype of the files, and are read by ranges, so that no caller needs
// memory for a whole one.
#ifndef ZR_FORMATS_SOURCE_H
#define ZR_FORMATS_SOURCE_H

#include "formats/manifest.h"
#include "formats/safetensors.h"

typedef enum zr_source_kind {
    ZR_SOURCE_CHECKPOINT,
    ZR_SOURCE_SAFETENSORS,
    ZR_SOURCE_DEEPSPEED,
    ZR_SOURCE_GGUF,
    ZR_SOURCE_TORCH
} zr_source_kind;

typedef struct zr_source_tensor {
    char *name;
    const char *dtype; // its name in safetensors; static
    int dims;
    int64_t shape[8];
    int64_t bytes; // of all elements
} zr_source_tensor;

typedef struct zr_source_vector {
    char *name; // "weights", "exp_avg", ...
    int tensor_count;
    zr_source_tensor *tensors; // (tensor_count)
} zr_source_vector;

typedef struct zr_source zr_source;
typedef void (*zr_source_progress)(void *user, int64_t bytes);
typedef void (*zr_source_damage)(void *user, const zero_error *what);

typedef struct zr_source_ops {
    zero_status (*read)(zr_source *source, int vector, int tensor, int64_t first, int64_t bytes,
                        void *out, zero_error *error);
    // Optional, for files with checksums. Calls `damaged` for each part that differs from what was
    // written.
    zero_status (*verify)(zr_source *source, zr_source_progress progress, zr_source_damage damaged,
                          void *user, zero_error *error);
    void (*close)(zr_source *source);
} zr_source_ops;

struct zr_source {
    const zr_source_ops *ops;
    zr_source_kind kind;
    // The path that was opened, which may lie below the path that was given.
    char *path;
    int vector_count;
    zr_source_vector *vectors; // (vector_count), the weights first
    // Step and other values of a checkpoint; NULL if there is none.
    json_t *state;
    int64_t file_bytes;     // of all files together
    void *own;              // private data of the ops
    struct zr_merge *merge; // an adapter that is added to what is read (source_merge.h), or NULL
};

// Opens a checkpoint's directory (manifest.json), a DeepSpeed directory (latest, or
// *_optim_states.pt), a Hugging Face directory, a file *.safetensors, a GGUF file, or a file of
// torch.save.
// ZERO_ERR_DATA and ZERO_ERR_IO with the path.
zero_status zr_source_open(const char *path, zr_source *out, zero_error *error);
void zr_source_close(zr_source *source);                         // a zeroed one is allowed
int zr_source_find(const zr_source *source, const char *vector); // -1 if it has none of that name
// Reads bytes [first, first + bytes) of a tensor.
zero_status zr_source_read(zr_source *source, int vector, int tensor, int64_t first, int64_t bytes,
                           void *out, zero_error *error);
// Returns whether elements of this dtype (a name of safetensors) are real numbers that
// zr_source_widen can convert; its `in` and `out` must not overlap.
bool zr_source_is_real(const char *dtype);
void zr_source_widen(const char *dtype, const void *in, int64_t count, float *out);

// For code that fills a source: makes room for `count` vectors, or for the tensors of a vector.
// Checks the sizes.
zero_status zr_source_add(zr_source *source, const char *name, int tensors, zr_source_vector **out,
                          zero_error *error);
zero_status zr_source_set(zr_source_tensor *tensor, const char *name, const char *dtype, int dims,
                          const int64_t *shape, zero_error *error);

zero_status zr_source_open_checkpoint(const char *path, zr_source *out, zero_error *error);
zero_status zr_source_open_safetensors(const char *path, zr_source *out, zero_error *error);
// Returns whether the directory looks like a checkpoint of DeepSpeed: DIR/latest names a folder in
// it, or it contains *_optim_states.pt.
bool zr_deepspeed_is(const char *path);
// Its vectors are the weights, and those of the optimizer's states that have their size (exp_avg,
// exp_avg_sq, sum, momentum_buffer); tied names appear once. Its `state` is like that of a
// checkpoint of ours (checkpoint/training_checkpoint.c), with "lineage".
zero_status zr_deepspeed_open(const char *path, zr_source *out, zero_error *error);

#endif
