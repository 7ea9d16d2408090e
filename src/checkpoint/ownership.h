// What libzero may replace or remove: only what it has written itself, recognised by its content,
// and nothing that lies among it.
//
// The --out of a training may be a folder that holds other things. Each of a run's names in it
// (metrics.jsonl, times.json, config.json, checkpoints/, model/, best/) is examined: a config.json
// without "libzero.run" is a model's; a model/ without a receipt belongs to somebody else, and so
// does a NOTES.md in a model/.
#ifndef ZR_CHECKPOINT_OWNERSHIP_H
#define ZR_CHECKPOINT_OWNERSHIP_H

#include "base/errors.h"

// What a command reads, so that nothing that it writes replaces or removes any of it
// (input_paths.c).
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
zero_status zr_input_paths_protect(const zr_input_paths *reads, const char *doomed,
                                   zero_error *error);

enum {
    ZR_RUN_CHECKPOINTS,
    ZR_RUN_MODEL,
    ZR_RUN_BEST,
    ZR_RUN_TIMES,
    ZR_RUN_METRICS,
    ZR_RUN_CONFIG,
    ZR_RUN_ENTRIES
};
enum { ZR_OWN_PATH = 4096 };
// In the order of removal: config.json goes last, because the others are recognised by it.
extern const char *const zr_run_entries[ZR_RUN_ENTRIES];

// Returns whether directory/zr_run_entries[entry] (or .lock, for entry -1) is not a run's, or, with
// `within`, something in it is not; `foreign` is then its path. What does not exist is not foreign.
bool zr_ownership_is_foreign(const char *directory, int entry, bool within,
                             char foreign[static ZR_OWN_PATH]);

// Returns whether the name is one that our model directories have: weights, config.json, the
// tokenizer's files, a receipt, and what a killed save has left of them.
bool zr_ownership_is_model_file(const char *name);
// Removes what killed writes into a run have left; call it under the run's lock. A checkpoint whose
// name they had taken gets it back first.
zero_status zr_ownership_sweep(const char *run, zero_error *error);

// Call it before a file is written to `path`. ZERO_ERR_USAGE if `path` is a file that libzero did
// not write as such (is_own; an empty file may always be replaced), or is something else than a
// file, or is being read. `what` is for the message: "profile".
zero_status zr_ownership_check_file(const char *path, const char *what,
                                    bool (*is_own)(const char *path), const zr_input_paths *reads,
                                    zero_error *error);

// Call it before anything is written. ZERO_ERR_USAGE if `path`, to which `what` is to be written,
// is one of the run's own files and folders (or .lock), or lies in one; or, with is_file, if it is
// the run's own directory or one above it. A NULL path is allowed.
zero_status zr_ownership_check_outside(const char *run, const char *path, bool is_file,
                                       const char *what, zero_error *error);

#endif
