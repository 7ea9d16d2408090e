// Files of torch.save as a source of weights: pytorch_model.bin, alone or in shards with an index,
// and any other file of a state dict (names and tensors). Pickles are read as data (pickle.h), and
// nothing in them is executed.
#ifndef ZR_FORMATS_SOURCE_TORCH_H
#define ZR_FORMATS_SOURCE_TORCH_H

#include "formats/source.h"
#include "formats/torch_file.h"

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
    zr_torch_entry *entries; // (entry_count), sorted by name
} zr_torch_set;

// Opens the directory's files, or the file. From torch_set.c.
zero_status zr_torch_set_open(const char *path, zr_torch_set *out, zero_error *error);
void zr_torch_set_close(zr_torch_set *set); // a zeroed one is allowed

#endif
