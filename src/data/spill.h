// Bytes of a corpus that are too many for memory: a file that nobody else sees and no crash leaves
// behind (zr_file_open_unnamed), written once from its beginning to its end, then read in pieces.
//
// It lies in $TMPDIR, or else in /var/tmp, because /tmp is memory on many machines. A spill is read
// by pread, not mapped: what a process holds of it is the piece that it asked for, and the ranks of
// a machine that read one spill share its pages in the system's cache.
#ifndef ZR_DATA_SPILL_H
#define ZR_DATA_SPILL_H

#include "base/file.h"

typedef struct zr_spill zr_spill;

// The most bytes of one kind that a rank keeps in memory: of the ids of a corpus, of what a file
// unpacks to, of files that are joined. What is more goes into a spill.
#define ZR_SPILL_BEYOND ((int64_t)64 << 20)

// What leads another process of this machine to a spill, as long as its own process has it open.
typedef struct zr_spill_place {
    int64_t process, fd, device, inode;
} zr_spill_place;

// Creates an empty one. `what` begins the messages: "the tokens of \"a.txt\"". ZERO_ERR_USAGE if
// there is no directory for it, or it cannot be written.
zero_status zr_spill_create(const char *what, zr_spill **out, zero_error *error);
void zr_spill_destroy(zr_spill *spill); // NULL is allowed

// Appends bytes. ZERO_ERR_IO if the disk is full: the message names the directory, and TMPDIR.
zero_status zr_spill_append(zr_spill *spill, const void *data, size_t bytes, zero_error *error);
int64_t zr_spill_bytes(const zr_spill *spill); // appended so far
// Ends the writing. Nothing can be read before.
zero_status zr_spill_finish(zr_spill *spill, zero_error *error);

// Reads bytes [at, at + bytes), which must have been written. If the disk fails they become zeros,
// and zr_spill_check says so from then on: call it before what was read counts. Any thread may
// read.
void zr_spill_read(zr_spill *spill, int64_t at, void *out, size_t bytes);
zero_status zr_spill_check(const zr_spill *spill, zero_error *error);
// Maps a spill that has been ended; the mapping stays when the spill is destroyed.
zero_status zr_spill_map(const zr_spill *spill, zr_mapped_file *out, zero_error *error);

zr_spill_place zr_spill_place_of(const zr_spill *spill);
// Opens the spill of another process for reading. *out is NULL if it is out of reach: the process
// belongs to another user, or is in a container of its own. ZERO_ERR_MEMORY.
zero_status zr_spill_open_at(const zr_spill_place *place, const char *what, zr_spill **out,
                             zero_error *error);

#endif
