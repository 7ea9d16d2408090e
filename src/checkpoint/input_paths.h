// What a command reads, so that nothing that it writes replaces or removes any of it.
#ifndef ZR_CHECKPOINT_INPUT_PATHS_H
#define ZR_CHECKPOINT_INPUT_PATHS_H

#include "base/errors.h"

typedef struct zr_input_path {
    char *path;
    const char *option;
} zr_input_path;
// A zeroed one is empty.
typedef struct zr_input_paths {
    zr_input_path *at;
    int count, capacity;
} zr_input_paths;

// Adds a path; `option` is what named it ("--model"), for messages. A path that is NULL, or that
// does not exist, is left out.
zero_status zr_input_paths_add(zr_input_paths *reads, const char *path, const char *option,
                               zero_error *error);
// Adds (count) texts of the form [KIND:]PATH[:WEIGHT], patterns included. What cannot be parsed is
// left to the caller that opens it.
zero_status zr_input_paths_add_data(zr_input_paths *reads, const char *const *written, int count,
                                    const char *option, zero_error *error);
void zr_input_paths_free(zr_input_paths *reads);
// ZERO_ERR_USAGE if `doomed`, a file or directory that is to be replaced or removed, holds
// something that is read, as a file of its own or by a link. That `doomed` lies in a directory that
// is read is no reason to fail: what libzero replaces there, such as an earlier conversion, is not
// read. `reads` may be NULL.
zero_status zr_input_paths_spare(const zr_input_paths *reads, const char *doomed,
                                 zero_error *error);

#endif
