// zip archives as torch.save writes them: records stored as they are, so that a tensor's bytes are
// read where they lie.
//
//   [ header, name, padding ][ record ] [ header, name, padding ][ record ] ... [ directory ][
//   zip64 end ][ end ]
//
// The invariant that readers build on: every record lies whole in front of the directory, and no
// two share a byte. What is compressed, encrypted, in several volumes or named twice is refused: an
// archive never takes more memory than its directory has bytes.
#ifndef ZR_CHECKPOINT_ZIP_H
#define ZR_CHECKPOINT_ZIP_H

#include "base/errors.h"

typedef struct zr_zip_record {
    char *name;
    int64_t header, begin, bytes; // of the file: where its header and its bytes begin, and how many
    uint32_t crc;                 // CRC-32 of the bytes
} zr_zip_record;

typedef struct zr_zip {
    char *path;
    int fd;
    int64_t size;
    bool checksums; // torch can be told to write none: then all are 0
    int count;
    zr_zip_record *records; // (count) by name
} zr_zip;

// ZERO_ERR_DATA naming path and record; ZERO_ERR_IO.
zero_status zr_zip_open(const char *path, zr_zip *out, zero_error *error);
void zr_zip_close(zr_zip *zip);                                        // zeroed ones are fine
const zr_zip_record *zr_zip_find(const zr_zip *zip, const char *name); // NULL where absent
// Every byte of every record against its CRC-32, where there are any. progress, if there is one, is
// called with the bytes that were read.
zero_status zr_zip_verify(const zr_zip *zip, void (*progress)(void *user, int64_t bytes),
                          void *user, zero_error *error);

#endif
