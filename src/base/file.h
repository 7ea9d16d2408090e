// Files: they are written durably or not at all, every short transfer is continued, and a checksum
// tells whether their content is what was written.
#ifndef ZR_BASE_FILE_H
#define ZR_BASE_FILE_H

#include "base/errors.h"
#include <stdio.h>

// Opens a file for reading; every read begins here. A directory, a named pipe, a socket or a device
// fails at once with ZERO_ERR_DATA and is never waited for. The caller closes *fd, which is -1
// after a failure.
zero_status zr_file_open(const char *path, int *fd, zero_error *error);
// Reads the whole file into a new buffer that ends with a 0 (zr_free). Refuses a file of more than
// `limit` bytes; the message names both sizes.
zero_status zr_file_read(const char *path, size_t limit, char **data, size_t *length,
                         zero_error *error);
// The same for a path that a person has typed, which may be a pipe, a terminal or a device.
zero_status zr_file_read_stream(const char *path, size_t limit, char **data, size_t *length,
                                zero_error *error);
zero_status zr_file_pread(int fd, void *data, size_t bytes, int64_t offset, const char *path,
                          zero_error *error);
zero_status zr_file_pwrite(int fd, const void *data, size_t bytes, int64_t offset, const char *path,
                           zero_error *error);
// Allocates the space of an open file at once if the file system can, so that a full disk is
// found before anything is written.
zero_status zr_file_reserve(int fd, int64_t bytes, const char *path, zero_error *error);
// Opens a file for reading and writing that nobody else can see and no crash leaves behind: it is
// never linked, or unlinked as soon as it is open. *name: what messages call it (zr_free),
// PREFIX.<number>; `prefix` begins with the directory. Returns 0, or an errno and no name.
int zr_file_open_unnamed(const char *directory, const char *prefix, int number, char **name,
                         int *fd);

// Maps a regular file read-only. An empty file has data NULL and length 0.
typedef struct zr_mapped_file {
    const char *data;
    size_t length;
    bool on_disk; // its pages come from a file, which has them again once they are released
} zr_mapped_file;
zero_status zr_file_map(const char *path, zr_mapped_file *out, zero_error *error);
// Maps `length` bytes of an open file, which may be closed then. `path` is for the message.
zero_status zr_file_map_open(int fd, size_t length, const char *path, zr_mapped_file *out,
                             zero_error *error);
// Takes the pages of [first, end), and some before, out of this process's memory, if a file has
// them. A later access reads them again.
void zr_file_release(const zr_mapped_file *file, size_t first, size_t end);
void zr_file_unmap(zr_mapped_file *file);

// A durable write. Its order is: write under a temporary name next to `path`, fsync, rename, fsync
// of the directory.
typedef struct zr_durable {
    int fd;
    char *path, *temporary;
} zr_durable;
zero_status zr_durable_open(const char *path, zr_durable *out, zero_error *error);
// Closes the file. On failure it removes the temporary.
zero_status zr_durable_commit(zr_durable *file, zero_error *error);
void zr_durable_discard(zr_durable *file);
// Returns whether `name` is the temporary of a durable write (one that was killed) to a known name.
bool zr_durable_is_left_over(const char *name, bool (*is_known)(const char *name));
zero_status zr_file_write_durable(const char *path, const void *data, size_t length,
                                  zero_error *error);
// The same for directory/name.
zero_status zr_file_write_in(const char *directory, const char *name, const void *data,
                             size_t length, zero_error *error);
// Write a text durably and free it. ZERO_ERR_MEMORY if there was no memory for it (text->failed).
struct zr_buffer;
zero_status zr_file_write_text(const char *path, struct zr_buffer *text, zero_error *error);
zero_status zr_file_write_text_in(const char *directory, const char *name, struct zr_buffer *text,
                                  zero_error *error);

// Creates the directory and its parents durably; it may exist already.
zero_status zr_directory_create(const char *path, zero_error *error);
zero_status zr_directory_sync(const char *path, zero_error *error);
// Removes a directory so that it disappears at once: it is renamed to its hidden name, then removed
// with its content.
zero_status zr_directory_discard(const char *path, zero_error *error);
// Removes a directory with its content; it may be absent.
zero_status zr_directory_remove(const char *path, zero_error *error);
// Removes the content of a directory; a link is followed to the directory it leads to.
zero_status zr_directory_empty(const char *path, zero_error *error);
// Returns whether the directory has entries that are not known, and writes up to three of their
// names for a message. It also returns true for a directory that exists and cannot be read.
bool zr_directory_others(const char *path, bool (*is_known)(const char *name), char *names,
                         size_t room);
// Returns the parent directory's path (zr_free).
char *zr_path_parent(const char *path, zero_error *error);
bool zr_path_exists(const char *path), zr_path_is_link(const char *path);
// A link to one counts, too.
bool zr_path_is_file(const char *path), zr_path_is_directory(const char *path);
bool zr_path_has(const char *directory, const char *name); // directory/name exists
// Returns whether `path` is `place` or lies in it, also by way of links and mounts; false if
// either does not exist.
bool zr_path_lies_in(const char *path, const char *place);
// The same, judged by names, for paths that do not exist yet: links are followed as far as the path
// exists.
bool zr_path_would_lie_in(const char *path, const char *place);
// Reads the first bytes of a regular file, at most room - 1, and appends a 0. Returns their number,
// which is 0 if the file cannot be read or is not a regular one.
size_t zr_file_head(const char *path, char *out, size_t room);
// A directory that appears whole or not at all. It is filled under a hidden name next to its own
// (zr_free), every file in it is brought to the disk, and then it is published. A directory that
// has the name already is exchanged with it, so that one always exists. Where the file system
// cannot exchange names (NFS), the old one is first renamed to HIDDEN.earlier: a process killed
// between the two renames leaves it there, whole, and the path stays absent until the next
// publication.
char *zr_directory_hidden(const char *path, zero_error *error);
zero_status zr_directory_publish(const char *hidden, const char *path, zero_error *error);

#define ZR_LOCK_FILE ".lock"
// Takes an advisory lock (open file description) on path/.lock, which is created if absent. *fd
// holds it until it is closed. ZERO_ERR_USAGE if another run holds the lock.
zero_status zr_directory_lock(const char *path, int *fd, zero_error *error);

// Files of the user's cache: ~/.cache/libzero, or libzero below XDG_CACHE_HOME. They hold what was
// measured and can be measured again.
//
// Returns the path of a file of the cache (zr_free), which need not exist. `what` names its content
// for the message: "bandwidths". ZERO_ERR_USAGE: no place for a cache is known; ZERO_ERR_MEMORY.
zero_status zr_user_cache_file(const char *name, const char *what, char **file, zero_error *error);
// Creates the directory of such a file.
zero_status zr_user_cache_reserve(const char *file, zero_error *error);

// Continues a CRC32C (Castagnoli) over `data`; a new one starts from 0. Uses the processor's
// instruction if it has one, else a table.
uint32_t zr_crc32c(uint32_t crc, const void *data, size_t length);
// The same from a table alone, on any processor.
uint32_t zr_crc32c_table(uint32_t crc, const void *data, size_t length);

#endif
