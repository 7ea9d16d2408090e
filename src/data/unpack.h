// Files compressed by gzip or zstd, recognised by their first bytes, are unpacked into memory, or,
// if they become large, into a spill, which is mapped.
//
// zlib and libzstd are optional: a program without one of them refuses files that need it. What
// comes out is bounded, since a file of a few MB can be made that unpacks to many GB.
#ifndef ZR_DATA_UNPACK_H
#define ZR_DATA_UNPACK_H

#include "data/spill.h"
#include "data/watch.h"

// The most bytes that a file may unpack to; or the largest multiple of its size, if that is more.
#define ZR_UNPACKED_BYTES ((size_t)4 << 30)
#define ZR_UNPACKED_TIMES 200

// What is being unpacked: an anonymous mapping that grows to `most` bytes, or a little more. From
// then on it is a buffer: whenever it is full, its bytes go to the end of a spill.
typedef struct zr_unpacked {
    const char *path;
    char *data;
    size_t length, capacity;
    zr_spill *spill; // NULL: all is in `data`
    // What it is unpacked from, whose pages are released now and then; NULL: they stay.
    const zr_mapped_file *packed;
    size_t left; // bytes of it that are still to be unpacked
    const zr_watch *watch;
    size_t limit; // of all bytes
    size_t most;  // bytes in memory; 0: ZR_SPILL_BEYOND
} zr_unpacked;

// Unpacks a file's content if a known compression made it; otherwise out->data is NULL. The caller
// unmaps *out (zr_file_unmap). ZERO_ERR_DATA for data that are damaged, cut off, or unpack to too
// much; ZERO_ERR_UNSUPPORTED if the program was built without the library.
// watch: gets a sign of life for every 64 MiB that come out; NULL is allowed.
zero_status zr_unpack(const char *path, const zr_mapped_file *packed, const zr_watch *watch,
                      zr_mapped_file *out, zero_error *error);
// Returns whether a file begins as one that zr_unpack unpacks.
bool zr_is_packed(const char *path);
// Returns whether this program unpacks what "gzip" or "zstd" has compressed.
bool zr_unpack_is_built(const char *name);
// Returns whether a path ends with `suffix`, or with `suffix` and .gz or .zst.
bool zr_packed_path_ends(const char *path, const char *suffix);

// unpack_room.c. Gives at least one byte of room after out->length, which may become smaller.
zero_status zr_unpacked_grow(zr_unpacked *out, zero_error *error);
// Returns the bytes that have come so far, in the spill and in memory.
size_t zr_unpacked_bytes(const zr_unpacked *out);
// Gives all bytes to *file.
zero_status zr_unpacked_finish(zr_unpacked *out, zr_mapped_file *file, zero_error *error);
void zr_unpacked_free(zr_unpacked *out);
zero_status zr_unpacked_refuse(const zr_unpacked *out, const char *what, zero_error *error);

// unpack_gzip.c, unpack_zstd.c: append all that a file unpacks to, several members or frames too.
zero_status zr_unpack_gzip(const char *data, size_t length, zr_unpacked *out, zero_error *error);
zero_status zr_unpack_zstd(const char *data, size_t length, zr_unpacked *out, zero_error *error);
// Fill out[0..room) exactly, for formats that say how much that is. `name` begins the errors.
zero_status zr_unpack_gzip_block(const void *data, size_t length, void *out, size_t room,
                                 const char *name, zero_error *error);
zero_status zr_unpack_zstd_block(const void *data, size_t length, void *out, size_t room,
                                 const char *name, zero_error *error);

#endif
