// Files of torch.save as a source of weights: pytorch_model.bin, alone or in shards with an index,
// any other file of a state dict (names and tensors), and nanoGPT's ckpt.pt. Pickles are read as
// data (pickle.h), and nothing in them is executed.
#ifndef ZR_FORMATS_SOURCE_TORCH_H
#define ZR_FORMATS_SOURCE_TORCH_H

#include "formats/source.h"
#include "formats/torch_file.h"

#define ZR_NANOGPT_TOKENS "meta.pkl" // of characters, next to ckpt.pt
#define ZR_TORCH_WEIGHTS "pytorch_model.bin"
#define ZR_TORCH_INDEX "pytorch_model.bin.index.json" // of weights in several files

// Returns whether the path is a directory with weights of torch.save and none in safetensors, or a
// file with a name that torch.save's files have (*.bin, *.pt, *.pth).
bool zr_source_torch_is(const char *path);
// ZERO_ERR_DATA for a file that is cut short or holds something else than tensors under names;
// ZERO_ERR_UNSUPPORTED for a tensor whose elements do not lie one after another.
zero_status zr_source_open_torch(const char *path, zr_source *out, zero_error *error);

// A tensor of a state dict, as long as the files' pickles are kept.
typedef struct zr_torch_entry {
    const char *name;
    const zr_pickle_tensor *tensor;
    int file;
} zr_torch_entry;

typedef struct zr_torch_set { // the tensors of one file, or of all shards
    int file_count, entry_count;
    zr_torch_file *files;    // (file_count)
    zr_torch_entry *entries; // (entry_count), sorted by name; none of nanoGPT's ckpt.pt
} zr_torch_set;

// Opens the directory's files, or the file. From torch_set.c.
zero_status zr_torch_set_open(const char *path, zr_torch_set *out, zero_error *error);
void zr_torch_set_close(zr_torch_set *set); // a zeroed one is allowed

typedef struct zr_torch_place { // where a tensor's elements lie
    int file;                   // -1: nowhere; they are zeros
    int64_t begin;
    int64_t rows, columns; // in the file, of a matrix that is turned on reading; else 0
} zr_torch_place;

typedef struct zr_torch_source {
    zr_torch_set set;
    zr_torch_place *places; // (tensors)
} zr_torch_source;

// Finds a tensor's elements; `name` is for messages.
zero_status zr_torch_place_find(const zr_torch_set *set, int file, const zr_pickle_tensor *tensor,
                                const char *name, zr_torch_place *out, zero_error *error);

// nanoGPT's ckpt.pt, a dict of "model", "model_args" and states of training. Its matrices lie as
// (out, in), GPT-2's in Hugging Face's files as (in, out): they are turned as they are read. Biases
// that a model without them lacks are zeros, with which the same is computed.
bool zr_nanogpt_is(const zr_pickle_value *root);
// The same of a source that has been opened.
bool zr_source_is_nanogpt(const zr_source *source);
// Lists the tensors of such a file, and sets the state's "model_config".
zero_status zr_nanogpt_list(zr_torch_source *own, zr_source *out, zero_error *error);

#endif
