// A file that torch.save wrote: an archive (zip.h) of one pickle and of storages' bytes, each in a
// record of its own.
//
//   NAME/data.pkl     the values; tensors refer to storages by key
//   NAME/data/KEY     the bytes of a storage
//   NAME/byteorder    "little"
#ifndef ZR_FORMATS_TORCH_FILE_H
#define ZR_FORMATS_TORCH_FILE_H

#include "formats/pickle.h"
#include "formats/zip.h"

typedef struct zr_torch_file {
    zr_zip zip;
    char *prefix;     // "NAME/"
    zr_pickle pickle; // its root is what was saved
} zr_torch_file;

zero_status zr_torch_open(const char *path, zr_torch_file *out, zero_error *error);
void zr_torch_close(zr_torch_file *file); // a zeroed one is allowed
// Finds where the elements of a contiguous tensor begin in this file. They lie whole in a record of
// exactly the size of their storage. `what` is for messages.
zero_status zr_torch_position(const zr_torch_file *file, const zr_pickle_tensor *tensor,
                              const char *what, int64_t *begin, zero_error *error);

#endif
