// Long transfers to and from files, past the page cache where the file system has such a way.
//
// Writing: ranges of bytes, to a few files.
//
//   caller    copy and sum into block 0 | block 1 | block 2 ...      zr_direct_sync
//   threads                               write 0 | write 1 ...      the rest, fsync
//
//   a range   [ page that others share | whole pages ................ | page that others share ]
//   goes        through the page cache   from an aligned block to disk  through the page cache
//
// Two ways into one file agree because no page is written by both. Where there is no way past the
// cache everything goes through it, and each block is brought to the disk at once, so that memory
// does not fill up and the last fsync is short.
//
// Reading: extents of one file, in an order that is known before, are read ahead and summed by
// threads.
#ifndef ZR_BASE_DIRECT_H
#define ZR_BASE_DIRECT_H

#include "base/errors.h"

typedef struct zr_direct zr_direct;

// open for writing; path: to open it once more, and for messages
typedef struct zr_direct_file {
    int fd;
    char *path;
} zr_direct_file;

// The descriptors and paths (count) outlive it. ZERO_ERR_MEMORY.
zero_status zr_direct_create(const zr_direct_file *files, int count, zr_direct **out,
                             zero_error *error);
// On one thread at a time. Copies: data may change when the call returns. *checksum: CRC32C of it.
// Ranges that follow each other in a file become one. Of ranges that are not on the disk yet, no
// two have a byte in common. ZERO_ERR_IO with file and offset: of this or an earlier call.
zero_status zr_direct_write(zr_direct *direct, int file, int64_t offset, const void *data,
                            size_t bytes, uint32_t *checksum, zero_error *error);
// All that was written is on the disk.
zero_status zr_direct_sync(zr_direct *direct, zero_error *error);
// Waits for what is under way; the rest is not written.
void zr_direct_destroy(zr_direct *direct);

// bytes: 1 to ZR_DIRECT_EXTENT
typedef struct zr_direct_extent {
    int64_t offset, bytes;
} zr_direct_extent;
#define ZR_DIRECT_EXTENT ((int64_t)1 << 20)

typedef struct zr_direct_reader zr_direct_reader;

// Begins at once. Path and extents (count) outlive it. ZERO_ERR_IO, ZERO_ERR_MEMORY.
zero_status zr_direct_reader_create(const char *path, const zr_direct_extent *extents,
                                    int64_t count, zr_direct_reader **out, zero_error *error);
// The next extent of the list: *data is there until the next call, *checksum its CRC32C.
// ZERO_ERR_IO;
// ZERO_ERR_DATA where the file has ended; ZERO_ERR_INTERNAL where none is left.
zero_status zr_direct_reader_next(zr_direct_reader *reader, const char **data, uint32_t *checksum,
                                  zero_error *error);
void zr_direct_reader_destroy(zr_direct_reader *reader);

#endif
