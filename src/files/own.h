// What libzero may replace or remove: what it has written itself, told by its content, and nothing
// that lies among it.
//
// The --out of a training may be a folder that holds other things. Of a run's names in it
// (metrics.jsonl, config.json, checkpoints/, model/, best/) each is looked at: a config.json
// without "libzero.run" is a model's, a model/ without a receipt is somebody's, and NOTES.md in a
// model/ is too.
#ifndef ZR_FILES_OWN_H
#define ZR_FILES_OWN_H

#include "files/reads.h"

enum {
    ZR_RUN_CHECKPOINTS,
    ZR_RUN_MODEL,
    ZR_RUN_BEST,
    ZR_RUN_METRICS,
    ZR_RUN_CONFIG,
    ZR_RUN_ENTRIES
};
enum { ZR_OWN_PATH = 4096 };
// in the order of removal: config.json, by which the others are known, goes last
extern const char *const zr_run_entries[ZR_RUN_ENTRIES];

// Whether directory/zr_run_entries[entry] (or .lock, for entry -1) is not a run's, or, with
// `within`, something in it is not; `foreign` says which path.
// What is not there is not foreign.
bool zr_own_is_foreign(const char *directory, int entry, bool within,
                       char foreign[static ZR_OWN_PATH]);

// What a model directory of ours has in it: weights, config.json, the tokenizer's files, a receipt,
// and what a save that was killed has left of them.
bool zr_own_is_model_file(const char *name);
// Under the run's lock: removes what writes into a run that were killed have left; a checkpoint
// whose name they had taken gets it back first.
zero_status zr_own_sweep(const char *run, zero_error *error);

// Before a file is written to `path`: ZERO_ERR_USAGE where one lies there that libzero did not
// write as such (is_own; an empty file is nobody's), where something else lies there, or where it
// is read. what: "profile", for the message.
zero_status zr_own_check_file(const char *path, const char *what, bool (*is_own)(const char *path),
                              const zr_reads *reads, zero_error *error);

// Before anything is written: ZERO_ERR_USAGE where `path`, to which `what` is to be written, is one
// of the run's own files and folders (or .lock), or lies in one; or is_file, and it is the run's
// own directory, or one above it. path NULL: fine.
zero_status zr_own_stay_apart(const char *run, const char *path, bool is_file, const char *what,
                              zero_error *error);

#endif
