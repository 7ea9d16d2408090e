// Long transfers to and from files that bypass the page cache where the file system allows it.
//
// Writing: ranges of bytes, to a few files.
//
//   caller    copy and sum into block 0 | block 1 | block 2 ...      zr_direct_sync
//   threads                               write 0 | write 1 ...      the rest, fsync
//
//   a range   [ page that others share | whole pages ................ | page that others share ]
//   goes        through the page cache   from an aligned block to disk  through the page cache
//
// The two ways into one file agree because no page is written by both. Where the cache cannot be
// bypassed, everything goes through it, and each block is brought to the disk at once: memory does
// not fill up, and the last fsync is short.
//
// Reading: threads read the extents of one file ahead, in an order given beforehand, and sum them.
#ifndef ZR_BASE_DIRECT_H
#define ZR_BASE_DIRECT_H

#include "base/errors.h"

typedef struct zr_direct zr_direct;

// A file that is open for writing. The path is used to open it a second time, and in messages.
typedef struct zr_direct_file {
    int fd;
    char *path;
} zr_direct_file;

// The descriptors and paths (count) must outlive it. ZERO_ERR_MEMORY.
zero_status zr_direct_create(const zr_direct_file *files, int count, zr_direct **out,
                             zero_error *error);
// Copies `data`, which may change as soon as the call returns. *checksum is its CRC32C. Call it
// from one thread at a time. Ranges that follow each other in a file become one write. No two
// ranges that are not on the disk yet may overlap. ZERO_ERR_IO, with file and offset, may come from
// an earlier call.
zero_status zr_direct_write(zr_direct *direct, int file, int64_t offset, const void *data,
                            size_t bytes, uint32_t *checksum, zero_error *error);
// Returns once everything written is on the disk.
zero_status zr_direct_sync(zr_direct *direct, zero_error *error);
// Waits for the writes that are under way; blocks that were not handed on yet are dropped.
void zr_direct_destroy(zr_direct *direct);

// Its bytes are 1 to ZR_DIRECT_EXTENT.
typedef struct zr_direct_extent {
    int64_t offset, bytes;
} zr_direct_extent;
#define ZR_DIRECT_EXTENT ((int64_t)1 << 20)

typedef struct zr_direct_reader zr_direct_reader;

// Begins to read at once. Path and extents (count) must outlive it. ZERO_ERR_IO, ZERO_ERR_MEMORY.
zero_status zr_direct_reader_create(const char *path, const zr_direct_extent *extents,
                                    int64_t count, zr_direct_reader **out, zero_error *error);
// Waits for the next extent of the list. *data is valid until the next call; *checksum is its
// CRC32C. ZERO_ERR_IO; ZERO_ERR_DATA where the file has ended; ZERO_ERR_INTERNAL where no extent is
// left.
zero_status zr_direct_reader_next(zr_direct_reader *reader, const char **data, uint32_t *checksum,
                                  zero_error *error);
void zr_direct_reader_destroy(zr_direct_reader *reader);

#endif
