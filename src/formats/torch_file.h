// A file that torch.save wrote: a zip archive of one pickle and of storages' bytes, each in a
// record of its own.
//
//   NAME/data.pkl     the values; tensors refer to storages by key
//   NAME/data/KEY     the bytes of a storage
//   NAME/byteorder    "little"
#ifndef ZR_FORMATS_TORCH_FILE_H
#define ZR_FORMATS_TORCH_FILE_H

#include "formats/pickle.h"

// The archive. torch.save stores records uncompressed, so a tensor's bytes are read where they lie.
//
//   [ header, name, padding ][ record ] [ header, name, padding ][ record ] ...
//   [ directory ][ zip64 end ][ end ]
//
// The invariant on which readers build: every record lies whole before the directory, and no two
// records share a byte. An archive that is compressed, encrypted or in several volumes, or that has
// a name twice, is refused. So an archive never takes more memory than its directory has bytes.
typedef struct zr_zip_record {
    char *name;
    // Where its header and its bytes begin in the file, and how many bytes there are.
    int64_t header, begin, bytes;
    uint32_t crc; // CRC-32 of the bytes
} zr_zip_record;

typedef struct zr_zip {
    char *path;
    int fd;
    int64_t size;
    bool checksums; // false if torch was set to write none: all are 0 then
    int count;
    zr_zip_record *records; // (count), sorted by name
} zr_zip;

// ZERO_ERR_DATA with path and record; ZERO_ERR_IO.
zero_status zr_zip_open(const char *path, zr_zip *out, zero_error *error);
void zr_zip_close(zr_zip *zip);                                        // a zeroed one is allowed
const zr_zip_record *zr_zip_find(const zr_zip *zip, const char *name); // NULL if there is none
// Checks every byte of every record against its CRC-32, if the archive has any. `progress`, if not
// NULL, is called with the bytes that were read.
zero_status zr_zip_verify(const zr_zip *zip, void (*progress)(void *user, int64_t bytes),
                          void *user, zero_error *error);

typedef struct zr_torch_file {
    zr_zip zip;
    char *prefix;     // "NAME/"
    zr_pickle pickle; // its root is what was saved
} zr_torch_file;

zero_status zr_torch_open(const char *path, zr_torch_file *out, zero_error *error);
void zr_torch_close(zr_torch_file *file); // a zeroed one is allowed
// Compares all records with their CRC-32. `damaged` is called if one differs or cannot be read.
zero_status zr_torch_verify(const zr_torch_file *file, void (*progress)(void *user, int64_t bytes),
                            void (*damaged)(void *user, const zero_error *what), void *user,
                            zero_error *error);
// Finds where the elements of a contiguous tensor begin in this file. They lie whole in a record of
// exactly the size of their storage. `what` is for messages.
zero_status zr_torch_position(const zr_torch_file *file, const zr_pickle_tensor *tensor,
                              const char *what, int64_t *begin, zero_error *error);

#endif
