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
// An extent whose rows have gaps between them goes through the page cache, with one write, or read,
// a row: other ranks write the gaps, and most pages belong to several of them. Once a file has got
// rows thinner than a page, its ranges go there, too: past the cache they would hold up the rows,
// because a file has one lock.
//
// Reading: threads read the extents of one file ahead, in an order given beforehand, and sum them.
#ifndef ZR_MEMORY_DIRECT_H
#define ZR_MEMORY_DIRECT_H

#include "base/errors.h"

#define ZR_DIRECT_EXTENT ((int64_t)1 << 20)
// Bytes of a file, 1 to ZR_DIRECT_EXTENT in all: `rows` rows of `width` bytes, each `stride` bytes
// after the one before; rows 1: a stretch. In memory the rows follow each other.
typedef struct zr_direct_extent {
    int64_t offset, width, stride, rows;
} zr_direct_extent;
zr_direct_extent zr_direct_stretch(int64_t offset, int64_t bytes);
int64_t zr_direct_extent_bytes(const zr_direct_extent *extent);

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
// Does the same with an extent, whose rows need not follow each other in the file. The checksum
// goes over them in order.
zero_status zr_direct_write_extent(zr_direct *direct, int file, const zr_direct_extent *extent,
                                   const void *data, uint32_t *checksum, zero_error *error);
// Returns once everything written is on the disk.
zero_status zr_direct_sync(zr_direct *direct, zero_error *error);
// Waits for the writes that are under way; blocks that were not handed on yet are dropped.
void zr_direct_destroy(zr_direct *direct);

// Reads an extent now, through the page cache. ZERO_ERR_IO; ZERO_ERR_DATA where the file has ended.
zero_status zr_direct_read_extent(int fd, const char *path, const zr_direct_extent *extent,
                                  void *data, zero_error *error);

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
