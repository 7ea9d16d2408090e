// Text files as bytes, and how other files are recognised.
#ifndef ZR_DATA_TEXT_H
#define ZR_DATA_TEXT_H

#include "base/file.h"
#include "base/errors.h"
#include "data/watch.h"

typedef struct zr_text { // the files' bytes, one after another
    const char *data;
    size_t length;
    int files;
    size_t *ends;          // (files) end of each one
    zr_mapped_file mapped; // a single file, which is not copied; or the spill of several
    char *copied;          // several files that are small enough for memory
} zr_text;

// Reads the files, unpacks those that are compressed (unpack.h), and joins them in the order given.
// Returns ZERO_ERR_IO for a missing file; ZERO_ERR_DATA for an empty file or a directory; the error
// names it. watch: while files are unpacked or joined; NULL is allowed.
zero_status zr_text_load(const char *const *paths, int count, const zr_watch *watch, zr_text *out,
                         zero_error *error);
void zr_text_free(zr_text *text);

// Returns where the last tenth begins, moved to the beginning of a character: training takes [0,
// split), validation uses [split, length).
size_t zr_text_split(const zr_text *text);
size_t zr_text_nine_tenths(size_t length); // rounded down

// Map one file (zr_file_unmap), or what it unpacks to; they refuse what zr_text_load refuses.
// `what` ("JSON") is the kind of file that is needed, for the error.
zero_status zr_text_map(const char *path, const zr_watch *watch, zr_mapped_file *out,
                        zero_error *error);
zero_status zr_text_map_as(const char *path, const char *what, const zr_watch *watch,
                           zr_mapped_file *out, zero_error *error);

// From text_check.c: files of other programs begin with bytes with which no text begins, or hold
// bytes that are not UTF-8.
//
// Refuses a file by its name (tables of .csv and .tsv) and by its first bytes. `what` ("text",
// "JSONL") is the kind of file that is needed. ZERO_ERR_DATA.
zero_status zr_text_check_name(const char *path, zero_error *error);
zero_status zr_text_check_kind(const char *path, const char *what, const char *data, size_t length,
                               zero_error *error);
// Refuses NULs and bytes that are not UTF-8 in [*at, *at + bytes), and moves *at to the end of what
// it has checked. A character may be cut at the beginning and at the end of the file, because the
// program split cuts files so.
zero_status zr_text_check_bytes(const char *path, const char *data, size_t length, size_t bytes,
                                size_t *at, zero_error *error);

#endif
