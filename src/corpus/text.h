// Text files as the bytes they hold.
#ifndef ZR_CORPUS_TEXT_H
#define ZR_CORPUS_TEXT_H

#include "base/file.h"

typedef struct zr_text { // the files' bytes, one after another
    const char *data;
    size_t length;
    int files;
    size_t *ends;          // (files) where each ends
    zr_mapped_file mapped; // of a single file, which is not copied
    char *copied;          // of several
} zr_text;

// Reads and joins the files in the order given. Missing file: ZERO_ERR_IO; empty file or directory:
// ZERO_ERR_DATA; each named.
zero_status zr_text_load(const char *const *paths, int count, zr_text *out, zero_error *error);
void zr_text_free(zr_text *text);

// Where each of the files ends, were they one text: ends (count). Refuses as zr_text_load; keeps
// nothing of them.
zero_status zr_text_measure(const char *const *paths, int count, size_t *ends, zero_error *error);

// Where the last tenth begins, moved to a character boundary: training takes [0, split), validation
// [split, length).
size_t zr_text_split(const zr_text *text);
size_t zr_text_nine_tenths(size_t length); // rounded down

// One file, mapped (zr_file_unmap); refused as above. `what` ("JSONL") says what is needed.
zero_status zr_text_map(const char *path, zr_mapped_file *out, zero_error *error);
zero_status zr_text_map_as(const char *path, const char *what, zr_mapped_file *out,
                           zero_error *error);

#endif
