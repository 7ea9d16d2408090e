// Files: durable or absent, and read with every short transfer continued.
#ifndef ZR_BASE_FILE_H
#define ZR_BASE_FILE_H

#include "base/errors.h"
#include <stdio.h>

// Everything that is read is opened here: a directory, a named pipe, a socket or a device is
// ZERO_ERR_DATA at once, and never waited for.
// *fd: the caller closes it; -1 after a failure.
zero_status zr_file_open(const char *path, int *fd, zero_error *error);
// Whole file into a new 0-terminated buffer (zr_free); refuses more than `limit` bytes, naming
// both.
zero_status zr_file_read(const char *path, size_t limit, char **data, size_t *length,
                         zero_error *error);
// The same of what a person names by hand, which may be a pipe, a terminal or a device.
zero_status zr_file_read_stream(const char *path, size_t limit, char **data, size_t *length,
                                zero_error *error);
zero_status zr_file_pread(int fd, void *data, size_t bytes, int64_t offset, const char *path,
                          zero_error *error);
zero_status zr_file_pwrite(int fd, const void *data, size_t bytes, int64_t offset, const char *path,
                           zero_error *error);
// Takes the space of an open file at once, where the file system can: a full disk is found before
// anything is written.
zero_status zr_file_reserve(int fd, int64_t bytes, const char *path, zero_error *error);

// Maps a regular file read-only. Empty files: data NULL, length 0.
typedef struct zr_mapped_file {
    const char *data;
    size_t length;
} zr_mapped_file;
zero_status zr_file_map(const char *path, zr_mapped_file *out, zero_error *error);
void zr_file_unmap(zr_mapped_file *file);

// Durable write in the order: temporary name next to `path`, write, fsync, rename, fsync of the
// directory.
typedef struct zr_durable {
    int fd;
    char *path, *temporary;
} zr_durable;
zero_status zr_durable_open(const char *path, zr_durable *out, zero_error *error);
// closes; on failure the temporary is removed
zero_status zr_durable_commit(zr_durable *file, zero_error *error);
void zr_durable_discard(zr_durable *file);
// of a write that was killed, to a NAME that is known
bool zr_durable_is_left_over(const char *name, bool (*is_known)(const char *name));
zero_status zr_file_write_durable(const char *path, const void *data, size_t length,
                                  zero_error *error);
// directory/name, likewise
zero_status zr_file_write_in(const char *directory, const char *name, const void *data,
                             size_t length, zero_error *error);

// with its parents, durably; an existing one is fine
zero_status zr_directory_create(const char *path, zero_error *error);
zero_status zr_directory_sync(const char *path, zero_error *error);
// an existing one goes at once, by taking its hidden name, and then what is in it
zero_status zr_directory_discard(const char *path, zero_error *error);
// with what is in it; an absent one is fine
zero_status zr_directory_remove(const char *path, zero_error *error);
// removes what is in it; of a link, in the directory that it leads to
zero_status zr_directory_empty(const char *path, zero_error *error);
// The names in it that are not known, up to three of them, for a message; false where there are
// none. Of a directory that cannot be read nobody knows: true.
bool zr_directory_others(const char *path, bool (*is_known)(const char *name), char *names,
                         size_t room);
char *zr_path_parent(const char *path, zero_error *error); // the directory that it lies in; zr_free
bool zr_path_exists(const char *path), zr_path_is_link(const char *path);
bool zr_path_is_file(const char *path), zr_path_is_directory(const char *path); // or a link to one
bool zr_path_has(const char *directory, const char *name); // directory/name exists
// Whether `path` is `place`, or lies in it, also by way of links and mounts; false where one of
// them is not there.
bool zr_path_lies_in(const char *path, const char *place);
// The same by the names, for what is not there yet: links are followed as far as there is
// something.
bool zr_path_would_lie_in(const char *path, const char *place);
// The first bytes of a regular file, room - 1 at most, and a 0; how many. 0 where nothing can be
// read, or it is no regular file.
size_t zr_file_head(const char *path, char *out, size_t room);
// A directory that is there whole or not at all: filled under the hidden name next to it (zr_free),
// every file in it brought to the disk, then published. One that is there already changes places
// with it, so that there is always one. Where the file system cannot do that (NFS), it takes the
// name HIDDEN.earlier first: who is killed between the two renames leaves it there, whole, and the
// path is absent until the next publication.
char *zr_directory_hidden(const char *path, zero_error *error);
zero_status zr_directory_publish(const char *hidden, const char *path, zero_error *error);

// Takes an advisory lock (open file description) on path/.lock, created if absent; *fd keeps it
// until closed.
// ZERO_ERR_USAGE where another run holds it.
zero_status zr_directory_lock(const char *path, int *fd, zero_error *error);

#endif
