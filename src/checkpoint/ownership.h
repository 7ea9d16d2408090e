// Guards everything that libzero replaces or removes: it must be libzero's own work, recognised by
// its content, without files of others in it.
//
// The --out of a training may be a folder that holds other things. Each of a run's names in it
// (metrics.jsonl, times.json, config.json, checkpoints/, model/, adapter/, best/) is examined: a
// config.json without "libzero.run" is a model's; a model/ without a receipt was not written by
// libzero, and neither was a NOTES.md in a model/.
#ifndef ZR_CHECKPOINT_OWNERSHIP_H
#define ZR_CHECKPOINT_OWNERSHIP_H

#include "base/errors.h"

// The inputs of a command, so that it does not replace or remove them (input_paths.c).
typedef struct zr_input_path {
    char *path;
    const char *option;
} zr_input_path;
// A zeroed one is empty.
typedef struct zr_input_paths {
    zr_input_path *at;
    int count, capacity;
} zr_input_paths;

// Adds a path; `option` is the option that named it ("--model"), for messages. A path that is NULL
// or does not exist is left out.
zero_status zr_input_paths_add(zr_input_paths *reads, const char *path, const char *option,
                               zero_error *error);
// Adds (count) texts of the form [KIND:]PATH[:WEIGHT], patterns included. A text that cannot be
// parsed is ignored here: opening it reports the error.
zero_status zr_input_paths_add_data(zr_input_paths *reads, const char *const *written, int count,
                                    const char *option, zero_error *error);
void zr_input_paths_free(zr_input_paths *reads);
// ZERO_ERR_USAGE if `doomed`, a file or directory that is to be replaced or removed, is or contains
// an input, also through a link. It may lie in a directory that is an input: files that libzero
// replaces there, such as an earlier conversion, are not read. `reads` may be NULL.
zero_status zr_input_paths_protect(const zr_input_paths *reads, const char *doomed,
                                   zero_error *error);

enum {
    ZR_RUN_CHECKPOINTS,
    ZR_RUN_MODEL,
    ZR_RUN_BEST,
    ZR_RUN_EMA,
    ZR_RUN_ADAPTER,
    ZR_RUN_TIMES,
    ZR_RUN_METRICS,
    ZR_RUN_CONFIG,
    ZR_RUN_ENTRIES
};
enum { ZR_OWN_PATH = 4096 };
// In the order of removal: config.json is removed last, because it identifies the others.
extern const char *const zr_run_entries[ZR_RUN_ENTRIES];

// Returns whether directory/zr_run_entries[entry] (or .lock, for entry -1) was not written by a run
// or, with `within`, contains anything else; `foreign` is then the path. An entry that does not
// exist is not foreign.
bool zr_ownership_is_foreign(const char *directory, int entry, bool within,
                             char foreign[static ZR_OWN_PATH]);

// Returns whether libzero's model directories have files of this name: weights, config.json, the
// tokenizer's files, a receipt, and temporary files of a killed save.
bool zr_ownership_is_model_file(const char *name);
// Removes the remains of killed writes into a run; call it under the run's lock. A checkpoint that
// was renamed to be replaced gets its name back first.
zero_status zr_ownership_sweep(const char *run, zero_error *error);

// Call it before a file is written to `path`. ZERO_ERR_USAGE if `path` is a file that libzero did
// not write as such (is_own; an empty file may always be replaced), or is not a file, or is an
// input. `what` is for the message: "profile".
zero_status zr_ownership_check_file(const char *path, const char *what,
                                    bool (*is_own)(const char *path), const zr_input_paths *reads,
                                    zero_error *error);

// Call it before anything is written. ZERO_ERR_USAGE if `path`, to which `what` is to be written,
// is one of the run's own files and folders (or .lock), or lies in one; or, with is_file, if it is
// the run's own directory or one above it. A NULL path is allowed.
zero_status zr_ownership_check_outside(const char *run, const char *path, bool is_file,
                                       const char *what, zero_error *error);

#endif
